"""Dependencies between jobs: which run of another job a run waits for, and what that run's state means for it. Pure.

A job that runs once waits until those it needs have succeeded. A schedule's run waits for the other schedule's run of
the same nominal time, or with a window for the one of the latest time in it. Times are compared as instants. Which of
the other's runs counts: the one that its schedule made for that time, or the newest retry of that one; runs that people
start beside the schedule don't.

Whether a run is still to come follows from the other job's calendar, its mark (`fired_through`) and its next fire time,
never from a row that is not there:

- up to the mark, each time has become a run, or was left out for good;
- from the next fire time on, each time of the calendar will become one;
- between the two, none will: these times passed while the job was paused or had another schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from rota.domain.ids import fire_id, show_run
from rota.domain.misfire import last_times
from rota.domain.schedule import Schedule, fire_times

MOST_DEPENDENCIES = 100
# So many of the next times are looked at for one at which all dependencies can be met.
TIMES_TO_CHECK = 100
_INSTANT = timedelta(microseconds=1)
_FOREVER = timedelta(days=366 * 100)
_ENDED_BADLY = ("failed", "cancelled", "skipped")


class NeededSchedule(msgspec.Struct, frozen=True):
    """A recurring job that others depend on, as it is now."""

    job_id: UUID
    state: str
    schedule: Schedule
    fired_through: datetime
    next_fire_at: datetime | None


class NeededRun(msgspec.Struct, frozen=True):
    """A run that counts: its own, or its newest retry."""

    id: UUID
    status: str


class NeedState(msgspec.Struct, frozen=True):
    """Whether a dependency is met, can be met later, or never will be, and why. `run_id`: the run to wait for."""

    fate: Literal["met", "wait", "never"]
    words: str = ""
    run_id: UUID | None = None


_MET = NeedState("met")


def time_needed(schedule: Schedule, nominal_at: datetime, window: float | None) -> datetime | None:
    """The time of another schedule that a run for `nominal_at` waits for; None: it has none that counts."""
    if window is None:
        found = schedule.next_after(nominal_at - _INSTANT)
        return found if found == nominal_at else None
    times = last_times(schedule, nominal_at - timedelta(seconds=window) - _INSTANT, nominal_at, 1)
    return times[0] if times else None


def judge_one_shot(shown: str, run: NeededRun | None) -> NeedState:
    """What the state of a job that runs once means for one that depends on it."""
    if run is None:
        return NeedState("never", f"there is no job {shown}")
    return _judge_run(shown, run, "")


def judge_schedule(
    shown: str, job: NeededSchedule | None, nominal_at: datetime, moment: datetime | None, run: NeededRun | None
) -> NeedState:
    """What the state of a schedule means for a run for `nominal_at`. `moment`: the time that it needs (`time_needed`);
    `run`: the run of that time, if there is one."""
    if job is None:
        return NeedState("never", f"there is no schedule {shown}")
    if moment is None:
        return NeedState("never", f"{shown} has no time that counts for {show_moment(nominal_at)}")
    of_time = f" for {show_moment(moment)}"
    if run is not None:
        return _judge_run(shown, run, of_time)
    if words := _why_never(job, moment):
        return NeedState("never", f"{shown} {words.format(run=f'run{of_time}')}")
    which = ", which is paused," if job.state == "paused" else ""
    return NeedState("wait", f"{shown}{which} has not made its run{of_time}", fire_id(job.job_id, moment))


def judge_all(needs: Iterable[NeedState]) -> NeedState:
    """What several dependencies mean together: one that can't be met decides, then the first that is not met yet."""
    found = _MET
    for need in needs:
        if need.fate == "never":
            return need
        if found.fate == "met":
            found = need
    return found


def unmeetable(
    own: Schedule, others: Mapping[str, Schedule], window: float | None, now: datetime
) -> tuple[str, datetime] | None:
    """The schedule that has no time for any of the next times of `own`, with the first of those; None: each has one."""
    times = fire_times(own, now, now + _FOREVER, TIMES_TO_CHECK)
    for shown, other in others.items():
        if times and not any(time_needed(other, moment, window) for moment in times):
            return shown, times[0]
    return None


def show_moment(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _why_never(job: NeededSchedule, moment: datetime) -> str | None:
    """Why a schedule makes no run for a time that has none; None: it will."""
    if moment <= job.fired_through:
        return "made no {run}"
    if job.state not in ("scheduled", "paused"):
        return f"is {job.state} and makes no {{run}}"
    if job.next_fire_at is not None and moment < job.next_fire_at:
        return "makes no {run}: that time passed while it was paused or changed"
    return None


def _judge_run(shown: str, run: NeededRun, of_time: str) -> NeedState:
    if run.status == "success":
        return _MET
    named = f"{shown}{of_time} ({show_run(run.id)})"
    if run.status in _ENDED_BADLY:
        return NeedState("never", f"{named} {'was ' if run.status != 'failed' else ''}{run.status}")
    return NeedState("wait", f"{named} is {run.status}", run.id)
