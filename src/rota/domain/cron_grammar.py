"""The cron grammar: parses text into sets of numbers.

A set is an integer whose bit n says that n belongs to it, so finding the next member takes two operations. Which days
of a month match depends only on its length and the weekday of its first day, so there are 28 kinds of month, and
whether an expression ever fires can be decided without searching.

Parsing is bounded: an expression has at most MAX_EXPRESSION_LENGTH characters, every list item is read once, and a set
has at most 60 members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, NoReturn, Protocol
from uuid import UUID

from rota.errors import BadInputError

MAX_EXPRESSION_LENGTH = 200
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELD_COUNTS = (5, 6)
_DAYS_OF_WEEK = 7
_SUNDAY, _SATURDAY = 0, 6
_MOST_NTH = 5
_SHOWN_LENGTH = 40
_LENGTHS = {2: (28, 29), 4: (30,), 6: (30,), 9: (30,), 11: (30,)}
_NO_SEED = UUID(int=0)


class Part(NamedTuple):
    """One of the six parts of an expression, and the numbers it allows."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    hash_high: int = 0  # the last value of `H`: every month has a 28th, and Sunday counts once
    more: str = ""  # syntax that only this part allows


SECOND = Part("second", 0, 59, hash_high=59)
MINUTE = Part("minute", 0, 59, hash_high=59)
HOUR = Part("hour", 0, 23, hash_high=23)
DAY = Part("day-of-month", 1, 31, hash_high=28, more=", L, LW, 15W")
MONTH = Part("month", 1, 12, names=MONTHS, hash_high=12)
WEEKDAY = Part("day-of-week", 0, 7, names=WEEKDAYS, hash_high=6, more=", 5L, MON#2")
PARTS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class MonthShape(NamedTuple):
    """A kind of month. Weekdays count as in cron: Sunday is 0."""

    first_weekday: int
    length: int

    def weekday(self, day: int) -> int:
        return (self.first_weekday + day - 1) % _DAYS_OF_WEEK


class DayPick(Protocol):
    """A day that differs from month to month."""

    def day(self, month: MonthShape) -> int | None:
        """The day of the month; None if this month has none."""


@dataclass(frozen=True)
class LastDay:
    """`L`: the last day of the month."""

    def day(self, month: MonthShape) -> int:
        return month.length


@dataclass(frozen=True)
class LastWorkday:
    """`LW`: the last day from Monday to Friday."""

    def day(self, month: MonthShape) -> int:
        return month.length - {_SATURDAY: 1, _SUNDAY: 2}.get(month.weekday(month.length), 0)


@dataclass(frozen=True)
class NearestWorkday:
    """`15W`: the day from Monday to Friday nearest to the 15th, never in another month."""

    number: int

    def day(self, month: MonthShape) -> int | None:
        if self.number > month.length:
            return None
        match month.weekday(self.number):
            case 6:
                return self.number - 1 if self.number > 1 else self.number + 2
            case 0:
                return self.number + 1 if self.number < month.length else self.number - 2
            case _:
                return self.number


@dataclass(frozen=True)
class LastOf:
    """`5L`: the last Friday of the month."""

    weekday: int

    def day(self, month: MonthShape) -> int:
        return month.length - (month.weekday(month.length) - self.weekday) % _DAYS_OF_WEEK


@dataclass(frozen=True)
class NthOf:
    """`MON#2`: the second Monday of the month."""

    weekday: int
    nth: int

    def day(self, month: MonthShape) -> int | None:
        day = 1 + (self.weekday - month.first_weekday) % _DAYS_OF_WEEK + (self.nth - 1) * _DAYS_OF_WEEK
        return day if day <= month.length else None


@dataclass(frozen=True)
class Field:
    """One parsed part: plain members, movable days, and whether it has a wildcard."""

    members: int
    picks: tuple[DayPick, ...] = ()
    begins_with_star: bool = False
    has_wildcard: bool = False


@dataclass(frozen=True)
class Fields:
    """A parsed expression."""

    seconds: int
    minutes: int
    hours: int
    months: int
    day: Field
    weekday: Field
    is_fixed_time: bool  # no wildcard in second, minute and hour; for the clock-change rule
    _days: dict[MonthShape, int] = field(default_factory=dict, compare=False)

    def days_in(self, month: MonthShape) -> int:
        """The matching days in a month of this kind."""
        found = self._days.get(month)
        if found is None:
            found = self._days[month] = self._match_days(month)
        return found

    @property
    def days_must_both_fit(self) -> bool:
        """Debian's rule: two restricted day fields are alternatives, unless one begins with a star."""
        return self.day.begins_with_star or self.weekday.begins_with_star

    def can_fire(self) -> bool:
        """Whether any month of any year has a matching day; every month can begin on any weekday."""
        return any(
            self.days_in(MonthShape(weekday, length))
            for month in members_of(self.months)
            for length in _LENGTHS.get(month, (31,))
            for weekday in range(_DAYS_OF_WEEK)
        )

    def _match_days(self, month: MonthShape) -> int:
        whole = (1 << month.length + 1) - 2
        by_day = (self.day.members | _picked(self.day, month)) & whole
        by_weekday = _picked(self.weekday, month)
        for day in range(1, month.length + 1):
            by_weekday |= (self.weekday.members >> month.weekday(day) & 1) << day
        return by_day & by_weekday if self.days_must_both_fit else by_day | by_weekday


def members_of(numbers: int) -> list[int]:
    """The members of a set, in order."""
    return [number for number in range(numbers.bit_length()) if numbers >> number & 1]


def parse_fields(expression: str, seed: UUID | None = None) -> Fields:
    """Parses an expression; raises BadInputError naming the wrong part. `seed` decides the value of `H`."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        _refuse(f"longer than {MAX_EXPRESSION_LENGTH} characters")
    # Without an H all jobs share one cache entry.
    return _parse(expression, (seed or _NO_SEED) if "H" in expression.upper() else _NO_SEED)


@lru_cache(maxsize=16_384)
def _parse(expression: str, seed: UUID) -> Fields:
    words = _split(expression)
    second, minute, hour, day, month, weekday = (
        _Reader(part, word, seed).read() for part, word in zip(PARTS, words, strict=True)
    )
    fields = Fields(
        seconds=second.members,
        minutes=minute.members,
        hours=hour.members,
        months=month.members,
        day=day,
        weekday=weekday,
        is_fixed_time=not (second.has_wildcard or minute.has_wildcard or hour.has_wildcard),
    )
    if not fields.can_fire():
        _refuse(
            f"never fires: there is no such day (day-of-month {_shown(words[3])}, month {_shown(words[4])}, "
            f"day-of-week {_shown(words[5])})"
        )
    return fields


def _split(expression: str) -> Sequence[str]:
    """Splits into six words; the second defaults to 0."""
    words = _expand_macro(expression.strip()).split()
    if len(words) not in _FIELD_COUNTS:
        _refuse(f"has {len(words)} fields; 5 (minute hour day month weekday) or 6 (second first) are expected")
    return words if len(words) == len(PARTS) else ["0", *words]


def _expand_macro(expression: str) -> str:
    if not expression.startswith("@"):
        return expression
    name = expression.lower()
    if name.startswith("@every"):
        _refuse("@every is an interval, not cron: give everySeconds instead")
    if name not in MACROS:
        _refuse(f"{_shown(expression)} is not known; {', '.join(MACROS)} are")
    return MACROS[name]


class _Reader:
    """Reads one field, item by item."""

    def __init__(self, part: Part, text: str, seed: UUID) -> None:
        self._part = part
        self._text = text
        self._seed = seed
        self._item = ""  # as it was written, for the message
        self._members = 0
        self._picks: list[DayPick] = []
        self._has_wildcard = False

    def read(self) -> Field:
        for item in self._text.split(","):
            self._item = item
            # upper() turns some letters of other scripts into ASCII.
            self._read_item(item.upper() if item.isascii() else item)
        members = self._members
        if self._part is WEEKDAY:
            members = (members | members >> _DAYS_OF_WEEK) & 0b111_1111  # 7 is Sunday as well
        return Field(members, tuple(self._picks), self._text[0] in "*?", self._has_wildcard)

    def _read_item(self, item: str) -> None:
        pick = None
        if self._part in (DAY, WEEKDAY):
            pick = self._day_pick(item) if self._part is DAY else self._weekday_pick(item)
        if pick:
            self._picks.append(pick)
            return
        base, slash, text = item.partition("/")
        low, high = self._bounds(base, open_ended=bool(slash))
        step = self._step(text) if slash else 1
        if base.startswith("H"):
            # The seed picks the value, or with a step the first value.
            room = high - low + 1
            low += self._spread() % (min(step, room) if slash else room)
            high = high if slash else low
        self._has_wildcard |= base in ("*", "?") or item.startswith("H/")
        for number in range(low, high + 1, step):
            self._members |= 1 << number

    def _bounds(self, base: str, *, open_ended: bool) -> tuple[int, int]:
        """The first and last number of an item."""
        part = self._part
        if base == "*" or (base == "?" and part in (DAY, WEEKDAY)):
            return part.low, part.high
        if base == "H":
            return part.low, part.hash_high
        if base.startswith("H(") and base.endswith(")"):
            return self._range(base[2:-1])
        if "-" in base:
            return self._range(base)
        number = self._number(base)
        return number, part.high if open_ended else number

    def _range(self, text: str) -> tuple[int, int]:
        first, dash, last = text.partition("-")
        if not dash:
            self._refuse("needs a range such as H(0-29)")
        low, high = self._number(first), self._number(last)
        if self._part is WEEKDAY and high == _SUNDAY < low:
            high = _DAYS_OF_WEEK  # FRI-SUN
        if high < low:
            self._refuse("ends before it begins")
        return low, high

    def _number(self, text: str) -> int:
        part = self._part
        if text in part.names:
            return part.names.index(text) + part.low
        if not _is_number(text):
            names = f" or {part.names[0]}-{part.names[-1]}" if part.names else ""
            expected = f"{part.low}-{part.high}{names}, *{part.more}, H; ranges, steps and lists"
            self._refuse(f"is not understood; expected: {expected}")
        number = int(text)
        if not part.low <= number <= part.high:
            self._refuse(f"is not within {part.low}-{part.high}")
        return number

    def _step(self, text: str) -> int:
        if not _is_number(text) or int(text) == 0:
            self._refuse("has no step of 1 or more behind the /")
        return int(text)

    def _day_pick(self, item: str) -> DayPick | None:
        if item == "L":
            return LastDay()
        if item == "LW":
            return LastWorkday()
        if item.endswith("W"):
            return NearestWorkday(self._number(item[:-1]))
        return None

    def _weekday_pick(self, item: str) -> DayPick | None:
        if item.endswith("L"):
            return LastOf(self._number(item[:-1]) % _DAYS_OF_WEEK)
        name, sharp, nth = item.partition("#")
        if not sharp:
            return None
        weekday = self._number(name) % _DAYS_OF_WEEK
        if not (_is_number(nth) and 1 <= int(nth) <= _MOST_NTH):
            self._refuse(f"must end with #1 to #{_MOST_NTH}")
        return NthOf(weekday, int(nth))

    def _spread(self) -> int:
        """A number derived from the seed and the part."""
        return int.from_bytes(sha256(self._seed.bytes + self._part.name.encode()).digest()[:8], "big")

    def _refuse(self, reason: str) -> NoReturn:
        _refuse(f"bad {self._part.name} field: {_shown(self._item)} {reason}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _picked(written: Field, month: MonthShape) -> int:
    """The days of a field's movable picks in this month."""
    days = (pick.day(month) for pick in written.picks)
    return sum({1 << day for day in days if day is not None})


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "…")


def _refuse(reason: str) -> NoReturn:
    raise BadInputError(reason, field="cronExpression")
