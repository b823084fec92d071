"""Transactions that a task works in: its writes and the run's completion are committed together, or neither is.

A function in the database records the completion, fenced by the claim number: a worker that lost the claim can't
commit. It is the last statement, sent together with the commit by async tasks, so the run is locked no longer than a
commit takes. If the answer to the commit is
lost, the worker can't know the result; it reports a failure, which changes nothing if the completion was recorded.

Tasks don't use the connections of Rota's own pool, whose planner settings are for Rota's statements. Isolation,
timeouts and JIT are still set (store/postgres/session.py). Async functions get an asyncpg connection from a pool that
resets session state. Functions in threads get a new psycopg connection each, so that no task can affect another through
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import asyncpg

from rota.domain.run import Claim
from rota.errors import DatabaseUnavailableError, EndedByTaskError, RotaError, SetupError
from rota.store.postgres.address import explain
from rota.store.postgres.database import CONNECT_SECONDS
from rota.store.postgres.session import OLDEST_SERVER, begin, set_local, task_settings

NAME = "rota-task"
_COMPLETE = "SELECT rota.complete_v1({}, {}, {}, {}, {}, {})"
# A text that can't be read as a number is an error, and says which: the commit that follows is not carried out.
_LOST = "rota: the claim is lost"
_OR_FAIL = f"SELECT (CASE WHEN {{}} THEN '0' ELSE '{_LOST}' END)::pg_catalog.int4;"
_FOR_PSYCOPG = _COMPLETE.format(*["%s"] * 6)
T = TypeVar("T")


class ClaimLostError(RotaError):
    """Another worker has the run now: the writes of this attempt are rolled back."""

    def __init__(self) -> None:
        super().__init__("the run was given to another worker meanwhile; what this attempt wrote is rolled back")


class TaskTransactions:
    """Opens transactions for tasks; at most `size` of each kind at a time, later ones wait."""

    def __init__(self, url: str, *, size: int, pooled: bool = False, version: int = OLDEST_SERVER) -> None:
        self._url = url
        self._size = size
        self._pooled = pooled
        self._settings = task_settings(version)
        # Behind a pooler a prepared statement may meet a server that never saw it.
        direct = {"server_settings": self._settings | {"application_name": NAME}}
        self._options: dict[str, Any] = {"statement_cache_size": 0} if pooled else direct
        self._permits = asyncio.Semaphore(size)
        self._threads = ThreadPoolExecutor(max_workers=size, thread_name_prefix="rota-transaction")
        self._pool: Any = None
        self._opening = asyncio.Lock()

    def check_plain(self, task: str) -> None:
        """Raises SetupError when the task needs psycopg and it is not there."""
        try:
            import psycopg  # noqa: F401, PLC0415 - only for functions that are transactional and not async
        except ImportError as error:
            raise SetupError(
                f"The task {task!r} is transactional and not async: its connection is psycopg's, which is not "
                "installed (pip install 'psycopg[binary]'). Or make it an async function."
            ) from error

    @asynccontextmanager
    async def begin(self, claim: Claim, *, plain: bool) -> AsyncIterator[Any]:
        """An asyncpg connection in a transaction; `plain`: a psycopg one, for a function in a thread.

        It is rolled back unless it is completed.
        """
        if plain:
            async with self._permits, self._plain(claim) as transaction:
                yield transaction
            return
        async with self._connection() as connection:
            transaction = await self._begin(connection)
            try:
                yield AsyncTransaction(connection, claim, transaction)
            except BaseException:
                # A task may have ended it by itself, or broken the connection: there is nothing to roll back then.
                with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                    await transaction.rollback()
                raise

    async def _begin(self, connection: Any) -> Any:
        transaction = connection.transaction(isolation="read_committed")
        try:
            await transaction.start()
            if self._pooled:
                await connection.execute(f"SET TRANSACTION READ WRITE, NOT DEFERRABLE; {set_local(self._settings)}")
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise DatabaseUnavailableError(f"no transaction for a task: {explain(error)}") from error
        return transaction

    async def close(self) -> None:
        """Closes what is open; a transaction that is still under way is rolled back."""
        if self._pool is not None:
            self._pool.terminate()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        try:
            pool = await self._opened()
            connection = await pool.acquire()
        except (OSError, asyncpg.PostgresError) as error:
            raise DatabaseUnavailableError(f"no connection for a transactional task: {explain(error)}") from error
        try:
            yield connection
        finally:
            await pool.release(connection)

    async def _opened(self) -> Any:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=0,
                    max_size=self._size,
                    timeout=CONNECT_SECONDS,
                    connection_class=TaskSession,
                    reset=TaskSession.clear_for_rota,
                    **self._options,
                )
            return self._pool

    @asynccontextmanager
    async def _plain(self, claim: Claim) -> AsyncIterator[PlainTransaction]:
        try:
            connection = await self._in_thread(lambda: _open_plain(self._url, begin(self._settings)))
        except OSError as error:
            raise DatabaseUnavailableError(f"no connection for a transactional task: {explain(error)}") from error
        try:
            yield PlainTransaction(connection, claim, self._in_thread)
            await self._in_thread(connection.commit_for_rota)
        finally:
            connection.close()  # what was not committed is rolled back by it

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class TaskSession(asyncpg.Connection):  # type: ignore[misc] # asyncpg has no types
    """The asyncpg connection that an async task gets; later tasks reuse it.

    The run's completion, the commit, and clearing what the task left in the session (locks, settings, temporary tables)
    are one round trip. PostgreSQL stops at the first error, so a completion that is refused is not committed. If
    clearing fails, after the commit, the commit counts as unanswered.
    """

    _completion: str | None = None
    _is_clear = False

    async def commit_for_rota(self, transaction: Any, completion: str) -> None:
        """For the worker: runs the completion and commits."""
        self._completion = completion
        try:
            await transaction.commit()
        except asyncpg.PostgresError:
            if self.is_in_transaction():
                await self.execute("ROLLBACK;")
            raise
        finally:
            self._completion = None

    async def clear_for_rota(self) -> None:
        """For the pool: clears the session, if the commit has not done that."""
        if not self._is_clear:
            await self.execute(self._clearing())
        self._is_clear = False

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str:
        """As usual; the COMMIT of `commit_for_rota` has the completion before it, and clearing after it."""
        completion, self._completion = self._completion, None
        if completion is None:
            return str(await super().execute(query, *arguments, timeout=timeout))
        status = await super().execute(f"{completion}\n{query}\n{self._clearing()}", timeout=timeout)
        self._is_clear = True
        return str(status)

    def _clearing(self) -> str:
        return f"{self.get_reset_query()}\nDISCARD TEMP;"


class AsyncTransaction:
    """One that can be awaited."""

    def __init__(self, connection: Any, claim: Claim, transaction: Any) -> None:
        self.connection = connection
        self._claim = claim
        self._transaction = transaction

    async def complete(self, began: float, result: str | None, blob: str | None) -> None:
        """Records the run's success and commits; raises ClaimLostError."""
        if not self.connection.is_in_transaction():
            raise EndedByTaskError
        completion = _written_out(_arguments(self._claim, began, result, blob))
        try:
            await self.connection.commit_for_rota(self._transaction, completion)
        except asyncpg.InvalidTextRepresentationError as error:
            if _LOST in str(error):
                raise ClaimLostError from error
            raise

    @property
    def is_over(self) -> bool:
        """Whether the task has ended it by itself; a connection that was lost has rolled back."""
        return not self.connection.is_closed() and not self.connection.is_in_transaction()

    def abandon(self) -> None:
        """The task did not stop: ends its transaction anyway, which releases its locks."""
        self.connection.terminate()


class PlainTransaction:
    """One for a function in a thread."""

    def __init__(self, connection: Any, claim: Claim, in_thread: Callable[[Callable[[], Any]], Any]) -> None:
        self.connection = connection
        self._claim = claim
        self._in_thread = in_thread

    async def complete(self, began: float, result: str | None, blob: str | None) -> None:
        """Records the run's success; raises ClaimLostError."""
        arguments = _arguments(self._claim, began, result, blob)
        if not await self._in_thread(lambda: self.connection.complete_for_rota(_FOR_PSYCOPG, arguments)):
            raise ClaimLostError

    @property
    def is_over(self) -> bool:
        """Whether the task has ended it by itself."""
        return bool(self.connection.is_over)

    def abandon(self) -> None:
        """The task did not stop: ends its transaction anyway, which releases its locks."""
        self.connection.cut_for_rota()


def _arguments(claim: Claim, began: float, result: str | None, blob: str | None) -> tuple[Any, ...]:
    return (claim.namespace, claim.run_id, claim.number, datetime.fromtimestamp(began, UTC), result, blob)


def _written_out(arguments: tuple[Any, ...]) -> str:
    """The completion as a statement without parameters, which can be sent along with others.

    Texts are written as hexadecimal digits, so that none of their characters means anything in SQL.
    """
    namespace, run_id, number, began, result, blob = arguments
    values = (
        _hexadecimal(namespace),
        f"'{run_id}'::pg_catalog.uuid",
        f"{number:d}",
        f"'{began.isoformat()}'::pg_catalog.timestamptz",
        _hexadecimal(result),
        _hexadecimal(blob),
    )
    return _OR_FAIL.format(_COMPLETE.removeprefix("SELECT ").format(*values))


def _hexadecimal(text: str | None) -> str:
    if text is None:
        return "NULL"
    return f"pg_catalog.convert_from(pg_catalog.decode('{text.encode().hex()}', 'hex'), 'UTF8')"


def _open_plain(url: str, begin_statement: str) -> Any:
    from rota.store.report.task_connection import TaskConnection  # noqa: PLC0415 - psycopg need not be there for all else

    return TaskConnection.open_for_rota(url, NAME, int(CONNECT_SECONDS), begin_statement)
