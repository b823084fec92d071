"""A child process that is restarted when it dies.

Children have a pipe as standard input. Their secrets come through it (secret_environment.py); it closes when the parent
dies, and then they stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rota.processes import end_with_parent
from rota.secret_environment import separate
from rota.service import Service
from rota.settings import Settings
from rota.telemetry import get_logger

LONGEST_PAUSE_SECONDS = 5.0
KILL_AFTER_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.2
_SETTLED_SECONDS = 10.0
_log = get_logger("supervisor")


class SupervisedProcess(Service):
    """A process that is restarted when it dies; a round is one life of it."""

    jitter = 0

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__()
        self._name = name
        self._arguments = arguments
        self._environment, self._secrets = separate(environment)
        self._stopping = False
        self._ended = asyncio.Event()
        self._ended.set()
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.process: asyncio.subprocess.Process | None = None

    @property
    def name(self) -> str:
        """The name in logs and of tasks."""
        return self._name

    @property
    def pause_seconds(self) -> float:
        """Grows while the process ends soon after its start."""
        return self._pause_seconds

    async def tick(self) -> int:
        """Starts the process and waits for its end."""
        if self._stopping:
            return 0
        self._ended.clear()
        began = time.monotonic()
        try:
            code = await self._live()
        finally:
            self._ended.set()
        if not self._stopping:
            longer = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            self._pause_seconds = FIRST_PAUSE_SECONDS if time.monotonic() - began > _SETTLED_SECONDS else longer
            _log.warning("a process ended and is started again", process=self.name, exit_code=code)
        return 1

    async def _live(self) -> int:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rota.cli.main",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
            # The pipe tells it of our death, but not while it still imports an application.
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        if self.process.stdin:
            self.process.stdin.write(self._secrets)
        if self._stopping:
            self.process.terminate()  # stopped while it was starting
        return await self.process.wait()

    async def stop(self, seconds: float) -> None:
        """Terminates the process, kills it after `seconds`, and does not restart it."""
        self._stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._ended.is_set():
                return
            if self.process and self.process.returncode is None:
                with suppress(ProcessLookupError):
                    self.process.send_signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)

    async def close(self) -> None:
        """Ends the process, unless it was stopped before."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), KILL_AFTER_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def environment_of(settings: Settings) -> dict[str, str]:
    """The variables of a child with these settings."""
    environment = {
        **os.environ,
        "ROTA_HOME": str(settings.home),
        "ROTA_HOST": settings.host,
        "ROTA_PORT": str(settings.port),
        "ROTA_LOG_LEVEL": settings.log_level,
        "ROTA_SLOTS": str(settings.slots),
        "ROTA_POOLS": ",".join(settings.pools),
    }
    if settings.database_url:
        environment["ROTA_DATABASE_URL"] = settings.database_url
    return environment
