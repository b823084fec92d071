"""Cron schedules: when an expression fires in a time zone, through every change of the zone's clock.

The grammar knows wall-clock times only, and the zone is a row of spans of one offset each (zones.py). All that is
special about a clock change happens where one span meets the next, and is decided by how the expression is written:

- A **fixed time** has no wildcard (`*`, `?`, `*/n`, `H/n`) in second, minute and hour: it means certain times of the
  day, and each day should have each of them once. A time that the change leaves out is made up for right after the
  gap (`shift`), once however many of the schedule's times fell into it, or is left out (`skip`). A time that comes
  twice fires when it comes first.
- Everything else is a **wildcard schedule** and follows the clock as it goes: what is left out is never seen, and what
  comes twice fires twice, so that every 15 minutes stays every 15 minutes.
- `strict` treats a fixed time like a wildcard schedule: whenever the wall clock shows a time that fits, it fires.

The size of the change does not matter (30 minutes, an hour, a day), nor whether it is for summer or for good, and 5
and 6 fields follow the same rule. The clock-change code of other cron libraries knows whole hours, or 5 fields, only.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

from rota.domain.cron_grammar import Fields, MonthShape, parse_fields
from rota.domain.timezones import Span, spans_of

ClockChange = Literal["shift", "skip", "strict"]

# A 29 February that is a certain weekday comes after 40 years at most; what takes longer never fires in this zone.
SEARCH_YEARS = 50
# Outside of these years an offset would lead out of what a datetime can hold.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Cron:
    """A cron expression in a time zone; `seed` (the job's id) spreads `H`."""

    expression: str
    timezone: str = "UTC"
    dst: ClockChange = "shift"
    seed: UUID | None = None

    @property
    def fields(self) -> Fields:
        """The expression, parsed; raises BadInputError."""
        return parse_fields(self.expression, self.seed)

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire time strictly after `moment`, in UTC; None when there is none within SEARCH_YEARS."""
        fields = self.fields
        moment = moment.astimezone(UTC)
        if moment.year > _LAST_YEAR:
            return None
        earliest = moment - timedelta(microseconds=moment.microsecond) + _SECOND
        year = max(earliest.year, _FIRST_YEAR)
        last_year = min(year + SEARCH_YEARS, _LAST_YEAR)
        while year <= last_year:
            wall = None
            for span in spans_of(self.timezone, year):
                if span.end <= earliest:
                    continue
                wall = wall_at_or_after(fields, self._begin(fields, span, earliest))
                if wall is None:
                    return None
                if wall < span.end + span.offset:
                    # Earlier than the span is only what fell into the gap before it.
                    return max(wall - span.offset, span.start)
            # Nothing fits before `wall`, so the years up to it need no look; one less, as offsets reach over New Year.
            year = max(year + 1, wall.year - 1) if wall else year + 1
        return None

    def _begin(self, fields: Fields, span: Span, earliest: datetime) -> datetime:
        """The first wall-clock time that this span answers for; its last is what the clock shows at its end.

        Fixed times are dealt out to the spans so that each belongs to exactly one: a span opens where the one before
        closed. Then a gap's times belong to the span after it, and repeated times to the span before.
        """
        shown = max(span.start, earliest) + span.offset
        if not fields.is_fixed_time or self.dst == "strict":
            return shown
        if self.dst == "shift" and earliest <= span.start:
            return span.opens
        return max(shown, span.opens)


def wall_at_or_after(fields: Fields, wall: datetime) -> datetime | None:
    """The first wall-clock time that fits, at or after a whole second; None if there is none within SEARCH_YEARS."""
    year, month, day = wall.year, wall.month, wall.day
    if fields.months >> month & 1 and fields.days_in(_shape(year, month)) >> day & 1:
        found = _time_at_or_after(fields, wall)
        if found is not None:
            return found
    return _first_after_day(fields, year, month, day)


def _time_at_or_after(fields: Fields, wall: datetime) -> datetime | None:
    """The first fitting time of this very day."""
    hour, minute, second = wall.hour, wall.minute, wall.second
    if fields.hours >> hour & 1:
        if fields.minutes >> minute & 1:
            second = _next_member(fields.seconds, second)
            if second >= 0:
                return _at(wall.year, wall.month, wall.day, hour, minute, second)
        minute = _next_member(fields.minutes, minute + 1)
        if minute >= 0:
            return _at(wall.year, wall.month, wall.day, hour, minute, _next_member(fields.seconds, 0))
    hour = _next_member(fields.hours, hour + 1)
    return _first_of_day(fields, wall.year, wall.month, wall.day, hour) if hour >= 0 else None


def _first_after_day(fields: Fields, year: int, month: int, day: int) -> datetime | None:
    """The first time of the first fitting day after this one."""
    last_year = min(year + SEARCH_YEARS, _LAST_YEAR)
    while year <= last_year:
        if fields.months >> month & 1:
            day = _next_member(fields.days_in(_shape(year, month)), day + 1)
            if day >= 0:
                return _first_of_day(fields, year, month, day, _next_member(fields.hours, 0))
        day = 0
        month = _next_member(fields.months, month + 1)
        if month < 0:
            year, month = year + 1, _next_member(fields.months, 1)
    return None


def _first_of_day(fields: Fields, year: int, month: int, day: int, hour: int) -> datetime:
    return _at(year, month, day, hour, _next_member(fields.minutes, 0), _next_member(fields.seconds, 0))


def _at(year: int, month: int, day: int, hour: int, minute: int, second: int) -> datetime:
    """A wall-clock time, carried as if it were UTC (see zones.Span)."""
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def _shape(year: int, month: int) -> MonthShape:
    weekday, length = monthrange(year, month)
    return MonthShape((weekday + 1) % 7, length)  # Python counts from Monday, cron from Sunday


def _next_member(numbers: int, start: int) -> int:
    """The smallest member from `start` on; -1 when there is none."""
    rest = numbers >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1
