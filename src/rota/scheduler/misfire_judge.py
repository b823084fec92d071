"""Misfires: scheduled runs that were not promoted in time, because all schedulers were down.

Their job's rule decides which still run (by default the latest, within an hour); the others are recorded as skipped,
with the reason. The rule is in domain/misfire.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from rota.domain.misfire import judge_late
from rota.scheduler.shard_service import ShardService
from rota.store.promote import MissedRun, Promotions

_RUNS_PER_SHARD = 500


class MisfireJudge(ShardService):
    """Promotes missed runs that should still run, and skips the others."""

    interval_seconds = 2.0
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, promotions: Promotions, **shared: Any) -> None:
        super().__init__(**shared)
        self._promotions = promotions

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Judges runs that are too late for the promoter; returns how many."""
        missed = await self._promotions.missed_runs(owned, _RUNS_PER_SHARD)
        by_job: dict[tuple[str, UUID], list[MissedRun]] = {}
        for run in missed:
            by_job.setdefault((run.namespace, run.job_id), []).append(run)
        reasons: list[tuple[MissedRun, str | None]] = []
        for runs in by_job.values():
            await asyncio.sleep(0)  # let the heartbeats on this event loop run
            first = runs[0]
            nominal = [run.nominal_at for run in runs]
            judged = judge_late(nominal, first.job_id, first.timetable, first.database_time)
            reasons += zip(runs, judged, strict=True)
        if skips := [(run.namespace, run.id, reason) for run, reason in reasons if reason]:
            await self._promotions.skip(skips)
        if late := [(run.namespace, run.id) for run, reason in reasons if not reason]:
            await self._promotions.promote_runs(late)
        return len(missed)
