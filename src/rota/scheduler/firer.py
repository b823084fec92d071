"""Firing: schedules become runs a little ahead of their time.

A job's mark (`fired_through`) says up to where its fire times have been made. One statement moves the mark and makes
the runs, and only if the job is still as it was read; that pair is what makes a nominal time exactly one run, through
any crash and with any number of schedulers. Run ids are a function of (job, nominal time), so even a mark that was
wrong could not make a second run beside the first. The mark never goes back with the clock.

Times that were missed are judged by domain/misfire.py; of those that are not run any more, the latest MOST_RECORDED are
recorded as skipped. Runs already made are judged when they are due (misfire_judge.py), by the same rule.
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

# Runs are made up to HORIZON ahead, which bridges the loss of a scheduler; a job is looked at again when less than
# _REFILL of it is left, so that a frequent schedule is fired in handfuls.
HORIZON = timedelta(seconds=10)
_REFILL = timedelta(seconds=6)
MOST_RECORDED = 100
_JOBS_PER_SHARD = 100
_MOST_PER_JOB = 1000
_PLANS_PER_STEP = 20
_log = get_logger("firing")


class Firer(ShardService):
    """Makes the runs of schedules whose time comes near."""

    interval_seconds = 0.5
    full_round = _JOBS_PER_SHARD

    def __init__(self, *, schedules: Schedules, leases: LeaseKeeper, on_fired: Callable[[], None]) -> None:
        super().__init__(leases=leases)
        self._schedules = schedules
        self._on_fired = on_fired

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Fires what is inside the horizon; returns how many jobs were looked at."""
        due = await self._schedules.due_jobs(owned, _REFILL, _JOBS_PER_SHARD)
        firings = []
        for number, job in enumerate(due):
            if number % _PLANS_PER_STEP == 0:
                await asyncio.sleep(0)  # others on this event loop have leases to keep
            if firing := _plan(job):
                firings.append(firing)
        if firings and await self._schedules.fire(owned, firings):
            self._on_fired()
        return len(firings)


def _plan(job: ScheduledJob) -> Firing | None:
    try:
        return plan_firing(job)
    except Exception as error:  # noqa: BLE001 - one schedule that can't be planned must not stop the others
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
    """All that are run, and of what is skipped the latest: a frequent schedule misses thousands of times in a night."""
    skips = [run for run in runs if run.skipped]
    forgotten = {run.id for run in skips[:-MOST_RECORDED]}
    return [run for run in runs if run.id not in forgotten]
