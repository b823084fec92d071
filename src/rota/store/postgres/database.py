"""Connections to PostgreSQL: a pool, statements by name, errors in our words.

Plans must not depend on statistics: the hot tables change too fast for statistics to be right, and a plan that
flips to a sequential scan over them costs an order of magnitude. Every connection therefore prefers index plans
and generic ones, and sets whatever else statements rely on (session.py). Behind a pooler in transaction mode there is
no session to carry settings, so each statement runs in a transaction that sets them LOCAL; named prepared statements
are not used there either, since the server behind them changes.

A pooler is noticed by itself: it answers the handshake with a made-up backend pid.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg

from rota.errors import DatabaseUnavailableError, DataRejectedError, DiskFullError, LockTimeoutError, SetupError
from rota.store.postgres.address import check_files, explain, is_lasting
from rota.store.postgres.connections import WAIT_SECONDS, ConnectionPool
from rota.store.postgres.session import OLDEST_SERVER, SEARCH_PATH, begin, own_settings
from rota.store.postgres.statements import Statement, load, load_all
from rota.store.postgres.wakeups import WakeUps
from rota.telemetry import get_logger
from rota.time_limits import time_limit

STATEMENT_SECONDS = WAIT_SECONDS
CONNECT_SECONDS = 5.0
_TRANSIENT_TRIES = 10
_UNDISTURBED = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL jit = off"
_CUSTOM = "SET LOCAL plan_cache_mode = force_custom_plan"

_UNAVAILABLE: tuple[type[Exception], ...] = (
    OSError,  # TimeoutError is one of them
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_TRANSIENT = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_DATA = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
_SCHEMES = ("postgresql", "postgres")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_log = get_logger("database")
T = TypeVar("T")


class MissingDayError(DataRejectedError):
    """A finished run's day has no partition yet."""


class Statements:
    """Runs statements by name on one connection; what a transaction hands to its body."""

    def __init__(self, connection: Any, *, custom: bool = False) -> None:
        self._connection = connection
        self._custom = custom  # whether the transaction plans each statement anew

    async def fetch(self, name: str, /, *, timeout: float | None = None, **parameters: Any) -> list[Any]:
        """All rows of the statement in <name>.sql."""
        statement = load(name)
        return await self.run(statement, statement.bind(parameters), timeout)

    async def fetch_row(self, name: str, /, **parameters: Any) -> Any | None:
        """The first row, or None."""
        rows = await self.fetch(name, **parameters)
        return rows[0] if rows else None

    async def fetch_value(self, name: str, /, **parameters: Any) -> Any:
        """The first column of the first row."""
        rows = await self.fetch(name, **parameters)
        return rows[0][0] if rows else None

    async def time(self) -> datetime:
        """The database's clock."""
        moment: datetime = await self.fetch_value("database_time")
        return moment

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """If PostgreSQL refuses data inside this block, only the block is rolled back; the transaction continues."""
        await self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except DataRejectedError:
            await self._connection.execute("ROLLBACK TO SAVEPOINT attempt; RELEASE SAVEPOINT attempt")
            raise
        await self._connection.execute("RELEASE SAVEPOINT attempt")

    async def run(self, statement: Statement, values: Sequence[Any], timeout: float | None) -> list[Any]:
        """All rows of the statement, with values in its order."""
        with _translated(statement.name):
            if statement.custom and not self._custom:
                self._custom = True
                await self._connection.execute(_CUSTOM)
            rows: list[Any] = await self._connection.fetch(statement.text, *values, timeout=timeout)
            return rows


class Database:
    """A pool of connections to one PostgreSQL database."""

    def __init__(self, pool: Any, *, pooled: bool, version: int, notify: bool, search_path: str = SEARCH_PATH) -> None:
        self._connections = ConnectionPool(pool)
        self.pooled = pooled
        self.version = version  # the server's, as 150004
        self.wake = WakeUps(self._notify, enabled=notify)
        self._begin = begin(own_settings(version) | {"search_path": search_path}) if pooled else "BEGIN"

    @classmethod
    async def connect(
        cls, url: str, *, size: int = 4, name: str = "rota", notify: bool = True, search_path: str = SEARCH_PATH
    ) -> Database:
        """Connects, or raises SetupError (wrong URL, too old a server) or DatabaseUnavailableError.

        `notify`: whether wake-ups are sent. `search_path`: another one for databases whose clock tests can set.
        """
        load_all()
        pooled, version = await _check_server(url)
        settings = own_settings(version) | {"search_path": search_path, "application_name": name}
        options: dict[str, Any] = {"statement_cache_size": 0} if pooled else {"server_settings": settings}
        with _translated("connect"):
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=size,
                command_timeout=STATEMENT_SECONDS,
                timeout=CONNECT_SECONDS,
                max_inactive_connection_lifetime=0,
                reset=_leave_as_it_is,
                **options,
            )
        return cls(pool, pooled=pooled, version=version, notify=notify, search_path=search_path)

    @property
    def connections(self) -> ConnectionPool:
        """The pool, to look at."""
        return self._connections

    async def close(self) -> None:
        """Closes every connection; one that hangs is cut."""
        try:
            await self._connections.close(CONNECT_SECONDS)
        except _UNAVAILABLE:
            self._connections.terminate()

    async def fetch(self, name: str, /, *, timeout: float | None = None, **parameters: Any) -> list[Any]:
        """All rows of the statement in <name>.sql, in a transaction of its own.

        `timeout` covers the wait for a connection as well. Deadlocks and serialization failures are tried again: a
        single statement that failed left nothing behind.
        """
        statement = load(name)
        values = statement.bind(parameters)

        async def attempt() -> list[Any]:
            if self.pooled or statement.custom:
                async with self._transaction(custom=statement.custom) as statements:
                    return await statements.run(statement, values, timeout)
            async with self._connection() as connection:
                return await Statements(connection).run(statement, values, timeout)

        async def in_time() -> list[Any]:
            with _translated(name):
                async with time_limit(timeout):
                    return await attempt()

        return await _persist(name, attempt if timeout is None else in_time)

    async def fetch_row(self, name: str, /, **parameters: Any) -> Any | None:
        """The first row, or None."""
        rows = await self.fetch(name, **parameters)
        return rows[0] if rows else None

    async def fetch_value(self, name: str, /, **parameters: Any) -> Any:
        """The first column of the first row."""
        rows = await self.fetch(name, **parameters)
        return rows[0][0] if rows else None

    async def time(self) -> datetime:
        """The database's clock."""
        moment: datetime = await self.fetch_value("database_time")
        return moment

    async def examine(self) -> dict[str, Any]:
        """What `rota doctor` wants to know of the server, and of our role there."""
        return dict(await self.fetch_row("examine_server") or {})

    async def transact(self, body: Callable[[Statements], Awaitable[T]], *, custom: bool = False) -> T:
        """Runs `body` in one READ COMMITTED transaction; again from the start when it deadlocked.

        `custom`: its statements are planned with their values, which one of them asks for in its header.
        """

        async def once() -> T:
            async with self._transaction(custom=custom) as statements:
                return await body(statements)

        return await _persist(body.__name__, once)

    async def _notify(self, channel: str, payloads: Sequence[str]) -> None:
        """Sends notifications in a transaction of their own, so that no write waits for the notify lock."""
        with _translated("notify"):
            async with self._begun() if self.pooled else self._connection() as connection:
                await connection.execute("SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p", channel, payloads)

    async def vacuum(self, table: str) -> None:
        """Vacuums a table of ours, outside of any transaction.

        It neither waits for a lock nor takes the one that cutting off a table's end needs, which would stop claims.
        """
        with _translated("vacuum"):
            async with self._connection() as connection:
                await connection.execute(f"VACUUM (SKIP_LOCKED, TRUNCATE FALSE, PARALLEL 0) rota.{table}")

    @asynccontextmanager
    async def alone(self, lock: int) -> AsyncIterator[Any | None]:
        """A connection outside of any transaction, for what can't be in one; None while another session has this lock.

        A pooler in transaction mode keeps no session that could hold a lock: behind one there is none.
        """
        async with self._connection() as connection:
            with _translated("alone"):
                if not self.pooled and not await connection.fetchval("SELECT pg_try_advisory_lock($1)", lock):
                    yield None
                    return
                try:
                    yield connection
                finally:
                    if not self.pooled:
                        with suppress(*_UNAVAILABLE):  # a lost connection has given it back
                            await connection.execute("SELECT pg_advisory_unlock($1)", lock)

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[Any]:
        """A connection as it is, for tests: behind a pooler it has none of our settings."""
        async with self._connection() as connection:
            yield connection

    @asynccontextmanager
    async def raw_transaction(self) -> AsyncIterator[Any]:
        """A connection with a transaction, for migrations. What PostgreSQL says of a statement comes as the driver's
        error; only a lost connection is translated."""
        async with self._begun() as connection:
            try:
                yield connection
            except _UNAVAILABLE as error:
                raise _unavailable("transaction", error) from error

    def _connection(self) -> _Borrowed:
        return _Borrowed(self._connections)

    @asynccontextmanager
    async def _transaction(self, *, custom: bool = False) -> AsyncIterator[Statements]:
        with _translated("transaction"):
            async with self._begun(custom=custom) as connection:
                yield Statements(connection, custom=custom)

    @asynccontextmanager
    async def _begun(self, *, custom: bool = False) -> AsyncIterator[Any]:
        """A connection with a READ COMMITTED transaction, whatever the defaults are."""
        async with self._connection() as connection:
            with _translated("begin"):
                try:
                    await connection.execute(f"{self._begin}; {_CUSTOM}" if custom else self._begin)
                except asyncpg.FeatureNotSupportedError as error:
                    # A standby refuses to begin what may write, where a direct connection hears it from the write.
                    raise DatabaseUnavailableError(f"begin: {error}") from error
            try:
                yield connection
            except Exception:
                # A statement that was cut off (by a timeout, or by the server) is rolled back.
                with suppress(*_UNAVAILABLE):
                    await connection.execute("ROLLBACK")
                raise
            with _translated("commit"):
                await connection.execute("COMMIT")


async def _persist(name: str, once: Callable[[], Awaitable[T]]) -> T:
    for left in reversed(range(_TRANSIENT_TRIES)):
        try:
            return await once()
        except _TRANSIENT as error:
            if not left:
                raise DatabaseUnavailableError(f"{name}: {error} (tried {_TRANSIENT_TRIES} times)") from error
            _log.debug("statement met another and is repeated", statement=name, error=str(error))
    raise AssertionError("unreachable")


class _Borrowed:
    """A connection for the length of a block."""

    __slots__ = ("_connection", "_connections")

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections

    async def __aenter__(self) -> Any:
        with _translated("acquire"):
            self._connection = await self._connections.take()
        return self._connection

    async def __aexit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        with _translated("release"):
            await self._connections.give_back(self._connection, error)


class _translated:  # noqa: N801 - reads as a word in a with statement
    """Turns the driver's errors into ours."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        if isinstance(error, asyncpg.CheckViolationError) and "no partition of relation" in str(error):
            raise MissingDayError(str(error)) from error
        if isinstance(error, asyncpg.LockNotAvailableError):
            raise LockTimeoutError(f"{self._doing}: another transaction has held a row for too long") from error
        if isinstance(error, _DATA) or (isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError)):
            raise DataRejectedError(f"{self._doing}: {error}") from error
        if isinstance(error, _UNAVAILABLE):
            raise _unavailable(self._doing, error) from error


def _unavailable(doing: str, error: BaseException) -> DatabaseUnavailableError:
    if isinstance(error, asyncpg.DiskFullError):
        return DiskFullError(f"{doing}: the database's disk is full ({error})")
    return DatabaseUnavailableError(f"{doing}: {explain(error)}")


def check_url(url: str, variable: str) -> None:
    """Raises SetupError for what is no address of a database.

    A password with a / or # that is not encoded cuts an address in two, and the errors of drivers quote the piece that
    they can't read. So we look first, and quote nothing.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable(variable) from None
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if parts.scheme not in _SCHEMES or not all(map(_HOST.fullmatch, hosts)) or _LONE_PERCENT.search(url):
        raise _unreadable(variable)


def _unreadable(variable: str) -> SetupError:
    return SetupError(
        f"{variable} can't be read: it must look like postgresql://user:password@host:5432/database, "
        "special characters in the password written as %2F and the like."
    )


async def _leave_as_it_is(_connection: Any) -> None:
    """No statement of ours leaves session state behind; resetting would cost a round trip each time."""


async def _check_server(url: str) -> tuple[bool, int]:
    """Whether a pooler sits in between, and the server's version; refuses servers that are too old, and bad URLs."""
    check_url(url, "ROTA_DATABASE_URL")
    check_files(url, "ROTA_DATABASE_URL")
    try:
        with _translated("connect"):
            connection = await asyncpg.connect(url, timeout=CONNECT_SECONDS, statement_cache_size=0)
    except (DataRejectedError, ValueError):
        raise _unreadable("ROTA_DATABASE_URL") from None
    except DatabaseUnavailableError as error:
        if is_lasting(error.__cause__):
            raise SetupError(f"PostgreSQL can't be reached: {error}. Check ROTA_DATABASE_URL.") from error
        raise
    except asyncpg.PostgresError as error:
        # It is there, and does not want us: waiting would not help.
        raise SetupError(f"PostgreSQL refused the connection: {error}. Check ROTA_DATABASE_URL.") from error
    try:
        with _translated("connect"):
            # Its own settings are not named yet. LOCAL: a pooler gives the session to others.
            await connection.execute(_UNDISTURBED)
            version = int(await connection.fetchval("SELECT current_setting('server_version_num')"))
            pid = await connection.fetchval("SELECT pg_backend_pid()")
    finally:
        await connection.close(timeout=CONNECT_SECONDS)
    if version < OLDEST_SERVER:
        raise SetupError(f"PostgreSQL {version // 10000} is too old: Rota needs {OLDEST_SERVER // 10000} or newer.")
    return bool(pid != connection.get_server_pid()), version
