"""Activity of a namespace: waiting and running runs, and what ran in the last minutes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota.domain.lag_histogram import STEPS
from rota.store.postgres.database import Database


class Activity(msgspec.Struct, frozen=True):
    """One look. `counts` and `live` are of at most `most` rows each."""

    moment: datetime
    counts: Any  # retrying, scheduled, blocked, dead_letters
    live: list[Any]  # by pool: queued, running, oldest_at
    tallies: list[Any]  # by time and pool: started, succeeded, failed, retried
    lags: dict[str, list[int]]  # by pool


class Tallies:
    """Reads what workers report with their beats, and counts waiting runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, namespace: str, *, window: timedelta, history: timedelta, most: int) -> Activity:
        """Lags of the `window`, tallies of the `history`, and waiting runs, counted up to `most` of each kind."""
        counts: Any = await self._database.fetch_row("count_others", namespace=namespace, most=most)
        moment: datetime = counts["moment"]
        lags: dict[str, list[int]] = {}
        for row in await self._database.fetch("recent_lags", namespace=namespace, since=moment - window):
            lags.setdefault(row["pool"], [0] * STEPS)[row["step"] - 1] = row["many"]
        return Activity(
            moment,
            counts,
            await self._database.fetch("count_live", namespace=namespace, most=most),
            await self._database.fetch("recent_tallies", namespace=namespace, since=moment - max(window, history)),
            lags,
        )
