"""Describes schedules in one line of plain English.

It describes what an expression means, not how it is written: `*/15` and `0,15,30,45` read the same, and `H` is shown as
its actual times.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product

from rota.domain.business_days import BusinessDays, Exclusion
from rota.domain.cron import ClockChange, Cron
from rota.domain.cron_grammar import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    DayPick,
    Fields,
    LastDay,
    LastOf,
    LastWorkday,
    NearestWorkday,
    NthOf,
    Part,
    members_of,
)
from rota.domain.schedule import Bounded, Every, Schedule

# More times of the day than this are described by their hours and minutes, not one by one.
_MOST_TIMES = 6
_SHORTEST_RUN = 3
_SHORTEST_SERIES = 4
_HOURS_OF_DAY = 24
_MONTHS = (
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_WORKDAYS, _WEEKEND = [1, 2, 3, 4, 5], [0, 6]
_NTH = ("", "first", "second", "third", "fourth", "fifth")
_UNITS = ((3600, "hour"), (60, "minute"), (1, "second"))
_CLOCK_CHANGES: dict[ClockChange, str] = {
    "shift": "",
    "skip": "; not when a clock change leaves the time out",
    "strict": "; at a clock change whenever the wall clock shows the time",
}


def describe(schedule: Schedule) -> str:
    """What the schedule means, such as `at 09:30 on Mondays, Europe/Berlin`."""
    match schedule:
        case Cron():
            return _cron(schedule)
        case Every(seconds=seconds):
            return f"every {_length(seconds)}"
        case Bounded(schedule=inner, start=start, end=end):
            bounds = [f"{word} {_moment(bound)}" for word, bound in (("from", start), ("until", end)) if bound]
            return f"{describe(inner)}, {' '.join(bounds)}" if bounds else describe(inner)
        case BusinessDays(schedule=inner, exclusion=exclusion, start=start, end=end):
            return f"{describe(Bounded(inner, start, end))}; {_excluded(exclusion)}"
        case _:
            raise TypeError(f"{type(schedule).__name__} is not a schedule that can be described")


def _excluded(exclusion: Exclusion) -> str:
    """Which days are left out, and what becomes of their times."""
    days = [*(["weekends"] if exclusion.weekends else []), *(f"days of {name}" for name in exclusion.calendars)]
    named = " and ".join(filter(None, (", ".join(days[:-1]), days[-1])))
    return f"not on {named}" if exclusion.rule == "skip" else f"on {named} moved to the next business day"


def _cron(cron: Cron) -> str:
    """Describes an expression with its zone, and its clock-change rule where that matters."""
    fields = cron.fields
    words = [_times(fields), _days(fields), _months(fields)]
    wish = _CLOCK_CHANGES[cron.dst] if fields.is_fixed_time else ""
    return f"{' '.join(word for word in words if word)}, {cron.timezone}{wish}"


def _times(fields: Fields) -> str:
    seconds, minutes, hours = (members_of(numbers) for numbers in (fields.seconds, fields.minutes, fields.hours))
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES:
        clocks = [_clock(*clock) for clock in product(hours, minutes, seconds)]
        return f"at {_join(clocks)}" + ("" if _days(fields) or _months(fields) else " every day")
    if seconds == [0] and minutes == [0]:
        return _on_the_hour(hours)
    during, of_hour = (f" {_during(hours)}", "of the hour") if len(hours) < _size(HOUR) else ("", "of every hour")
    if seconds == [0]:
        return _rhythm(MINUTE, minutes, of_hour) + during
    if len(minutes) == _size(MINUTE):
        return _rhythm(SECOND, seconds, "of every minute") + during
    return f"{_rhythm(SECOND, seconds, 'of the minute')}, {_rhythm(MINUTE, minutes, of_hour)}{during}"


def _on_the_hour(hours: Sequence[int]) -> str:
    rows = _neighbours(hours)
    if len(hours) < _size(HOUR) and len(rows) == 1:
        first, last = rows[0]
        return f"every hour from {first:02}:00 to {last:02}:00"
    if len(hours) == _size(HOUR) or _step(hours, _size(HOUR)):
        return _rhythm(HOUR, hours, "of the day")
    return f"at {_join([_clock(hour, 0, 0) for hour in hours])}"


def _rhythm(part: Part, numbers: Sequence[int], of: str) -> str:
    """Which seconds, minutes or hours: as a rhythm if they have one, else one by one."""
    size = _size(part)
    if len(numbers) == size:
        return f"every {part.name}"
    if step := _step(numbers, size):
        since = f" from {part.name} {numbers[0]}" if numbers[0] else ""
        return f"every {step} {part.name}s{since}"
    if distance := _distance(numbers):
        return f"every {distance} {part.name}s from {part.name} {numbers[0]} to {numbers[-1]} {of}"
    plural = "s" if len(numbers) > 1 else ""
    return f"at {part.name}{plural} {_join(_runs(numbers, [str(number) for number in range(size)]))} {of}"


def _during(hours: Sequence[int]) -> str:
    """The hours to which the minutes and seconds apply."""
    if step := _step(hours, _size(HOUR)):
        return f"in every {_ordinal(step)} hour from {hours[0]:02}:00"
    return _join([f"from {first:02}:00 to {last:02}:59" for first, last in _neighbours(hours)])


def _step(numbers: Sequence[int], size: int) -> int:
    """The even distance of numbers all around the clock, such as 15 of 0, 15, 30, 45; else 0."""
    distance = size // len(numbers)
    return distance if len(numbers) > 1 and list(range(numbers[0], size, distance)) == list(numbers) else 0


def _distance(numbers: Sequence[int]) -> int:
    """The even distance, above 1, of several numbers; else 0."""
    if len(numbers) < _SHORTEST_SERIES:
        return 0
    distance = numbers[1] - numbers[0]
    return distance if distance > 1 and list(range(numbers[0], numbers[-1] + 1, distance)) == list(numbers) else 0


def _days(fields: Fields) -> str:
    day, weekday = _days_of_month(fields), _weekdays(fields)
    if fields.days_must_both_fit:
        return f"{day}, but only {weekday}" if day and weekday else day or weekday
    # If one of two alternatives is every day, the other does not matter.
    return f"{day} or {weekday}" if day and weekday else ""


def _days_of_month(fields: Fields) -> str:
    numbers = members_of(fields.day.members)
    if len(numbers) == DAY.high:
        return ""
    names = [_ordinal(number) for number in range(DAY.high + 1)]
    if distance := _distance(numbers):
        found = [f"every {_ordinal(distance)} day from the {names[numbers[0]]} to the {names[numbers[-1]]}"]
    else:
        found = [f"the {words}" for words in _runs(numbers, names)]
    found += [_pick(pick) for pick in fields.day.picks]
    return f"on {_join(found)} of the month"


def _weekdays(fields: Fields) -> str:
    numbers = members_of(fields.weekday.members)
    if len(numbers) == len(_WEEKDAYS):
        return ""
    names = [f"{name}s" for name in _WEEKDAYS]
    if numbers == _WORKDAYS:
        found = ["weekdays"]
    elif numbers == _WEEKEND:
        found = ["weekends"]
    else:
        found = [names[number] for number in sorted(numbers, key=lambda number: (number - 1) % 7)]
    found += [f"{_pick(pick)} of the month" for pick in fields.weekday.picks]
    return f"on {_join(found)}"


def _months(fields: Fields) -> str:
    numbers = members_of(fields.months)
    return "" if len(numbers) == len(_MONTHS) - 1 else f"in {_join(_runs(numbers, _MONTHS))}"


def _pick(pick: DayPick) -> str:
    match pick:
        case LastDay():
            return "the last day"
        case LastWorkday():
            return "the last weekday (Monday to Friday)"
        case NearestWorkday(number=number):
            return f"the weekday (Monday to Friday) nearest the {_ordinal(number)}"
        case LastOf(weekday=weekday):
            return f"the last {_WEEKDAYS[weekday]}"
        case NthOf(weekday=weekday, nth=nth):
            return f"the {_NTH[nth]} {_WEEKDAYS[weekday]}"
        case _:
            raise TypeError(f"{type(pick).__name__} is not a day that can be described")


def _size(part: Part) -> int:
    return part.high - part.low + 1


def _runs(numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    """The names of the numbers, with runs joined: 1 to 5, 8."""
    found = []
    for first, last in _neighbours(numbers):
        if last - first + 1 >= _SHORTEST_RUN:
            found.append(f"{names[first]} to {names[last]}")
        else:
            found += [names[number] for number in range(first, last + 1)]
    return found


def _neighbours(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    rows: list[tuple[int, int]] = []
    for number in numbers:
        if rows and rows[-1][1] == number - 1:
            rows[-1] = (rows[-1][0], number)
        else:
            rows.append((number, number))
    return rows


def _join(words: Sequence[str]) -> str:
    """A list with commas and a last `and`."""
    *front, last = words
    return f"{', '.join(front)} and {last}" if front else last


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _length(seconds: float) -> str:
    """A duration in the largest unit without a fraction; days are given as hours, because it is elapsed time."""
    if seconds % 1:
        return f"{seconds:.6f}".rstrip("0") + " seconds"
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    count = int(seconds) // size
    days, rest = divmod(count, _HOURS_OF_DAY)
    told = f" ({days} days)" if unit == "hour" and days > 1 and not rest else ""
    return f"{count} {unit}s{told}" if count > 1 else unit


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
