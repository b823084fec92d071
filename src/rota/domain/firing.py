"""Which runs a due schedule makes, and where its mark goes.

A job's mark (`fired_through`) is the last fire time that became a run. Missed times are judged by the misfire rule; of
those that no longer run, the latest MOST_RECORDED are recorded as skipped.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from rota.domain.ids import fire_id
from rota.domain.job import Timetable
from rota.domain.misfire import MISSED_AFTER, judge_missed, last_times, start_of
from rota.domain.schedule import fire_times

MOST_RECORDED = 100
HORIZON = timedelta(seconds=10)  # runs are made so far ahead
# A schedule this late is caught up with after those that are on time.
LATE_AFTER = timedelta(seconds=5)
_MOST_AHEAD = 1000


class ScheduledJob(msgspec.Struct, frozen=True):
    """A recurring job that is scheduled, as it was read."""

    namespace: str
    id: UUID
    version: int
    timetable: Timetable
    next_fire_at: datetime
    fired_through: datetime
    database_time: datetime

    @property
    def is_late(self) -> bool:
        return self.next_fire_at < self.database_time - LATE_AFTER


class PlannedRun(msgspec.Struct, frozen=True):
    """A run to make: for this time, to start at that one; or to record as skipped, for a reason."""

    id: UUID
    nominal_at: datetime
    run_at: datetime
    skipped: str | None = None


class Firing(msgspec.Struct, frozen=True):
    """The plan for a due job: runs at these nominal times, a new mark, and when to look again (None: never)."""

    job: ScheduledJob
    runs: list[PlannedRun]
    mark: datetime
    next_fire_at: datetime | None


def plan_firing(job: ScheduledJob, ahead: timedelta) -> Firing:
    """Which runs to make of a due job: for all its times up to `ahead` of the database's clock."""
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
    runs += [_planned(job, moment) for moment in fire_times(schedule, mark, now + ahead, _MOST_AHEAD)]
    mark = max(mark, *(run.nominal_at for run in runs)) if runs else mark
    return Firing(job, runs, mark, schedule.next_after(mark))


def begin_anew(mark: datetime, now: datetime) -> datetime:
    """The mark of a job that has another schedule from now on: its times count from now, not from what was made ahead.

    A time that has its run already is not made again (ids are a function of job and time). A mark beyond the horizon
    is from before the clock went back, and stays.
    """
    return now if now < mark <= now + HORIZON else mark


def _planned(job: ScheduledJob, moment: datetime, skipped: str | None = None) -> PlannedRun:
    return PlannedRun(fire_id(job.id, moment), moment, start_of(job.id, moment, job.timetable.jitter_seconds), skipped)


def _recorded(runs: list[PlannedRun]) -> list[PlannedRun]:
    """All runs that start, and the latest skipped ones: a frequent schedule misses thousands of times in a night."""
    forgotten = {run.id for run in [run for run in runs if run.skipped][:-MOST_RECORDED]}
    return [run for run in runs if run.id not in forgotten]
