"""Every change of every clock from 2020 to 2040, and a reading of the rule that goes through time step by step."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from zoneinfo import ZoneInfo

FIRST, LAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)
PROBE = timedelta(days=2)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Change:
    """The moment from which on another offset counts."""

    zone: str
    moment: datetime
    before: timedelta
    after: timedelta

    @property
    def size(self) -> timedelta:
        return self.after - self.before

    @property
    def closes(self) -> datetime:
        """What the wall clock shows at the change, unchanged."""
        return (self.moment + self.before).replace(tzinfo=None)

    @property
    def opens(self) -> datetime:
        """What the wall clock shows at the change, changed."""
        return (self.moment + self.after).replace(tzinfo=None)

    def __str__(self) -> str:
        return f"{self.zone} {self.closes} -> {self.opens}"


@dataclass(frozen=True)
class Example:
    """An expression, and what it means in the words of the test."""

    expression: str
    matches: Callable[[datetime], bool]
    is_fixed: bool


@cache
def all_changes() -> list[Change]:
    """Zones whose clocks go alike are taken once."""
    by_data = {_data(name): name for name in sorted(zoneinfo.available_timezones(), reverse=True)}
    by_changes = {}
    for name in by_data.values():
        changes = list(_changes_of(name))
        by_changes.setdefault(tuple((c.moment, c.before, c.after) for c in changes), changes)
    return [change for changes in by_changes.values() for change in changes]


@cache
def kinds_of_changes() -> list[Change]:
    """One change for each pair of wall-clock times, of any date."""
    kinds = {(c.closes.time(), c.opens.time(), c.size): c for c in all_changes()}
    return list(kinds.values())


def walk(change: Change, reach: timedelta, step: timedelta) -> list[tuple[datetime, datetime]]:
    """(instant, wall clock) from `reach` before the change to `reach` after it."""
    zone = ZoneInfo(change.zone)
    moment, steps = change.moment - reach, []
    while moment <= change.moment + reach:
        steps.append((moment, moment.astimezone(zone).replace(tzinfo=None, fold=0)))
        moment += step
    return steps


def expected_times(steps: list[tuple[datetime, datetime]], example: Example, dst: str) -> list[datetime]:
    """The rule, read literally: what the clock shows, what it showed before, and what it left out."""
    literal = not example.is_fixed or dst == "strict"
    step = steps[1][0] - steps[0][0]
    fires, shown, expected = [], set(), steps[0][1]
    for instant, wall in steps:
        left_out = False
        while expected < wall:
            left_out = left_out or example.matches(expected)
            expected += step
        made_up_for = left_out and not literal and dst == "shift"
        first_time = wall not in shown
        if made_up_for or (example.matches(wall) and (literal or first_time)):
            fires.append(instant)
        shown.add(wall)
        expected = wall + step
    return fires


def _data(name: str) -> bytes:
    for directory in zoneinfo.TZPATH:
        path = Path(directory) / name
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", name).read_bytes()


def _changes_of(name: str) -> Iterator[Change]:
    zone = ZoneInfo(name)
    low, before = FIRST, FIRST.astimezone(zone).utcoffset()
    while low < LAST:
        high = low + PROBE
        after = high.astimezone(zone).utcoffset()
        if after != before:
            yield Change(name, _bisect(zone, low, high), before, after)
        low, before = high, after


def _bisect(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    before = low.astimezone(zone).utcoffset()
    while high - low > SECOND:
        middle = low + (high - low) // (2 * SECOND) * SECOND
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high
