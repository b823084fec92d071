"""The supervisor behind `rota up`: the embedded database, one server process, the workers; what dies is started again.

Workers can be replaced while everything else stays up: the new ones start at once, the old ones drain beside them.
`rota dev` does so whenever the code changes (reloading.py).

Only one supervisor may hold a home: it keeps a lock on a file in it, which the system lets go of when the process
dies. Children have the read end of a pipe as their standard input; when the supervisor dies, however it dies, the pipe
closes and they stop by themselves.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rota.compose import open_database
from rota.errors import SetupError
from rota.ops.ports import can_bind, is_taken, who_listens
from rota.ops.reloader import ENVIRONMENT as RELOADING
from rota.ops.reloader import Reloader
from rota.processes import SUPERVISED, end_with_parent, run_until_stopped
from rota.settings import Settings
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from rota.telemetry import get_logger

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
SETTLED_SECONDS = 10.0
KILL_AFTER_SECONDS = 30.0
READY_SECONDS = 60.0
WATCH_SECONDS = 0.2
LITTLE_ROOM_BYTES = 50 * 1024**2
# Whoever writes tasks wants to see at once that one fails, unless they said otherwise.
DEVELOPING = {"ROTA_LOG_FAILURES": "on"}
_log = get_logger("supervisor")


class SupervisedProcess:
    """A process that is started again when it ends unasked."""

    def __init__(self, name: str, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self.name = name
        self._arguments = arguments
        self._environment = environment
        self._stopping = False
        self.process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Keeps the process running until `stop`."""
        pause = FIRST_PAUSE_SECONDS
        loop = asyncio.get_running_loop()
        while not self._stopping:
            began = loop.time()
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "rota.cli.main",
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
                # It hears of our death by its pipe; while it is still importing an application, only by the system.
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
            if self._stopping:
                self.process.terminate()  # asked to stop while it was being started
            code = await self.process.wait()
            if self._stopping:
                return
            pause = (
                FIRST_PAUSE_SECONDS if loop.time() - began > SETTLED_SECONDS else min(pause * 2, LONGEST_PAUSE_SECONDS)
            )
            _log.warning("a process ended and is started again", process=self.name, exit_code=code)
            await asyncio.sleep(pause)

    async def stop(self, seconds: float) -> None:
        """Asks the process to end, and makes it after a while."""
        self._stopping = True
        if self.process is None or self.process.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), seconds)
                return


class Supervisor:
    """Starts and stops everything of one home. With a reloader, that says when there is code for workers to run."""

    def __init__(
        self,
        settings: Settings,
        *,
        workers: int,
        app: str | None,
        announce: Callable[[], None],
        reloader: Reloader | None = None,
    ) -> None:
        self._settings = settings
        self._announce = announce
        self._reloader = reloader
        self._reloading: asyncio.Task[None] | None = None
        self._postgres = None if settings.database_url else EmbeddedPostgres(settings.home)
        self._server = self._child("server", ["api", "--with-scheduler"])
        self._worker_names = [f"worker {number + 1}" for number in range(workers)]
        self._worker_arguments = ["worker", *(["--app", app] if app else [])]
        self._workers: list[SupervisedProcess] = []
        self._stopping = False

    async def run(self) -> None:
        """Runs until told to stop; raises SetupError when it can't start."""
        with hold_home(self._settings):
            check_port(self._settings)
            self._settings.scripts.mkdir(parents=True, exist_ok=True)
            try:
                if self._postgres:
                    await self._postgres.start()
                async with open_database(self._settings, size=1, name="rota-up", check=False) as database:
                    await migrate(database)
                await run_until_stopped(self._watch(), on_stop=self._stop)
            finally:
                if self._postgres:
                    await self._postgres.stop()

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._server.run(), name=self._server.name)
            if not self._reloader:
                self._renew_workers(group)
            if self._postgres:
                group.create_task(self._watch_postgres(self._postgres), name="postgres")
                group.create_task(self._watch_disk(), name="disk")
            if await self._is_ready():
                self._announce()
            elif not self._stopping:
                _log.error("the server does not answer; start with --verbose to see why", seconds=READY_SECONDS)
            if self._reloader and not self._stopping:
                self._reloading = group.create_task(self._reloader.run(lambda: self._renew_workers(group)))

    def _renew_workers(self, group: asyncio.TaskGroup) -> None:
        """Starts new workers and drains those there are, however long these take; all of it is in the group."""
        if self._stopping:
            return
        for old in self._workers:
            group.create_task(old.stop(self._patience), name=f"old {old.name}")
        self._workers = [self._child(name, self._worker_arguments) for name in self._worker_names]
        for new in self._workers:
            group.create_task(new.run(), name=new.name)

    async def _watch_postgres(self, postgres: EmbeddedPostgres) -> None:
        while not self._stopping:
            await asyncio.sleep(WATCH_SECONDS)
            if not self._stopping and not postgres.is_running:
                _log.warning("PostgreSQL ended and is started again")
                try:
                    await postgres.start()
                except Exception as error:  # noqa: BLE001 - without a database nothing runs: try until it does
                    _log.error("PostgreSQL could not be started again", error=str(error))
                    await asyncio.sleep(LONGEST_PAUSE_SECONDS)

    async def _watch_disk(self) -> None:
        """Tells once when the disk gets full, and once when there is room again: the database goes on by itself."""
        told = False
        while not self._stopping:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                free = shutil.disk_usage(self._settings.home).free
            except OSError as error:
                _log.debug("how much room the disk has can't be told", error=str(error))
                continue
            if free < LITTLE_ROOM_BYTES and not told:
                _log.warning("the disk is nearly full: make room", home=str(self._settings.home), free_bytes=free)
            elif told and free >= LITTLE_ROOM_BYTES:
                _log.warning("there is room on the disk again", home=str(self._settings.home), free_bytes=free)
            told = free < LITTLE_ROOM_BYTES

    async def _is_ready(self) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_SECONDS
        while not self._stopping and loop.time() < deadline:
            try:
                _, writer = await asyncio.open_connection(self._settings.host, self._settings.port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            writer.close()
            return True
        return False

    async def _stop(self) -> None:
        self._stopping = True
        if self._reloading:
            self._reloading.cancel()
        await asyncio.gather(*(child.stop(self._patience) for child in (self._server, *self._workers)))

    @property
    def _patience(self) -> float:
        return self._settings.drain_seconds + KILL_AFTER_SECONDS

    def _child(self, name: str, arguments: list[str]) -> SupervisedProcess:
        settings = self._settings
        environment = {
            **(DEVELOPING if self._reloader else {}),
            **os.environ,
            **(RELOADING if self._reloader else {}),
            SUPERVISED: "1",
            "ROTA_HOME": str(settings.home),
            "ROTA_HOST": settings.host,
            "ROTA_PORT": str(settings.port),
            "ROTA_LOG_LEVEL": settings.log_level,
            "ROTA_SLOTS": str(settings.slots),
            "ROTA_POOLS": ",".join(settings.pools),
        }
        if settings.database_url:
            environment["ROTA_DATABASE_URL"] = settings.database_url
        return SupervisedProcess(name, arguments, environment)


@contextmanager
def hold_home(settings: Settings) -> Iterator[None]:
    """Makes us the only supervisor of this home."""
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = (settings.home / "lock").open("a")
    except OSError as error:
        raise SetupError(f"{settings.home} can't be used as Rota's home: {error}. Choose another: --home") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SetupError(
                f"Another `rota up` is running on {settings.home}. Stop it, or choose another home: --home DIR"
            ) from None
        yield


def check_port(settings: Settings) -> None:
    """Says early, and in words, that the port is taken, and by whom as far as that can be told."""
    error = can_bind(settings.host, settings.port)
    if error is None:
        return
    where = f"Port {settings.port} on {settings.host}"
    if not is_taken(error):
        raise SetupError(f"{where} can't be used ({error}). Choose another: --port N, or --host")
    found = who_listens(settings.host, settings.port)
    use = "Use that one, stop it, or choose" if found.rota else "Stop it, or choose"
    raise SetupError(f"{where} can't be used: {found} has it. {use} another port: --port N")
