"""Workers that fell silent, and the claims they left behind."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import msgspec

from rota.store.postgres.database import Database


class LostClaim(msgspec.Struct, frozen=True):
    """A run still claimed by a worker that is gone."""

    namespace: str
    run_id: UUID
    claim: int
    options: str
    attempt: int
    losses: int
    pool: str
    gone_why: str
    started: float | None
    may_have_started: bool


class LostWorkers:
    """Watches beats and gives workers up."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def watched(self) -> tuple[list[tuple[UUID, int, timedelta]], bool]:
        """(id, beat, lease) of every worker that is not gone; and whether one that is may have left claims behind."""
        rows = await self._database.fetch("watched_workers")
        live = [(row["id"], row["beat"], row["lease"]) for row in rows if not row["gone"]]
        return live, len(live) < len(rows)

    async def give_up(self, worker_id: UUID, beat: int, why: str) -> bool:
        """Marks a worker gone unless it has beaten since. Its claims can't grow after that."""
        return bool(await self._database.fetch("mark_worker_gone", worker_id=worker_id, beat=beat, why=why))

    async def lost_claims(self, limit: int) -> list[LostClaim]:
        """What workers that are gone left behind."""
        return [LostClaim(*row) for row in await self._database.fetch("claims_of_gone_workers", limit=limit)]
