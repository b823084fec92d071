"""How long a transaction waits for rows that another one holds.

Programs submit inside transactions of their own and may leave them open. A request for a row that such a transaction
holds fails soon, and can be tried again, instead of waiting until the statement times out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from rota.errors import KeyHeldError, LockTimeoutError
from rota.store.postgres.database import Database, Statements

LONGEST_WAIT = "2s"
Result = TypeVar("Result")


async def limit_lock_waits(statements: Statements, longest: str) -> None:
    """From here on, waits for locks in this transaction raise LockTimeoutError after `longest`."""
    await statements.fetch("set_lock_timeout", longest=longest)


async def transact_soon(database: Database, body: Callable[[Statements], Awaitable[Result]]) -> Result:
    """As `Database.transact`; raises KeyHeldError if another transaction holds a row of it for LONGEST_WAIT."""

    async def soon(statements: Statements) -> Result:
        await limit_lock_waits(statements, LONGEST_WAIT)
        return await body(statements)

    try:
        return await database.transact(soon)
    except LockTimeoutError as error:
        words = "another transaction holds the job or one of its runs; try again when it has ended"
        raise KeyHeldError(words) from error
