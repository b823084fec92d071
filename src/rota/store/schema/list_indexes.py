"""The indexes of lists, on tables that were large before these indexes came (decision 0021).

Every new day has them from the beginning. Older days and a large table of upcoming runs get them afterwards, one after
the other, built concurrently: nothing waits for that, also not a late report to an old day. A list without its index is
slow, never wrong, so nothing depends on when this is done.

A build that dies in the middle leaves an index that is not valid; the next look finds, removes and repeats it. If the
process dies, its session goes on with the build, and others leave the table alone until it has ended. One process at a
time is at it: two that build on one table would deadlock, and one of them would leave its index half made. Behind a
pooler, where no session can hold a lock, that can happen, and is mended in the same way.
"""

from __future__ import annotations

from rota.store.postgres.database import Database, Statements
from rota.telemetry import get_logger

_BUILD_SECONDS = 6 * 3600.0
_LOCK_KEY = 7683  # an advisory lock: one process at a time
_log = get_logger("list_indexes")


class ListIndexes:
    """Makes the indexes that are missing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def make_next(self) -> str | None:
        """Makes one that is missing; returns its name, or None: nothing is missing, or it is not for us to make now."""
        async with self._database.alone(_LOCK_KEY) as connection:
            if connection is None:
                return None
            row = await Statements(connection).fetch_row("missing_list_index")
            if row is None:
                return None
            name: str = row["name"]
            _log.info("an index for lists is made; nothing waits for it", index=name)
            for statement in (row["remove"], row["build"]):
                if statement:
                    await connection.execute(statement, timeout=_BUILD_SECONDS)
            return name
