"""Vacuuming the tables that runs pass through.

A run leaves two dead rows behind in `live_runs`, 40,000 a second at full speed. Autovacuum looks at a table once per
`autovacuum_naptime`, by default a minute, and until then every reader walks over all dead rows. So a scheduler vacuums
the table as soon as enough rows have died. If an open transaction still sees the dead rows, a vacuum can't remove them;
it is repeated only when the number of dead rows has doubled, so that an old snapshot doesn't cause endless vacuums.
"""

from __future__ import annotations

from rota.store.postgres.database import Database

_TABLES = ("live_runs", "held_runs", "upcoming_runs", "departures")
_ENOUGH = 10_000
_BUSY_SHARE = 0.1  # of what is enough for a vacuum


class HotTables:
    """Vacuums each hot table when enough rows have died since the last time."""

    def __init__(self, database: Database, *, enough: int = _ENOUGH) -> None:
        self._database = database
        self._enough = enough
        self._left: dict[str, int] = {}
        self._seen = 0
        self.are_busy = True  # whether rows were dying between the last two looks

    async def vacuum(self) -> int:
        """Returns how many tables were vacuumed."""
        done = 0
        found = await self._dead_rows()
        seen, self._seen = self._seen, sum(found.values())
        self.are_busy = self._seen > seen + self._enough * _BUSY_SHARE
        for name, dead in found.items():
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
