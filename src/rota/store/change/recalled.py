"""Recalled runs: their job changed while a worker held them, and the new version decides about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from rota.domain.run import LOOKAHEAD, RecalledRun
from rota.errors import DataRejectedError
from rota.store.lease import leased
from rota.store.postgres.batches import write_each
from rota.store.postgres.database import Database
from rota.store.read.timetables import read_with_timetable
from rota.store.schema.partitions import with_days


class RecalledRuns:
    """Reads and decides recalled runs. `owned` maps shards to the epochs they were leased at."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id

    async def find(self, owned: Mapping[int, int], limit: int) -> list[RecalledRun]:
        """Runs that wait for a decision because their job changed while a worker held them."""
        rows = await self._database.fetch(
            "recalled_runs",
            **leased(self._scheduler_id, owned),
            limit=limit,
        )
        return [read_with_timetable(RecalledRun, row) for row in rows]

    async def decide(self, decisions: Sequence[tuple[RecalledRun, str]]) -> list[tuple[RecalledRun, DataRejectedError]]:
        """Carries out decisions whose job did not change meanwhile; returns those that PostgreSQL refused."""
        rejected: list[tuple[RecalledRun, DataRejectedError]] = []

        async def write(some: Sequence[tuple[RecalledRun, str]]) -> list[Any]:
            return await with_days(
                self._database,
                [run.id for run, _ in some],
                lambda: self._database.fetch(
                    "decide_recalled",
                    namespaces=[run.namespace for run, _ in some],
                    run_ids=[run.id for run, _ in some],
                    fates=[fate for _, fate in some],
                    versions=[run.version for run, _ in some],
                    lookahead=LOOKAHEAD,
                ),
            )

        async def reject(decision: tuple[RecalledRun, str], error: DataRejectedError) -> None:
            rejected.append((decision[0], error))

        rows = await write_each(sorted(decisions, key=lambda decision: decision[0].id), write, reject)
        pools = {row["pool"] for row in rows if row["fate"] == "go"}
        self._database.wake(pools=pools, gates=True, soon=bool(pools))
        return rejected
