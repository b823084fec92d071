"""Real processes on a real database: what the scenarios start, kill, pause and cut."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

import commands
from support import eventually, family_of, free_port, in_time

SCENARIOS = Path(__file__).parent
READY_SECONDS = 30


class Process:
    """One `rota` process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def terminate(self) -> int:
        """SIGTERM, and wait for its exit code."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        return await in_time(self.process.wait())


class Fleet:
    """Starts processes with the same settings; ends all of them at the end."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="rota-fleet-"))
        self.port = free_port()
        self.processes: list[Process] = []
        ours = {"ROTA_HOME": str(self.home), "ROTA_PORT": str(self.port), "PYTHONPATH": str(SCENARIOS)}
        self._environment = commands.environment(**ours | environment)
        self.client: httpx.AsyncClient = None  # type: ignore[assignment]

    async def start(self, *arguments: str, directory: Path = SCENARIOS, **environment: str) -> Process:
        """`rota <arguments>` in the background."""
        log = self.home / f"{len(self.processes)}-{arguments[0]}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *commands.ROTA,
                *arguments,
                env=self._environment | environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
            )
        started = Process(arguments[0], process, log)
        self.processes.append(started)
        return started

    async def start_api(self) -> Process:
        """The API; returns once it answers, with `client` set."""
        api = await self.start("api")
        await self.connect()
        return api

    async def connect(self) -> None:
        """Sets `client`, waiting for a server that is starting."""
        token = self.home / "admin.token"
        await eventually(token.exists, within=READY_SECONDS)
        if self.client:
            await self.client.aclose()
        self.client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {token.read_text().strip()}"},
            timeout=120,
        )

        async def ready() -> bool:
            with suppress(httpx.TransportError):
                return (await self.client.get("/readyz")).is_success
            return False

        await eventually(ready, within=READY_SECONDS)

    async def start_worker(self, *arguments: str, **environment: str) -> Process:
        """A worker that serves tasks.py; returns once the fleet knows it."""
        worker = await self.start("worker", "--app", "tasks:app", *arguments, **environment)

        async def known() -> bool:
            return any(found["pid"] == worker.pid and found["status"] == "live" for found in await self.workers())

        await eventually(known, within=READY_SECONDS)
        return worker

    async def workers(self) -> list[dict[str, Any]]:
        return (await self.get("/v1/workers"))["items"]

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.client.get(path, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    async def post(self, path: str, body: Any = None) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def submit(self, task: str, **fields: Any) -> dict[str, Any]:
        """Submits a one-shot or recurring job of a task."""
        return await self.post("/v1/jobs", {"name": task, "scheduleType": "immediate", "task": task} | fields)

    async def run(self, run_id: str) -> dict[str, Any]:
        return await self.get(f"/v1/runs/{run_id}")

    async def until(self, run_id: str, *statuses: str, within: float = 30) -> dict[str, Any]:
        """Waits until the run is in one of these statuses, also through an outage of the database."""

        async def there() -> Any:
            answer = await self.client.get(f"/v1/runs/{run_id}")
            assert answer.status_code in (200, 503), answer.text
            run = answer.json()
            return run if run["status"] in statuses else None

        return await eventually(there, within=within)

    async def stop(self) -> None:
        """Ends everything that is still there."""
        if self.client:
            await self.client.aclose()
        for process in self.processes:
            if process.alive:
                with suppress(ProcessLookupError):
                    process.send(signal.SIGCONT)
                await process.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def logs(self) -> str:
        """What every process logged: shown when a scenario fails."""
        return "\n".join(
            f"--- {process.name} (pid {process.pid})\n{process.log.read_text()[-6000:]}" for process in self.processes
        )


def family(fleet: Fleet) -> list[psutil.Process]:
    """Every process that belongs to this home: the supervisor and its children, the database with its children."""
    started = {process.pid for process in fleet.processes if process.alive}
    found = family_of(fleet.home)
    seen = {process.pid for process in found}
    return found + [psutil.Process(pid) for pid in started - seen if psutil.pid_exists(pid)]
