"""Business days: schedules that leave out certain days, or move the times of such days to the next business day.

A schedule names calendars, which are lists of days, and may leave out weekends. Its days are those of its time zone:
the day that the wall clock shows when it would fire.

- `skip`: a time on an excluded day does not fire.
- `next`: an excluded day hands the times of day that its expression names to the next business day. Times that fall
  together are one. There, a time in a gap of the clock fires right after the gap, and one that comes twice the first
  time. What the clock does on the excluded day itself doesn't matter.

The moved time is the time of the run: marks, misfires, dependencies and backfills know no other. A start is compared
with the time before it was moved, an end with the time after.

The excluded days are stored with the schedule, so that firing needs no calendar. `revisions` tells which state of each
calendar they are from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Literal

import msgspec

from rota.domain.cron import Cron
from rota.domain.schedule import Bounded, Schedule
from rota.domain.timezones import load_zone, spans_of
from rota.errors import BadInputError

OnExcludedDay = Literal["skip", "next"]
MOST_DAYS = 5_000
MOST_CALENDARS = 20
# A schedule whose next time is excluded must have another within this time, and no time is moved further.
FARTHEST = timedelta(days=366)
_SEARCH = timedelta(days=366 * 50)
_LAST_YEAR = 9990
_INSTANT = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_SATURDAY = 5
_MOST_KNOWN = 64
_encoder = msgspec.json.Encoder()


class Exclusion(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """Which days a schedule leaves out, and what becomes of their times."""

    revisions: dict[str, str] = {}  # of the calendars it names; empty text: not looked up yet
    weekends: bool = False
    rule: OnExcludedDay = "skip"
    days: tuple[date, ...] = ()

    @property
    def calendars(self) -> list[str]:
        return list(self.revisions)

    @cached_property
    def day_set(self) -> frozenset[date]:
        return frozenset(self.days)

    def covers(self, day: date) -> bool:
        """Whether it is excluded."""
        return day in self.day_set or (self.weekends and day.weekday() >= _SATURDAY)


def encode_exclusion(exclusion: Exclusion) -> str | None:
    """As it is stored; None if it excludes nothing."""
    return _encoder.encode(exclusion).decode() if exclusion.revisions or exclusion.weekends else None


@lru_cache(_MOST_KNOWN)
def decode_exclusion(text: str) -> Exclusion:
    """Decodes what a job stores. Schedules that name the same calendars mostly have the same text."""
    return msgspec.json.decode(text, type=Exclusion)


def resolve(exclusion: Exclusion, calendars: Mapping[str, tuple[str, tuple[date, ...]]]) -> Exclusion:
    """The exclusion with the days of these calendars, each with its revision; raises BadInputError for one that is not
    among them."""
    days: set[date] = set()
    for name in exclusion.revisions:
        if name not in calendars:
            raise BadInputError(f"there is no calendar {name!r}", field="excludeCalendars")
        days.update(calendars[name][1])
    revisions = {name: calendars[name][0] for name in exclusion.revisions}
    return msgspec.structs.replace(exclusion, revisions=revisions, days=tuple(sorted(days)))


@dataclass(frozen=True)
class BusinessDays:
    """Another schedule, without excluded days."""

    schedule: Schedule
    exclusion: Exclusion
    timezone: str
    start: datetime | None = None
    end: datetime | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire time strictly after `moment`, in UTC; None if there is none within 50 years."""
        if self.start is not None:
            moment = max(moment, self.start - _INSTANT)
        try:
            found = self._next_moved(moment) if self.exclusion.rule == "next" else self._next_kept(moment)
        except OverflowError:  # at the end of the calendar
            return None
        return None if found is None or (self.end is not None and found > self.end) else found

    def _next_kept(self, moment: datetime) -> datetime | None:
        last = moment + _SEARCH
        while (found := self.schedule.next_after(moment)) is not None and found <= last:
            day = self._day_of(found)
            if not self.exclusion.covers(day):
                return found
            # The clock may go back over midnight, so that the next day begins before a time that was looked at.
            moment = max(found, self._instant(self._business_day(day), time()) - _INSTANT)
        return None

    def _next_moved(self, moment: datetime) -> datetime | None:
        """Looks at one business day after the other: at its own times, and those of the excluded days before it."""
        last = moment + _SEARCH
        day: date | None = self._day_of(moment)
        while day is not None and day <= last.date():
            day = self._business_day(day)
            times = [*self._own_time(day, moment), *self._moved_times(day, moment)]
            if times:
                return min(times)
            day = self._next_day(day)
        return None

    def _own_time(self, day: date, moment: datetime) -> Iterator[datetime]:
        """The first time of a business day after a moment."""
        found = self.schedule.next_after(max(moment, self._instant(day, time()) - _INSTANT))
        if found is not None and self._day_of(found) == day:
            yield found

    def _moved_times(self, day: date, moment: datetime) -> Iterator[datetime]:
        """Of each excluded day before a business day: the first time that is moved to after a moment."""
        shown = moment.astimezone(load_zone(self.timezone))
        first = shown.time() if shown.date() == day else None
        before = day - _DAY
        while self.exclusion.covers(before) and day - before <= FARTHEST:
            for wall in self._walls(before, first):
                moved = self._instant(day, wall.time())
                if moved > moment:
                    yield moved
                    break
            before -= _DAY

    def _walls(self, day: date, after: time | None) -> Iterator[datetime]:
        """The wall-clock times that the expression names on a day, after a time of the day, from the start on."""
        cron = self._clock
        wall = datetime.combine(day, after, UTC) if after else datetime.combine(day, time(), UTC) - _INSTANT
        if self.start is not None:
            wall = max(wall, self._wall_of(self.start) - _INSTANT)
        while (found := cron.next_after(wall)) is not None and found.date() == day:
            yield found
            wall = found

    def _next_day(self, day: date) -> date | None:
        """The next day after this one that has a time, as the expression names it or as the clock shows it."""
        named = self._clock.next_after(datetime.combine(day + _DAY, time(), UTC) - _INSTANT)
        shown = self.schedule.next_after(self._instant(day + _DAY, time()) - _INSTANT)
        days = [found for found in (named and named.date(), shown and self._day_of(shown)) if found and found > day]
        return min(days, default=None)

    @property
    def _clock(self) -> Cron:
        """The expression on a clock that never changes: its times are wall-clock times, carried as UTC."""
        assert isinstance(self.schedule, Cron)  # noqa: S101 - exclude_days
        return Cron(self.schedule.expression, "UTC", "strict", self.schedule.seed)

    def _business_day(self, day: date) -> date:
        """The first one from this day on. Days are finitely many, so there is one."""
        while self.exclusion.covers(day):
            day += _DAY
        return day

    def _day_of(self, moment: datetime) -> date:
        return moment.astimezone(load_zone(self.timezone)).date()

    def _wall_of(self, moment: datetime) -> datetime:
        return moment.astimezone(load_zone(self.timezone)).replace(tzinfo=UTC)

    def _instant(self, day: date, wall_time: time) -> datetime:
        """When the clock shows this time on this day: the first time; of a time in a gap, right after the gap."""
        wall = datetime.combine(day, wall_time, UTC)
        if wall.year > _LAST_YEAR:
            raise OverflowError
        for year in (wall.year - 1, wall.year, wall.year + 1):  # a UTC year begins hours before or after a local one
            for span in spans_of(self.timezone, year):
                if wall < span.end + span.offset:
                    return max(wall - span.offset, span.start)
        raise AssertionError  # the next year's first span ends after it


def exclude_days(schedule: Schedule, exclusion: Exclusion, timezone: str) -> BusinessDays:
    """The schedule without excluded days; raises BadInputError if its times can't be moved."""
    start = end = None
    if isinstance(schedule, Bounded):
        start, end, schedule = schedule.start, schedule.end, schedule.schedule
    if exclusion.rule == "next" and not isinstance(schedule, Cron):
        raise BadInputError("'next' is for cron schedules; an interval skips excluded days", field="onExcludedDay")
    return BusinessDays(schedule, exclusion, timezone, start, end)


def check_reach(schedule: Schedule, now: datetime) -> None:
    """Raises BadInputError if a schedule's next time is excluded, and there is no other within 366 days."""
    if not isinstance(schedule, BusinessDays):
        return
    first = Bounded(schedule.schedule, schedule.start, schedule.end).next_after(now)
    if first is None:
        return
    found = schedule.next_after(first - _INSTANT)
    if found is None or found > first + FARTHEST:
        words = f"leave the schedule no time within 366 days of {first.isoformat().replace('+00:00', 'Z')}"
        named = schedule.exclusion.calendars
        raise BadInputError(words, field="excludeCalendars" if named else "excludeWeekends")
