"""The day partitions of history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from rota.store.postgres.database import Database, MissingDayError
from rota.telemetry import get_logger

_TRIES = 4
_log = get_logger("partitions")
Result = TypeVar("Result")


async def make_days(database: Database, ahead: int) -> int:
    """Makes the partitions from yesterday to `ahead` days ahead; returns how many were missing."""
    made: int = await database.fetch_value("make_days", ahead=ahead)
    return made


async def make_days_of(database: Database, run_ids: Iterable[UUID]) -> None:
    """Makes the partitions that these runs belong to."""
    await database.fetch("make_days_of", run_ids=list(run_ids))


async def with_days(database: Database, run_ids: Sequence[UUID], write: Callable[[], Awaitable[Result]]) -> Result:
    """Runs a write to history; where a day's partition is missing, makes it and writes again.

    A report that is refused for its data is recorded as a failure of its run, so this does not give up at once.
    """
    for left in reversed(range(_TRIES)):
        try:
            return await write()
        except MissingDayError as error:
            if not left:
                raise
            if left < _TRIES - 1:
                _log.warning("a partition was made and is still missing; making it again", error=str(error))
            await make_days_of(database, run_ids)
    raise AssertionError("unreachable")
