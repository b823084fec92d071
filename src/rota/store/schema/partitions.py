"""The day partitions of history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from rota.store.postgres.database import Database, MissingDayError

Result = TypeVar("Result")


async def make_days(database: Database, ahead: int) -> int:
    """Makes the partitions from yesterday to so many days ahead; returns how many were missing."""
    made: int = await database.fetch_value("make_days", ahead=ahead)
    return made


async def make_days_of(database: Database, run_ids: Iterable[UUID]) -> None:
    """Makes the partitions that these runs belong to."""
    await database.fetch("make_days_of", run_ids=list(run_ids))


async def with_days(database: Database, run_ids: Sequence[UUID], write: Callable[[], Awaitable[Result]]) -> Result:
    """Runs a write to history; where a day's partition is missing, makes it and writes again."""
    try:
        return await write()
    except MissingDayError:
        await make_days_of(database, run_ids)
        return await write()
