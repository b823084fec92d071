"""Cron schedules: when an expression fires in a time zone, through every change of the zone's clock.

The grammar knows only wall-clock times, and a zone is a sequence of spans with one offset each (timezones.py). Clock
changes matter only where one span meets the next, and the expression decides what happens there:

- A **fixed time** has no wildcard (`*`, `?`, `*/n`, `H/n`) in second, minute and hour: it means certain times of the
  day, and each should happen once a day. Times in a gap fire once, right after the gap (`shift`), or not at all
  (`skip`). A time that comes twice fires the first time.
- Everything else is a **wildcard schedule** and follows the clock: times in a gap don't fire, and times that come twice
  fire twice, so that every 15 minutes stays every 15 minutes.
- `strict` treats a fixed time like a wildcard schedule: it fires whenever the wall clock shows a matching time.

This holds for changes of any size (30 minutes, an hour, a day), seasonal or permanent, with 5 or 6 fields.
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

# A 29 February on a certain weekday comes within 40 years; what takes longer never fires in this zone.
_SEARCH_YEARS = 50
# Outside of these years an offset could overflow a datetime.
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
        """The first fire time strictly after `moment`, in UTC; None if there is none within _SEARCH_YEARS."""
        fields = self.fields
        moment = moment.astimezone(UTC)
        if moment.year > _LAST_YEAR:
            return None
        earliest = moment - timedelta(microseconds=moment.microsecond) + _SECOND
        year = max(earliest.year, _FIRST_YEAR)
        last_year = min(year + _SEARCH_YEARS, _LAST_YEAR)
        while year <= last_year:
            wall = None
            for span in spans_of(self.timezone, year):
                if span.end <= earliest:
                    continue
                wall = _wall_at_or_after(fields, self._begin(fields, span, earliest))
                if wall is None:
                    return None
                if wall < span.end + span.offset:
                    # A time before the span fell into the gap before it.
                    return max(wall - span.offset, span.start)
            # Nothing matches before `wall`: skip the years up to it, less one because offsets reach over New Year.
            year = max(year + 1, wall.year - 1) if wall else year + 1
        return None

    def _begin(self, fields: Fields, span: Span, earliest: datetime) -> datetime:
        """The first wall-clock time of this span.

        Each fixed time belongs to exactly one span: a span opens where the one before closed. So times in a gap belong
        to the span after it, and repeated times to the span before.
        """
        shown = max(span.start, earliest) + span.offset
        if not fields.is_fixed_time or self.dst == "strict":
            return shown
        if self.dst == "shift" and earliest <= span.start:
            return span.opens
        return max(shown, span.opens)


def _wall_at_or_after(fields: Fields, wall: datetime) -> datetime | None:
    """The first matching wall-clock time at or after a whole second; None if none within _SEARCH_YEARS."""
    year, month, day = wall.year, wall.month, wall.day
    if fields.months >> month & 1 and fields.days_in(_shape(year, month)) >> day & 1:
        found = _time_at_or_after(fields, wall)
        if found is not None:
            return found
    return _first_after_day(fields, year, month, day)


def _time_at_or_after(fields: Fields, wall: datetime) -> datetime | None:
    """The first matching time of the same day."""
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
    """The first time of the next matching day."""
    last_year = min(year + _SEARCH_YEARS, _LAST_YEAR)
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
    """A wall-clock time, carried as if it were UTC (see timezones.Span)."""
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def _shape(year: int, month: int) -> MonthShape:
    weekday, length = monthrange(year, month)
    return MonthShape((weekday + 1) % 7, length)  # Python counts from Monday, cron from Sunday


def _next_member(numbers: int, start: int) -> int:
    """The smallest member from `start` on; -1 if there is none."""
    rest = numbers >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1
