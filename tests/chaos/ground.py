"""A whole fleet on a PostgreSQL of its own: half of it reaches the database directly, half through PgBouncer."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import asyncpg
import httpx
from history import Exit, History

from pgbouncer import PgBouncer, find_pgbouncer
from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from support import eventually, free_port

HERE = Path(__file__).parent
APIS, SCHEDULERS, WORKERS = 2, 2, 3
_READY_SECONDS = 60.0
# A stock server compiles whatever it thinks is expensive; here that is everything.
_SERVER = {"jit": "on", "jit_above_cost": "100", "max_connections": "150"}
# A traceback to its last line. Tasks fail on purpose, and say so.
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:(?:[ ].*|)\n)*.*", re.MULTILINE)


class Member:
    """One process of the fleet, started again whenever it ends."""

    def __init__(self, ground: Ground, name: str, *arguments: str, **environment: str) -> None:
        self.name = name
        self._ground = ground
        self._arguments = arguments
        self._environment = environment
        self._told_to_end = False
        self._process: asyncio.subprocess.Process | None = None

    def send(self, number: signal.Signals) -> None:
        if self._process:
            self._process.send_signal(number)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def drain(self) -> None:
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._told_to_end = True
        with suppress(ProcessLookupError):
            process.send_signal(number)

    async def live(self) -> None:
        """One life after the other, until cancelled."""
        number = 0
        try:
            while True:
                self._told_to_end = False
                number += 1
                self._process = await self._start(number)
                code = await self._process.wait()
                if not self._told_to_end:
                    self._ground.history.exits.append(Exit(self.name, code))
                await asyncio.sleep(0.2)
        finally:
            if self._process and self._process.returncode is None:
                for signal_number in (signal.SIGCONT, signal.SIGKILL):
                    with suppress(ProcessLookupError):
                        self._process.send_signal(signal_number)
                await self._process.wait()

    async def _start(self, number: int) -> asyncio.subprocess.Process:
        log = self._ground.logs / f"{self.name}-{id(self):x}-{number}.log"
        with log.open("wb") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "rota.cli.main", self.name, *self._arguments),
                env=self._ground.environment | self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=HERE,
            )


class Ground:
    """PostgreSQL, PgBouncer and the fleet. Use as an async context manager."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.home = Path(tempfile.mkdtemp(prefix="rota-chaos-"))
        self.logs = self.home / "logs"
        self.logs.mkdir()
        self.notes = self.home / "notes"
        self.server = EmbeddedPostgres(self.home / "server", settings=_SERVER)
        self.members: list[Member] = []
        self.api_urls: list[str] = []
        self._pooler: PgBouncer | None = None
        self._lives: list[asyncio.Task[None]] = []
        self._restarting = asyncio.Lock()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
        self.environment |= {"ROTA_HOME": str(self.home), "PYTHONPATH": str(HERE), "CHAOS_NOTES": str(self.notes)}

    @property
    def url(self) -> str:
        return self.server.url()

    @property
    def token(self) -> str:
        return (self.home / "admin.token").read_text().strip()

    async def __aenter__(self) -> Ground:
        (self.home / "server").mkdir()
        await self.server.start()
        database = await Database.connect(self.url, size=1)
        await migrate(database)
        await database.close()
        sql = await asyncpg.connect(self.url)
        await sql.execute("CREATE TABLE public.ledger (run text NOT NULL)")
        await sql.close()
        self._pooler = PgBouncer(self.server.socket_directory) if find_pgbouncer() else None
        for number in range(APIS):
            port = free_port()
            self.api_urls.append(f"http://127.0.0.1:{port}")
            self._add("api", number, ROTA_PORT=str(port))
            await self.until_ready()
        for number in range(SCHEDULERS):
            self._add("scheduler", number)
        for number in range(WORKERS):
            self._add("worker", number, "--app", "chaos_tasks:app", "--slots", "20", "--pools", "default=3,side=1")
        return self

    async def __aexit__(self, *_details: object) -> None:
        for life in self._lives:
            life.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        if self._pooler:
            self._pooler.stop()
        await self.server.stop()
        shutil.rmtree(self.server.socket_directory, ignore_errors=True)

    def _add(self, name: str, number: int, *arguments: str, **environment: str) -> None:
        """Members with an odd number go through PgBouncer."""
        pooled = self._pooler is not None and number % 2 == 1
        url = self._pooler.url(self.url) if pooled and self._pooler else self.url
        member = Member(self, name, *arguments, ROTA_DATABASE_URL=url, **environment)
        self.members.append(member)
        self._lives.append(asyncio.create_task(member.live(), name=f"{name} {number}"))

    async def until_ready(self) -> None:
        """Waits until every API server answers."""
        async with httpx.AsyncClient(timeout=5) as client:

            async def ready() -> bool:
                with suppress(httpx.TransportError):
                    return all([(await client.get(f"{url}/readyz")).is_success for url in self.api_urls])
                return False

            await eventually(ready, within=_READY_SECONDS)

    async def restart_database(self, away_seconds: float, *, crash: bool = False) -> None:
        async with self._restarting:
            if crash:
                number = (self.server.data / "postmaster.pid").read_text().split("\n", 1)[0]
                os.kill(int(number), signal.SIGKILL)
            await self.server.stop()
            await asyncio.sleep(away_seconds)
            await self.server.start()

    async def restart_pooler(self) -> None:
        if self._pooler:
            self._pooler.restart()

    def tracebacks(self) -> list[str]:
        """Every traceback that a process logged, with the name of its log."""
        found = []
        for log in sorted(self.logs.iterdir()):
            found += [f"{log.name}: {text}" for text in _TRACEBACK.findall(log.read_text(errors="replace"))]
        return found
