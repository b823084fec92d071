"""Follows the database's clock."""

from __future__ import annotations

from rota.clock import DatabaseClock, uptime
from rota.service import Service
from rota.store.postgres.database import Database


class ClockFollower(Service):
    """Measures the database's clock. Without an answer the last measurement stays; /readyz reports the outage."""

    interval_seconds = 5.0

    def __init__(self, database: Database, clock: DatabaseClock) -> None:
        super().__init__()
        self._database = database
        self._clock = clock

    async def tick(self) -> int:
        sent = uptime()
        moment = await self._database.time()
        self._clock.observe(sent=sent, received=uptime(), database_time=moment)
        return 1
