"""Vacuuming the tables that runs pass through.

A run leaves two dead rows behind in `live_runs`, 40,000 a second at full speed. Autovacuum looks at a table once per
`autovacuum_naptime`, by default a minute, and every reader of the table walks over all that has died since. So a
scheduler vacuums it as soon as enough has died. A vacuum that could not remove much, because an open transaction still
sees the rows, is repeated only when as many again have died: an old snapshot must not keep us busy in vain.
"""

from __future__ import annotations

from rota.store.postgres.database import Database

_TABLES = ("live_runs", "held_runs", "upcoming_runs", "departures")
_ENOUGH = 10_000


class HotTables:
    """Vacuums each hot table when enough rows have died since the last time."""

    def __init__(self, database: Database, *, enough: int = _ENOUGH) -> None:
        self._database = database
        self._enough = enough
        self._left: dict[str, int] = {}

    async def vacuum(self) -> int:
        """Returns how many tables were vacuumed."""
        done = 0
        for name, dead in (await self._dead_rows()).items():
            left = min(self._left.get(name, 0), dead)
            if dead >= left + max(self._enough, left):
                await self._database.vacuum(name)
                self._left[name] = (await self._dead_rows()).get(name, dead)
                done += 1
            else:
                self._left[name] = left
        return done

    async def _dead_rows(self) -> dict[str, int]:
        rows = await self._database.fetch("dead_rows", tables=list(_TABLES))
        return {row["name"]: row["dead"] for row in rows}
