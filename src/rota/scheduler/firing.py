"""Firing: schedules become runs a little ahead of their time.

A job's mark (`fired_through`) says up to where its fire times have been made. One statement moves the mark and makes
the runs, and only if the job is still as it was read; that pair is what makes a nominal time exactly one run, through
any crash and with any number of schedulers. Run ids are a function of (job, nominal time), so even a mark that was
wrong could not make a second run beside the first. The mark never goes back with the clock.

Misfire. A time that is more than MISSED_AFTER in the past when it should be fired was missed: everything was down. Of
missed times only the latest is run, and only within WINDOW; runs already made are judged when they are due
(misfiring.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from rota.domain.ids import fire_id
from rota.domain.schedule import Schedule, fire_times
from rota.scheduler.leases import LeaseKeeper
from rota.scheduler.sharded import ShardService
from rota.store.notifying import Notifier
from rota.store.schedules import DueJob, Firing, Schedules
from rota.telemetry import get_logger

# Runs are made up to HORIZON ahead, which bridges the loss of a scheduler; a job is looked at again when less than
# REFILL of it is left, so that a frequent schedule is fired in handfuls.
HORIZON = timedelta(seconds=10)
REFILL = timedelta(seconds=6)
MISSED_AFTER = timedelta(seconds=60)
WINDOW = timedelta(hours=1)
JOBS_PER_SHARD = 100
MOST_PER_JOB = 1000
PLANS_PER_STEP = 20
_INSTANT = timedelta(microseconds=1)
_log = get_logger("firing")


class Firer(ShardService):
    """Makes the runs of schedules whose time comes near."""

    interval_seconds = 0.5
    full_round = JOBS_PER_SHARD

    def __init__(
        self, *, schedules: Schedules, leases: LeaseKeeper, notifier: Notifier, on_fired: Callable[[], None]
    ) -> None:
        super().__init__(schedules=schedules, leases=leases, notifier=notifier)
        self._on_fired = on_fired

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Fires what is inside the horizon; returns how many jobs were looked at."""
        due = await self._schedules.due_jobs(owned, REFILL, JOBS_PER_SHARD)
        firings = []
        for number, job in enumerate(due):
            if number % PLANS_PER_STEP == 0:
                await asyncio.sleep(0)  # others on this event loop have leases to keep
            if firing := _plan(job):
                firings.append(firing)
        if firings and await self._schedules.fire(owned, firings):
            self._on_fired()
        return len(firings)


def _plan(job: DueJob) -> Firing | None:
    try:
        return plan_firing(job)
    except Exception as error:  # noqa: BLE001 - one schedule that can't be planned must not stop the others
        _log.error("a schedule can't be planned and does not fire", job_id=str(job.id), error=repr(error))
        return None


def plan_firing(job: DueJob) -> Firing:
    """Which runs to make of a due job, and where its mark goes."""
    now = job.database_time
    schedule = job.timetable.schedule()
    if job.next_fire_at <= now - MISSED_AFTER:
        mark, times = _catch_up(schedule, job.fired_through, now)
    else:
        mark, times = job.next_fire_at, [job.next_fire_at]
    times += fire_times(schedule, mark, now + HORIZON, MOST_PER_JOB)
    mark = max(mark, *times) if times else mark
    return Firing(job, [(fire_id(job.id, moment), moment) for moment in times], mark, schedule.next_after(mark))


def _catch_up(schedule: Schedule, fired_through: datetime, now: datetime) -> tuple[datetime, list[datetime]]:
    """The latest of the missed times, if it lies inside the window; the mark passes all of them."""
    earliest = max(fired_through, now - WINDOW - _INSTANT)
    back = timedelta(seconds=1)
    moment = None
    # From now back in growing steps: a frequent schedule has thousands of missed times, and only the last is wanted.
    while moment is None or moment > now:
        start = max(earliest, now - back)
        moment = schedule.next_after(start)
        if start == earliest:
            break
        back *= 2
    latest = None
    while moment is not None and moment <= now:
        latest, moment = moment, schedule.next_after(moment)
    return (latest, [latest]) if latest else (max(fired_through, now - WINDOW), [])
