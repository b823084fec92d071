"""What the examples run on: one database, one API and one scheduler for all of them. Each brings its own workers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

import commands
from support import eventually, free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
ROTA = ("-m", "rota.cli.main")
READY_SECONDS = 60
END_SECONDS = 240


class Stage:
    """Starts processes with the same settings, and ends those that are left."""

    def __init__(self, database_url: str, home: Path) -> None:
        self.database_url = database_url
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.home = home
        self.environment = commands.environment(
            ROTA_HOME=str(home),
            ROTA_PORT=str(self.port),
            ROTA_URL=self.url,
            ROTA_TOKEN="the-stage-token",  # noqa: S106 - known to the tests alone
            ROTA_DATABASE_URL=database_url,
            ROTA_WORKER_LEASE_SECONDS="3",  # who is killed is missed sooner
            DATABASE_URL=database_url,
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        )
        self._processes: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """The API and the scheduler; returns once they answer."""
        self.start(*ROTA, "api")
        self.start(*ROTA, "scheduler")
        asyncio.run(answers(f"{self.url}/readyz"))

    def start(self, *arguments: str, directory: Path | None = None, **environment: str) -> subprocess.Popen[bytes]:
        """`python <arguments>` in the background."""
        log = self.home / f"{len(self._processes)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
            )
        self._processes.append(process)
        return process

    @contextmanager
    def worker(
        self, app: str, *arguments: str, directory: Path, **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """`rota worker --app …` as long as it is needed."""
        process = self.start(*ROTA, "worker", "--app", app, *arguments, directory=directory, **environment)
        try:
            yield process
        finally:
            end(process)

    def run(self, *arguments: str, directory: Path, **environment: str) -> str:
        """`python <arguments>` to its end; what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=directory,
            timeout=END_SECONDS * 2,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def close(self) -> None:
        """Ends what is still there."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait(END_SECONDS)

    def logs(self) -> str:
        """What every process said: shown when an example fails."""
        found = zip(self._processes, sorted(self.home.glob("*.log"), key=lambda log: int(log.stem)), strict=True)
        return "\n".join(f"--- {' '.join(process.args)}\n{log.read_text()[-3000:]}" for process, log in found)


def end(process: subprocess.Popen[bytes]) -> None:
    """Asks it to end, and waits."""
    if process.poll() is None:
        process.terminate()
    process.wait(END_SECONDS)


async def answers(url: str, *, status: int = 200) -> None:
    """Returns once a server that is starting answers, with this status."""
    async with httpx.AsyncClient() as client:

        async def ready() -> bool:
            try:
                return (await client.get(url)).status_code == status
            except httpx.TransportError:
                return False

        await eventually(ready, within=READY_SECONDS)
