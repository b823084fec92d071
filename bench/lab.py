"""A Rota of our own: started in a temporary home as a user would, with its processes, database and WAL in sight.

Nothing is switched off: the database is the embedded one as `rota up` starts it, with fsync on; jobs come over HTTP
with a token, and every run is recorded. Workers are `rota worker` processes that can be started and stopped apart, so
that a backlog can be built and then drained.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import asyncpg
import msgspec
import psutil

from bench.http_load import Target
from bench.tasks import Counter
from rota.client.http_messages import ExchangeError
from rota.ops.bench_load import Connections
from rota.store.postgres.embedded import EmbeddedPostgres

ROOT = Path(__file__).parent.parent
READY_SECONDS = 180.0
STOP_SECONDS = 180.0
LOOK_SECONDS = 0.02


class Usage(msgspec.Struct):
    """What was used between two looks."""

    seconds: float
    rota_cpu_seconds: float
    postgres_cpu_seconds: float
    wal_bytes: int
    transactions: int


class Lab:
    """`rota up` without workers in a temporary home, and workers beside it. Use as an async context manager."""

    def __init__(self, *, workers: int = 0, **variables: str) -> None:
        """`variables`: settings of all its processes."""
        self.home = Path(tempfile.mkdtemp(prefix="rota-bench-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.counter = Counter.make(self.home / "counter")
        self.workers: list[asyncio.subprocess.Process] = []
        self._wanted = workers
        self._variables = variables
        self._up: asyncio.subprocess.Process | None = None
        self._before: Usage | None = None
        self._postgres = EmbeddedPostgres(self.home)
        self.database: asyncpg.Connection[Any] = None

    async def __aenter__(self) -> Self:
        try:
            options = ["--home", str(self.home), "--port", str(self.port), "--workers", "0"]
            self._up = await self._start("up", *options)
            await self._until(self._is_up, self._up)
            self.database = await asyncpg.connect(self._postgres.url(), server_settings={"jit": "off"})
            await self.start_workers(self._wanted)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._stop()

    @property
    def token(self) -> str:
        """The admin token."""
        return (self.home / "admin.token").read_text().strip()

    def database_url(self, name: str) -> str:
        """A database of the server that Rota runs on."""
        return self._postgres.url(name)

    def connect(self, count: int) -> Connections:
        """Connections to the API with the admin token."""
        return Connections(self.url, self.token, count)

    def target(self) -> Target:
        """The API's process, for load with the admin token."""
        (api,) = (process.pid for role, process in self.roles() if role == "api")
        return Target(self.url, self.token, api)

    @asynccontextmanager
    async def second_api(self) -> AsyncIterator[Target]:
        """Another API process on the same database."""
        port = free_port()
        second = await self._start("api", "--home", str(self.home), "--port", str(port))
        try:
            await self._until(partial(self._is_up, f"http://127.0.0.1:{port}"), second)
            yield Target(f"http://127.0.0.1:{port}", self.token, second.pid)
        finally:
            await _end(second)

    async def start_workers(self, count: int) -> None:
        """Starts workers and waits until they have joined."""
        started = [
            await self._start("worker", "--home", str(self.home), "--app", "bench.tasks:app") for _ in range(count)
        ]
        self.workers += started

        async def joined() -> bool:
            pids = [worker.pid for worker in started]
            known = await self.database.fetchval(
                "SELECT count(*) FROM rota.workers WHERE pid = ANY ($1::integer[]) AND gone_at IS NULL", pids
            )
            return bool(known == count)

        for worker in started:
            await self._until(joined, worker)

    async def stop_workers(self) -> None:
        """Stops all workers; they drain first."""
        for worker in self.workers:
            await _end(worker)
        self.workers.clear()

    async def look(self) -> None:
        """Begins to count what is used."""
        self._before = await self._used()

    async def used(self) -> Usage:
        """What was used since `look`."""
        assert self._before is not None, "look() comes first"  # noqa: S101 - a mistake in the benchmark itself
        before, now = msgspec.structs.asdict(self._before), msgspec.structs.asdict(await self._used())
        return Usage(**{name: now[name] - before[name] for name in now})

    def peak_memory(self) -> dict[str, int]:
        """The most resident bytes each of Rota's processes ever had, by role."""
        peaks: dict[str, int] = {}
        for role, process in self.roles():
            status = Path(f"/proc/{process.pid}/status").read_text()
            line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
            peaks[role] = max(peaks.get(role, 0), int(line.split()[1]) * 1024)
        return peaks

    def roles(self) -> list[tuple[str, psutil.Process]]:
        """Rota's own processes with what they are: up, api, worker."""
        found = []
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                words = process.cmdline()
                if "rota.cli.main" in words:
                    found.append((words[words.index("rota.cli.main") + 1], process))
        return found

    async def has_run(self, total: int, seconds: float = 600.0) -> float:
        """Waits until the counter stands at `total`; returns the moment it saw that."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            if self.counter.total >= total:
                return time.perf_counter()
            await asyncio.sleep(LOOK_SECONDS)
        raise TimeoutError(f"{total - self.counter.total} runs were still to be run after {seconds:g} s")

    async def drained(self, task: str | None = None, seconds: float = 600.0) -> float:
        """Waits until no run (of a task) is ready or claimed; returns the moment it saw that."""
        live = "SELECT EXISTS (SELECT FROM rota.live_runs WHERE $1::text IS NULL OR task = $1)"
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            if not await self.database.fetchval(live, task):
                return time.perf_counter()
            await asyncio.sleep(LOOK_SECONDS)
        raise TimeoutError(f"runs were still live after {seconds:g} s")

    async def finished(self) -> int:
        """How many runs history holds that succeeded."""
        return int(await self.database.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'"))

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        environment |= self._variables
        environment |= {"ROTA_BENCH_COUNTER": str(self.home / "counter"), "PYTHONPATH": str(ROOT)}
        with (self.home / "rota.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "rota.cli.main", *arguments), env=environment, stdout=log, stderr=log, cwd=ROOT
            )

    async def _until(self, there: Any, process: asyncio.subprocess.Process) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not await there():
            if time.monotonic() > deadline or process.returncode is not None:
                raise RuntimeError(f"Rota did not start:\n{(self.home / 'rota.log').read_text()}")
            await asyncio.sleep(0.1)

    async def _is_up(self, url: str | None = None) -> bool:
        if not (self.home / "admin.token").exists():
            return False
        with suppress(ExchangeError):
            async with Connections(url or self.url, self.token, 1) as connections:
                await connections.get("/v1/workers")
                return True
        return False

    async def _stop(self) -> None:
        await self.stop_workers()
        if self.database and not self.database.is_closed():
            await self.database.close()
        if self._up:
            await _end(self._up)
        self.counter.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _processes(self) -> list[psutil.Process]:
        """The supervisor and everything below it, and the workers."""
        found = []
        for process in (self._up, *self.workers):
            if process and process.returncode is None:
                parent = psutil.Process(process.pid)
                found += [parent, *parent.children(recursive=True)]
        return found

    async def _used(self) -> Usage:
        rota = postgres = 0.0
        ours = {process.pid for _, process in self.roles()}
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                if process.pid in ours:
                    rota += times.user + times.system
                else:
                    # Backends that have ended are counted by their parent, the postmaster.
                    postgres += times.user + times.system + times.children_user + times.children_system
        row = await self.database.fetchrow(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal,"
            " (SELECT sum(xact_commit)::bigint FROM pg_stat_database) AS transactions"
        )
        return Usage(time.perf_counter(), rota, postgres, row["wal"], row["transactions"])


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
