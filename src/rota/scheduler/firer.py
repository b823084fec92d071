"""Firing: schedules become runs a little ahead of their time.

A job's mark (`fired_through`) is the last fire time that became a run. One statement moves the mark and makes the runs,
if the job has not changed since it was read. So each nominal time becomes exactly one run, through any crash and with
any number of schedulers. Run ids are a function of (job, nominal time), so even a wrong mark could not make a second
run. The mark never goes back with the clock.

Missed times are judged by domain/misfire.py; of those that no longer run, the latest MOST_RECORDED are recorded as
skipped. Runs that were already made are judged by the same rule when they are due (misfire_judge.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from rota.domain.ids import fire_id
from rota.domain.misfire import MISSED_AFTER, judge_missed, last_times, start_of
from rota.domain.schedule import fire_times
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.shard_service import ShardService
from rota.store.fire import Firing, PlannedRun, ScheduledJob, Schedules
from rota.telemetry import get_logger

# Runs are made up to HORIZON ahead, which bridges the loss of a scheduler. A job is due again when less than _REFILL of
# that is left, so that a frequent schedule fires several runs at a time.
HORIZON = timedelta(seconds=10)
_REFILL = timedelta(seconds=6)
MOST_RECORDED = 100
_JOBS_PER_SHARD = 100
_MOST_PER_JOB = 1000
_PLANS_PER_STEP = 20
_log = get_logger("firing")


class Firer(ShardService):
    """Makes the runs of schedules that fire soon."""

    interval_seconds = 0.5
    full_round = _JOBS_PER_SHARD

    def __init__(self, *, schedules: Schedules, leases: LeaseKeeper, on_fired: Callable[[], None]) -> None:
        super().__init__(leases=leases)
        self._schedules = schedules
        self._on_fired = on_fired

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Fires all times within the horizon; returns how many jobs fired."""
        due = await self._schedules.due_jobs(owned, _REFILL, _JOBS_PER_SHARD)
        firings = []
        for number, job in enumerate(due):
            if number % _PLANS_PER_STEP == 0:
                await asyncio.sleep(0)  # let the heartbeats on this event loop run
            if firing := _plan(job):
                firings.append(firing)
        if firings and await self._schedules.fire(owned, firings):
            self._on_fired()
        return len(firings)


def _plan(job: ScheduledJob) -> Firing | None:
    try:
        return plan_firing(job)
    except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
        _log.error("a schedule can't be planned and does not fire", job_id=str(job.id), error=repr(error))
        return None


def plan_firing(job: ScheduledJob) -> Firing:
    """Which runs to make of a due job, and where its mark goes."""
    now = job.database_time
    schedule = job.timetable.schedule(job.id)
    mark = job.next_fire_at
    if mark > now - MISSED_AFTER:
        runs = [_planned(job, mark)]
    else:
        later = last_times(schedule, mark, now, job.timetable.misfire_rule.cap + MOST_RECORDED)
        missed = [mark, *later]
        reasons = judge_missed(missed, job.id, job.timetable, now)
        runs = _recorded([_planned(job, moment, why) for moment, why in zip(missed, reasons, strict=True)])
        mark = missed[-1]
    runs += [_planned(job, moment) for moment in fire_times(schedule, mark, now + HORIZON, _MOST_PER_JOB)]
    mark = max(mark, *(run.nominal_at for run in runs)) if runs else mark
    return Firing(job, runs, mark, schedule.next_after(mark))


def _planned(job: ScheduledJob, moment: datetime, skipped: str | None = None) -> PlannedRun:
    return PlannedRun(fire_id(job.id, moment), moment, start_of(job.id, moment, job.timetable.jitter_seconds), skipped)


def _recorded(runs: list[PlannedRun]) -> list[PlannedRun]:
    """All runs that start, and the latest skipped ones: a frequent schedule misses thousands of times in a night."""
    forgotten = {run.id for run in [run for run in runs if run.skipped][:-MOST_RECORDED]}
    return [run for run in runs if run.id not in forgotten]
