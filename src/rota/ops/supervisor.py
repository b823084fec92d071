"""The supervisor behind `rota up`: runs and restarts the embedded database, an API server, a scheduler and the workers.

API and scheduler are processes of their own: what a request costs does not delay what is due.

Workers can be replaced while everything else stays up: new ones start at once while the old ones drain. `rota dev` does
that whenever the code changes (reloader.py).

Only one supervisor can use a home: it locks a file there, and the system releases the lock when the process dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rota.compose import open_database, waiting_for_database
from rota.errors import SetupError
from rota.ops.child_workers import ChildWorkers
from rota.ops.ports import can_bind, is_taken, who_listens
from rota.ops.reloader import ENVIRONMENT as RELOADING
from rota.ops.reloader import Reloader
from rota.ops.supervised_process import (
    FIRST_PAUSE_SECONDS,
    KILL_AFTER_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SupervisedProcess,
    environment_of,
)
from rota.private_files import GROUP_AND_OTHERS, OTHERS, close_to
from rota.processes import run_until_stopped
from rota.service import Service, ServiceGroup
from rota.settings import Settings
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from rota.telemetry import get_logger

_SERVERS = ("api", "scheduler")
_READY_SECONDS = 60.0
_DISK_WATCH_SECONDS = 2.0
_LITTLE_ROOM_BYTES = 50 * 1024**2
# Developers should see failures at once, unless the settings say otherwise.
_DEVELOPING = {"ROTA_LOG_FAILURES": "on"}
_log = get_logger("supervisor")


class PostgresKeeper(Service):
    """Restarts the embedded database when it dies; a round is one life of it."""

    interval_seconds = FIRST_PAUSE_SECONDS
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
        self._servers = [self._child(name, [name], place) for place, name in enumerate(_SERVERS)]
        self._worker_names = [f"worker {number + 1}" for number in range(workers)]
        self._worker_arguments = ["worker", *(word for app in apps for word in ("--app", app))]
        self._watches: list[Service] = []
        self._stopping = False
        self._stopped = asyncio.Event()
        self._group = ServiceGroup(self._servers)
        self._workers = ChildWorkers(self._group, self._worker, patience=lambda: self._patience)
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
        for old in list(self._workers.active):
            self._workers.drain(old)
        for name in self._worker_names:
            self._workers.start(name)

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
        await asyncio.gather(*(server.stop(self._patience) for server in self._servers), self._workers.stop())
        self._stopped.set()

    @property
    def _patience(self) -> float:
        return self._settings.drain_seconds + KILL_AFTER_SECONDS

    def _worker(self, name: str) -> SupervisedProcess:
        return self._child(name, self._worker_arguments, len(_SERVERS) + self._worker_names.index(name))

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
