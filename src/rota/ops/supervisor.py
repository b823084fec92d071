"""The supervisor behind `rota up`: runs and restarts the embedded database, an API server, a scheduler and the workers.

API and scheduler are processes of their own: what a request costs does not delay what is due.

Workers can be replaced while everything else stays up: new ones start at once while the old ones drain. `rota dev` does
that whenever the code changes (reloader.py).

Only one supervisor can use a home: it locks a file there, and the system releases the lock when the process dies.
Children have a pipe as standard input. Their secrets come through it (secret_environment.py); it closes when the
supervisor dies, and then they stop.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from rota.compose import open_database, waiting_for_database
from rota.errors import SetupError
from rota.ops.ports import can_bind, is_taken, who_listens
from rota.ops.reloader import ENVIRONMENT as RELOADING
from rota.ops.reloader import Reloader
from rota.private_files import GROUP_AND_OTHERS, OTHERS, close_to
from rota.processes import end_with_parent, run_until_stopped
from rota.secret_environment import separate
from rota.service import Service, ServiceGroup
from rota.settings import Settings
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from rota.telemetry import get_logger

LONGEST_PAUSE_SECONDS = 5.0
_FIRST_PAUSE_SECONDS = 0.2
_SETTLED_SECONDS = 10.0
_KILL_AFTER_SECONDS = 30.0
_READY_SECONDS = 60.0
_DISK_WATCH_SECONDS = 2.0
_LITTLE_ROOM_BYTES = 50 * 1024**2
# Developers should see failures at once, unless the settings say otherwise.
_DEVELOPING = {"ROTA_LOG_FAILURES": "on"}
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
        self._pause_seconds = _FIRST_PAUSE_SECONDS
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
            self._pause_seconds = _FIRST_PAUSE_SECONDS if time.monotonic() - began > _SETTLED_SECONDS else longer
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
            await asyncio.wait_for(process.wait(), _KILL_AFTER_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


class PostgresKeeper(Service):
    """Restarts the embedded database when it dies; a round is one life of it."""

    interval_seconds = _FIRST_PAUSE_SECONDS
    jitter = 0

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        super().__init__()
        self._postgres = postgres
        self._failed = False

    @property
    def pause_seconds(self) -> float:
        """Longer after a start that failed."""
        return LONGEST_PAUSE_SECONDS if self._failed else self.interval_seconds

    async def tick(self) -> int:
        """Waits for the end of the database's process, and starts another."""
        self._failed = False
        await self._postgres.wait()
        _log.warning("PostgreSQL ended and is started again")
        try:
            await self._postgres.start()
        except Exception as error:  # noqa: BLE001 - nothing runs without it: keep trying
            _log.error("PostgreSQL could not be started again", error=str(error))
            self._failed = True
        return 1


class DiskWatch(Service):
    """Logs once when the disk gets full, and once when there is room again: the database recovers alone."""

    interval_seconds = _DISK_WATCH_SECONDS
    jitter = 0

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self._full = False

    async def tick(self) -> int:
        """Checks the free space."""
        try:
            free = shutil.disk_usage(self._home).free
        except OSError as error:
            _log.debug("free disk space is unknown", error=str(error))
            return 0
        full = free < _LITTLE_ROOM_BYTES
        if full != self._full:
            words = "the disk is nearly full: make room" if full else "there is room on the disk again"
            _log.warning(words, home=str(self._home), free_bytes=free)
        self._full = full
        return 0


class Supervisor:
    """Starts and stops everything of one home. A reloader decides when workers start."""

    def __init__(
        self,
        settings: Settings,
        *,
        workers: int,
        apps: Sequence[str] = (),
        announce: Callable[[], None],
        reloader: Reloader | None = None,
    ) -> None:
        self._settings = settings
        self._announce = announce
        self._reloader = reloader
        self._postgres = None if settings.database_url else EmbeddedPostgres(settings.home)
        self._servers = [self._child(name, [name], place) for place, name in enumerate(("api", "scheduler"))]
        self._worker_names = [f"worker {number + 1}" for number in range(workers)]
        self._worker_arguments = ["worker", *(word for app in apps for word in ("--app", app))]
        self._workers: list[SupervisedProcess] = []
        self._watches: list[Service] = []
        self._replaced: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._stopped = asyncio.Event()
        self._group = ServiceGroup(self._servers)
        if self._postgres:
            self._watches = [PostgresKeeper(self._postgres), DiskWatch(settings.home)]
        if reloader:
            reloader.renew_workers = self.renew_workers
        else:
            self.renew_workers()
        for watch in self._watches:
            self._group.add(watch)

    @property
    def services(self) -> tuple[Service, ...]:
        """All services; a reloader joins them when the server is up."""
        return self._group.services

    async def run(self) -> None:
        """Runs until stopped; raises SetupError if it can't start."""
        with _hold_home(self._settings):
            check_port(self._settings)
            self._settings.scripts.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                if self._postgres:
                    await self._postgres.start()
                opened = open_database(self._settings, size=1, name="rota-up", check=False, patient=True)
                async with opened as database:
                    await waiting_for_database(partial(migrate, database), self._settings)
                await run_until_stopped(self._supervise(), on_stop=self.stop)
            finally:
                if self._postgres:
                    await self._postgres.stop()

    async def _supervise(self) -> None:
        async with self._group:
            if await self._is_ready():
                self._tell()
            elif not self._stopping:
                _log.error("the server does not answer; start with --verbose to see why", seconds=_READY_SECONDS)
            if self._reloader and not self._stopping:
                self._watches.append(self._reloader)
                self._group.add(self._reloader)
            await self._stopped.wait()

    def _tell(self) -> None:
        try:
            self._announce()
        except OSError as error:  # the terminal, or the pipe behind it, is gone
            _log.warning("could not print that the server is up", error=str(error))

    def renew_workers(self) -> None:
        """Starts new workers and drains the old ones, however long that takes."""
        if self._stopping:
            return
        for old in self._workers:
            ending = asyncio.create_task(self._end(old), name=f"old {old.name}")
            self._replaced.add(ending)
            ending.add_done_callback(self._replaced.discard)
        arguments = self._worker_arguments
        self._workers = [self._child(name, arguments, 2 + place) for place, name in enumerate(self._worker_names)]
        for new in self._workers:
            self._group.add(new)

    async def _is_ready(self) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READY_SECONDS
        while not self._stopping and loop.time() < deadline:
            try:
                _, writer = await asyncio.open_connection(self._settings.host, self._settings.port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            writer.close()
            return True
        return False

    async def stop(self) -> None:
        """Stops everything: first what could start processes, then all processes at once."""
        self._stopping = True
        for watch in self._watches:
            await self._group.stop(watch)
        children = (*self._servers, *self._workers)
        await asyncio.gather(*(child.stop(self._patience) for child in children), *self._replaced)
        self._stopped.set()

    async def _end(self, child: SupervisedProcess) -> None:
        await child.stop(self._patience)
        await self._group.stop(child)

    @property
    def _patience(self) -> float:
        return self._settings.drain_seconds + _KILL_AFTER_SECONDS

    def _child(self, name: str, arguments: list[str], place: int) -> SupervisedProcess:
        environment = environment_of(self._settings)
        if self._settings.metrics_port:  # one each; a worker that replaces another waits for its port
            environment["ROTA_METRICS_PORT"] = str(self._settings.metrics_port + place)
        if self._reloader:
            environment = _DEVELOPING | environment | RELOADING
        if arguments[0] == "worker":
            environment.pop("ROTA_JWT_SECRET", None)  # only the server checks tokens
        # The home is there to be seen: the environment of our processes is not.
        return SupervisedProcess(name, [*arguments, "--home", str(self._settings.home)], environment)


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


@contextmanager
def _hold_home(settings: Settings) -> Iterator[None]:
    """Locks the home for this supervisor."""
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Older versions left these open, and as root the account of PostgreSQL must be able to pass through the home.
        close_to(settings.scripts, OTHERS)
        close_to(settings.admin_token_file, GROUP_AND_OTHERS)
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
    """Raises SetupError if the port can't be used, and names the program that uses it."""
    error = can_bind(settings.host, settings.port)
    if error is None:
        return
    where = f"Port {settings.port} on {settings.host}"
    if not is_taken(error):
        raise SetupError(f"{where} can't be used ({error}). Choose another: --port N, or --host")
    found = who_listens(settings.host, settings.port)
    use = "Use that one, stop it, or choose" if found.rota else "Stop it, or choose"
    raise SetupError(f"{where} can't be used: {found} has it. {use} another port: --port N")
