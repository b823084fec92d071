"""The connections of a process to one database.

The driver's pool makes them and replaces those that were lost. Between two uses they stay here, not there: handing one
back to the pool starts a task, which takes longer than a small statement does in this process.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from rota.errors import DatabaseUnavailableError
from rota.fair_turns import FairTurns

WAIT_SECONDS = 30.0


class ConnectionPool:
    """As many as the pool may have; each use takes a turn."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._turns = FairTurns(pool.get_max_size())
        self._idle: list[Any] = []

    @property
    def used(self) -> int:
        """How many are in use."""
        return self._turns.taken

    @property
    def idle(self) -> int:
        """How many are open and not in use."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return self._turns.waiting

    async def take(self) -> Any:
        """A connection, which must be given back; raises TimeoutError."""
        await self._turns.take(WAIT_SECONDS)
        try:
            while self._idle:
                connection = self._idle.pop()
                if not _is_lost(connection):
                    return connection
                await self._pool.release(connection)
            return await self._pool.acquire(timeout=WAIT_SECONDS)
        except BaseException:
            self._turns.give_back()
            raise

    async def give_back(self, connection: Any, error: BaseException | None) -> None:
        """Ends a turn, with the error that came out of it."""
        try:
            if error is not None and _is_distrusted(error) and not _is_lost(connection):
                connection.terminate()
            if _is_lost(connection) or self._pool.is_closing():
                await self._pool.release(connection)
            else:
                self._idle.append(connection)
        finally:
            self._turns.give_back()

    async def close(self, seconds: float) -> None:
        """Closes every connection; raises TimeoutError if one hangs."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await self._pool.release(connection)
        await asyncio.wait_for(self._pool.close(), timeout=seconds)

    def terminate(self) -> None:
        """Cuts every connection."""
        self._pool.terminate()


def _is_lost(connection: Any) -> bool:
    """Whether it is closed. One that the server closed has left the pool by itself, and can't even be asked."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True


def _is_distrusted(error: BaseException) -> bool:
    """Whether a connection can't be used again after this: its backend may hang, or the driver be confused."""
    if isinstance(error, (asyncio.CancelledError, TimeoutError)):
        return True
    causes = (TimeoutError, asyncpg.InternalClientError)
    return isinstance(error, DatabaseUnavailableError) and isinstance(error.__cause__, causes)
