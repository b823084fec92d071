"""Misfires: times of a schedule that passed while all schedulers were down, and which of them still run.

A time was missed if it is more than MISSED_AFTER in the past when it becomes a run, or when its run goes live. The
job's `MisfireRule` (by default the latest, within an hour) decides which missed times still run; the others are
recorded as skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from rota.domain.ids import fire_id
from rota.domain.job import MisfireRule, Timetable
from rota.domain.schedule import Schedule, fire_times, jitter_of

MISSED_AFTER = timedelta(seconds=60)
_INSTANT = timedelta(microseconds=1)


def judge_missed(times: Sequence[datetime], job_id: UUID, timetable: Timetable, now: datetime) -> list[str | None]:
    """Why each of these times is skipped; None if it runs. Lateness counts from the start, jitter included."""
    rule = timetable.misfire_rule
    starts = [start_of(job_id, moment, timetable.jitter_seconds) for moment in times]
    missed = [start for start in starts if start <= now]
    kept = {"skip": 0, "latest": 1, "all": rule.cap}[rule.policy]
    first_kept = sorted(missed)[-kept] if 0 < kept <= len(missed) else None
    oldest = now - timedelta(seconds=rule.window_seconds)

    def judge(start: datetime) -> str | None:
        if start > now:
            return None
        is_kept = kept > 0 and (first_kept is None or start >= first_kept)
        return _why_skipped(rule, too_old=start < oldest, kept=is_kept)

    return [judge(start) for start in starts]


def judge_late(
    times: Sequence[datetime],
    job_id: UUID,
    timetable: Timetable,
    now: datetime,
    *,
    fired_through: datetime,
    next_fire_at: datetime | None,
) -> list[str | None]:
    """Why a job's runs for these times are skipped; None if they run. Considers later times that have no run yet.

    Times between the mark and the next fire time never become runs: they passed before the schedule was what it is now.
    """
    rule = timetable.misfire_rule
    wanted = (rule.cap if rule.policy == "all" else 1) + len(times)
    schedule, first = timetable.schedule(job_id), min(times)
    later = last_times(schedule, first, min(now, fired_through), wanted)
    if next_fire_at is not None:
        later += last_times(schedule, max(first, next_fire_at - _INSTANT), now, wanted)
    missed = sorted({*times, *later})
    reasons = dict(zip(missed, judge_missed(missed, job_id, timetable, now), strict=True))
    return [reasons[moment] for moment in times]


def start_of(job_id: UUID, moment: datetime, jitter_seconds: float) -> datetime:
    """When the run for this time starts, with jitter."""
    return moment + jitter_of(fire_id(job_id, moment), jitter_seconds) if jitter_seconds else moment


def last_times(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The latest fire times in (after, until], at most `limit`, in order.

    Goes back from `until` in steps, because there may be very many: larger steps while few are found, smaller ones
    where they are dense. Times are at least a second apart, so a step of `limit` seconds never has too many.
    """
    found: list[datetime] = []
    shortest = back = timedelta(seconds=limit)
    while until > after and len(found) < limit:
        start = max(after, until - back)
        times = fire_times(schedule, start, until, limit + 1)
        if len(times) > limit and back > shortest:
            back = max(shortest, back / 2)
            continue
        found = times + found
        until = start
        back *= 2
    return found[-limit:]


def _why_skipped(rule: MisfireRule, *, too_old: bool, kept: bool) -> str | None:
    if rule.policy == "skip":
        return "missed: nothing ran at its time, and its job skips what was missed"
    if too_old:
        return f"missed: older than the window of {rule.window_seconds:g} seconds"
    if kept:
        return None
    if rule.policy == "latest":
        return "missed: a later time of the schedule was due as well"
    return f"missed: more than {rule.cap} times were missed"
