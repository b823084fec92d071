"""Transactions that a task works in: its writes and the run's completion are committed together, or neither is.

The completion is a function of the database, fenced by the claim number: whoever lost the claim meanwhile can't
commit. It is the last statement, so that the run is held for no longer than a commit takes. Should the answer to the
commit be lost, nobody knows what became of it; the worker then reports a failure, which changes nothing where the
completion was recorded.

Connections are of a pool of their own. The settings that Rota pins for its own statements are not for somebody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg

from rota.domain.run import Claim
from rota.errors import DatabaseUnavailableError, RotaError, SetupError
from rota.store.database import CONNECT_SECONDS

NAME = "rota-task"
_COMPLETE = "SELECT rota.complete_v1({}, {}, {}, {}, {}, {})"
_FOR_ASYNCPG = _COMPLETE.format(*(f"${number}" for number in range(1, 7)))
_FOR_PSYCOPG = _COMPLETE.format(*["%s"] * 6)


class ClaimLostError(RotaError):
    """The run was given to another worker meanwhile: what was written is rolled back."""

    def __init__(self) -> None:
        super().__init__("the run was given to another worker meanwhile; what this attempt wrote is rolled back")


class TaskTransactions:
    """Opens transactions for tasks; at most `size` at a time, whoever comes later waits."""

    def __init__(self, url: str, *, size: int, pooled: bool = False) -> None:
        self._url = url
        self._size = size
        # Behind a pooler a prepared statement may meet a server that never saw it.
        self._options = {"statement_cache_size": 0} if pooled else {"server_settings": {"application_name": NAME}}
        self._permits = asyncio.Semaphore(size)
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._plain: list[Any] = []

    @asynccontextmanager
    async def begin(self, claim: Claim, *, plain: bool) -> AsyncIterator[Any]:
        """An asyncpg connection in a transaction; `plain`: a psycopg one, for a function in a thread."""
        if plain:
            async with self._permits, self._plain_connection() as connection:
                yield PlainTransaction(connection, claim)
                await asyncio.to_thread(connection.commit)
            return
        pool = await self._opened()
        async with pool.acquire() as connection, connection.transaction():
            yield AsyncTransaction(connection, claim)

    async def close(self) -> None:
        """Closes what is open; a transaction that is still under way is rolled back."""
        if self._pool is not None:
            self._pool.terminate()
        for connection in self._plain:
            connection.close()
        self._plain.clear()

    async def _opened(self) -> Any:
        async with self._opening:
            if self._pool is None:
                try:
                    self._pool = await asyncpg.create_pool(
                        self._url,
                        min_size=0,
                        max_size=self._size,
                        timeout=CONNECT_SECONDS,
                        **self._options,
                    )
                except (OSError, asyncpg.PostgresError) as error:
                    raise DatabaseUnavailableError(f"no connection for a transactional task: {error}") from error
            return self._pool

    @asynccontextmanager
    async def _plain_connection(self) -> AsyncIterator[Any]:
        connection: Any = self._plain.pop() if self._plain else None
        if connection is None or connection.broken:
            connection = await asyncio.to_thread(_connect, self._url)
        try:
            yield connection
        except BaseException:
            # It may be in any state, and in use by a thread that can't be ended: closing it rolls back.
            connection.close()
            raise
        self._plain.append(connection)


class AsyncTransaction:
    """One that can be awaited."""

    def __init__(self, connection: Any, claim: Claim) -> None:
        self.connection = connection
        self._claim = claim

    async def complete(self, began: float, result: str | None, blob: str | None) -> None:
        """Records the run's success; raises ClaimLostError."""
        if not await self.connection.fetchval(_FOR_ASYNCPG, *_arguments(self._claim, began, result, blob)):
            raise ClaimLostError


class PlainTransaction:
    """One for a function in a thread."""

    def __init__(self, connection: Any, claim: Claim) -> None:
        self.connection = connection
        self._claim = claim

    async def complete(self, began: float, result: str | None, blob: str | None) -> None:
        """Records the run's success; raises ClaimLostError."""
        arguments = _arguments(self._claim, began, result, blob)
        row = await asyncio.to_thread(lambda: self.connection.execute(_FOR_PSYCOPG, arguments).fetchone())
        if not next(iter(row.values() if isinstance(row, dict) else row)):
            raise ClaimLostError


def _arguments(claim: Claim, began: float, result: str | None, blob: str | None) -> tuple[Any, ...]:
    return (claim.namespace, claim.run_id, claim.number, datetime.fromtimestamp(began, UTC), result, blob)


def _connect(url: str) -> Any:
    import psycopg  # noqa: PLC0415 - only for functions that are transactional and not async

    return psycopg.connect(url, application_name=NAME, connect_timeout=int(CONNECT_SECONDS))


def check_psycopg(task: str) -> None:
    """Raises SetupError where a task needs psycopg and it is not there."""
    try:
        import psycopg  # noqa: F401, PLC0415 - only for functions that are transactional and not async
    except ImportError as error:
        raise SetupError(
            f"The task {task!r} is transactional and not async: its connection is psycopg's, which is not installed "
            "(pip install 'psycopg[binary]'). Or make it an async function."
        ) from error
