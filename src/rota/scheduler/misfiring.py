"""Misfires: runs that a schedule made and nobody promoted in time, because everything was down.

Judged when they are due, by their job's rule (by default the latest is run, within an hour); the rest is recorded as
skipped, with the reason, so that nobody has to wonder.
"""

from __future__ import annotations

from collections.abc import Mapping

from rota.scheduler.firing import MISSED_AFTER, judge_missed, last_times
from rota.scheduler.sharded import ShardService
from rota.store.schedules import MissedRun

RUNS_PER_SHARD = 500


class MisfireJudge(ShardService):
    """Runs what of the missed is still wanted, and skips the rest."""

    interval_seconds = 2.0
    full_round = RUNS_PER_SHARD

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Judges what is too late to be promoted without a thought; returns how many."""
        missed = await self._schedules.missed_runs(owned, MISSED_AFTER, RUNS_PER_SHARD)
        reasons = [(run, reason_to_skip(run)) for run in missed]
        if skips := [(run.namespace, run.id, reason) for run, reason in reasons if reason]:
            await self._schedules.skip(skips)
        if late := [(run.namespace, run.id) for run, reason in reasons if not reason]:
            self.tell_promoted(await self._schedules.promote_runs(late))
        return len(missed)


def reason_to_skip(run: MissedRun) -> str | None:
    """Why a missed run is not run any more; None when it is."""
    rule = run.timetable.misfire_rule
    schedule = run.timetable.schedule(run.job_id)
    later = last_times(schedule, run.nominal_at, run.database_time, rule.cap)
    return judge_missed([run.nominal_at, *later], run.timetable, run.database_time)[0][1]
