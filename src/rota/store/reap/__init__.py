"""Workers that fell silent, and the claims they left behind."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from rota.domain.run import Claim, Outcome, Report
from rota.store.postgres.database import Database


class WatchedWorker(NamedTuple):
    """A worker whose beats are watched, or one that is gone and may have left claims behind."""

    id: UUID
    beat: int
    lease: timedelta
    gone: bool


class LostWorkers:
    """Watches beats and gives workers up."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def watched(self) -> list[WatchedWorker]:
        """All workers that are not gone, and those that are and may have left claims behind."""
        rows = await self._database.fetch("watched_workers")
        return [WatchedWorker(row["id"], row["beat"], row["lease"], row["gone"]) for row in rows]

    async def give_up(self, worker_id: UUID, beat: int, why: str) -> bool:
        """Marks a worker gone unless it has beaten since. Its claims can't grow after that."""
        is_gone = bool(await self._database.fetch("mark_worker_gone", worker_id=worker_id, beat=beat, why=why))
        self._database.wake(events=is_gone)
        return is_gone

    async def lost_claims(self, limit: int, ended: float) -> list[Report]:
        """The claims of gone workers as reports: lost if the run may have started, else released."""
        reports = []
        for why, started, may_have_started, *claim in await self._database.fetch("claims_of_gone_workers", limit=limit):
            outcome = Outcome.lost if may_have_started else Outcome.released
            error = why if may_have_started else None
            reports.append(Report(Claim(*claim), outcome, started, ended, error=error))
        return reports
