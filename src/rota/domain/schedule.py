"""Schedules: cron expressions, fixed intervals, and bounds around either."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Protocol
from uuid import UUID

from rota.domain.cron import ClockChange, Cron
from rota.domain.timezones import load_zone
from rota.errors import BadInputError

MIN_INTERVAL_SECONDS = 1.0
MAX_INTERVAL_SECONDS = 10 * 366 * 86400.0
_INSTANT = timedelta(microseconds=1)


class Schedule(Protocol):
    """Says when to fire next, deterministically."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire time strictly after `moment`, in UTC; None if there is none."""


@dataclass(frozen=True)
class Every:
    """A fixed interval in elapsed time, counted from an anchor. The anchor itself is not a fire time."""

    seconds: float
    anchor: datetime

    def next_after(self, moment: datetime) -> datetime | None:
        step = timedelta(seconds=self.seconds)
        count = max(1, (moment - self.anchor) // step + 1)
        try:
            return (self.anchor + count * step).astimezone(UTC)
        except OverflowError:  # beyond the year 9999
            return None


@dataclass(frozen=True)
class Bounded:
    """Another schedule, from `start` to `end` inclusive."""

    schedule: Schedule
    start: datetime | None = None
    end: datetime | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        if self.start is not None:
            moment = max(moment, self.start - _INSTANT)
        found = self.schedule.next_after(moment)
        return None if found is None or (self.end is not None and found > self.end) else found


def parse_cron(
    expression: str, timezone: str, after: datetime, *, dst: ClockChange = "shift", seed: UUID | None = None
) -> Cron:
    """Parses a cron schedule; raises BadInputError if a field is wrong or it never fires."""
    load_zone(timezone)
    schedule = Cron(expression, timezone, dst, seed)
    if schedule.next_after(after) is None:
        # Its days exist, so all of its times fall into gaps of this zone's clock changes.
        raise BadInputError(f"never fires in {timezone} with dst {dst!r}", field="cronExpression")
    return schedule


def parse_every(seconds: float, anchor: datetime) -> Every:
    """Checks an interval; raises BadInputError."""
    if not MIN_INTERVAL_SECONDS <= seconds <= MAX_INTERVAL_SECONDS:
        raise BadInputError(
            f"must be between {MIN_INTERVAL_SECONDS:.0f} and {MAX_INTERVAL_SECONDS:.0f} seconds",
            field="everySeconds",
        )
    return Every(seconds, anchor)


def parse_bounds(schedule: Schedule, start: datetime | None, end: datetime | None) -> Schedule:
    """Adds bounds to a schedule; raises BadInputError if they are empty. An interval's first fire time is its start."""
    if start is None and end is None:
        return schedule
    if start is not None and end is not None and end < start:
        raise BadInputError("is before startTime", field="endTime")
    if start is not None and isinstance(schedule, Every):
        schedule = Every(schedule.seconds, start - timedelta(seconds=schedule.seconds))
    return Bounded(schedule, start, end)


def jitter_of(run_id: UUID, seconds: float) -> timedelta:
    """How much later a run starts: from 0 to less than `seconds`, always the same for a run."""
    share = int.from_bytes(sha256(b"jitter" + run_id.bytes).digest()[:8], "big")  # of 2**64
    return timedelta(seconds=seconds) // _INSTANT * share // 2**64 * _INSTANT


def fire_times(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The fire times in (after, until], at most `limit`."""
    times: list[datetime] = []
    moment: datetime | None = schedule.next_after(after)
    while moment is not None and moment <= until and len(times) < limit:
        times.append(moment)
        moment = schedule.next_after(moment)
    return times
