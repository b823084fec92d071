"""What replays, redrives and bulk cancels are about: what was there when they were created, in pages, latest first."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import NODE_CAUSES
from rota.store.operate import Kind, OperationFilter
from rota.store.postgres.database import Database
from rota.store.read.runs import RunFilter, Runs
from rota.store.redrive import DeadLetterFilter, Redrives


class OperationPage(msgspec.Struct):
    """Runs of a list in its order, which of them the operation is about, how long these took, and whether the list ends
    here."""

    ids: list[UUID]
    concerned: set[UUID]
    is_last: bool
    seconds: list[float] = msgspec.field(default_factory=list)

    def take(self, most: int) -> tuple[list[UUID], int]:
        """The first of those that the operation is about, and how many runs they and those between them are."""
        taken: list[UUID] = []
        for number, run_id in enumerate(self.ids):
            if run_id in self.concerned:
                if len(taken) == most:
                    return taken, number
                taken.append(run_id)
        return taken, len(self.ids)


class OperationPages:
    """Reads pages."""

    def __init__(self, database: Database) -> None:
        self._runs = Runs(database)
        self._redrives = Redrives(database)

    async def read(
        self,
        namespace: str,
        kind: Kind,
        chosen: OperationFilter,
        *,
        since: datetime,
        position: UUID | None,
        limit: int,
    ) -> OperationPage:
        """The page after a position; `since`: when the operation was created."""
        before = chosen.before if position is None else min(chosen.before, position)
        if kind == "redrive":
            letters = DeadLetterFilter(
                chosen.first, before, chosen.task, chosen.job_id, chosen.name, chosen.owner, chosen.error
            )
            rows = await self._redrives.dead_letters(namespace, letters, limit)
            concerned = {row["run_id"] for row in rows if row["buried_at"] <= since}
            return OperationPage([row["run_id"] for row in rows], concerned, len(rows) < limit)
        wanted = RunFilter(chosen.first, before, chosen.owner, chosen.statuses, chosen.name, chosen.tag, chosen.task)
        rows = await self._runs.find(namespace, wanted, limit)
        moment = "created_at" if kind == "cancel" else "finished_at"
        concerned = {row["id"] for row in rows if not is_of_workflow(row) and row[moment] <= since}
        seconds = [took for row in rows if (took := seconds_of(row)) is not None]
        return OperationPage([row["id"] for row in rows], concerned, len(rows) < limit, seconds)


def is_of_workflow(row: Any) -> bool:
    """Whether a run is that of a node: its workflow run is cancelled or resumed as a whole."""
    return row["cause"] in NODE_CAUSES


def seconds_of(row: Any) -> float | None:
    """How long a run took; None if it has not ended, or never started."""
    if row["started_at"] is None or row["finished_at"] is None:
        return None
    took: float = (row["finished_at"] - row["started_at"]).total_seconds()
    return took
