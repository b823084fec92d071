"""Misfires: runs that a schedule made and that were not promoted in time, because everything was down.

Judged when they are due, by their job's rule (by default the latest is run, within an hour); the rest is recorded as
skipped, with the reason. The rule is in domain/misfire.py.
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
    """Runs what of the missed is still wanted, and skips the rest."""

    interval_seconds = 2.0
    full_round = _RUNS_PER_SHARD

    def __init__(self, *, promotions: Promotions, **shared: Any) -> None:
        super().__init__(**shared)
        self._promotions = promotions

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Judges what is too late to be promoted without a thought; returns how many."""
        missed = await self._promotions.missed_runs(owned, _RUNS_PER_SHARD)
        by_job: dict[tuple[str, UUID], list[MissedRun]] = {}
        for run in missed:
            by_job.setdefault((run.namespace, run.job_id), []).append(run)
        reasons: list[tuple[MissedRun, str | None]] = []
        for runs in by_job.values():
            await asyncio.sleep(0)  # others on this event loop have leases to keep
            first = runs[0]
            times = [run.nominal_at for run in runs]
            judged = judge_late(times, first.job_id, first.timetable, first.database_time)
            reasons += zip(runs, judged, strict=True)
        if skips := [(run.namespace, run.id, reason) for run, reason in reasons if reason]:
            await self._promotions.skip(skips)
        if late := [(run.namespace, run.id) for run, reason in reasons if not reason]:
            await self._promotions.promote_runs(late)
        return len(missed)
