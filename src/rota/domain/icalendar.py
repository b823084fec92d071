"""Days in an iCalendar text (RFC 5545): all-day events, once or every year.

Read is what lists of holidays are made of: DTSTART and DTEND as dates, and an RRULE that repeats yearly, with INTERVAL,
UNTIL and COUNT. What would give an event other days than these say is refused by its name, never passed over.
Properties that only describe an event (SUMMARY, UID, …) don't matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

from rota.errors import BadInputError

MOST_YEARS = 30  # so far ahead a rule without an end is followed
MOST_EVENT_DAYS = 366
_DAY = timedelta(days=1)
_FOLDED = re.compile(r"\r?\n[ \t]")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)")
_NOT_READ = frozenset({"DURATION", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID"})
_PASSED_OVER = frozenset({"VTIMEZONE", "VALARM"})  # the one is for times of day, the other reminds people
_RULE_PARTS = frozenset({"FREQ", "INTERVAL", "UNTIL", "COUNT", "WKST"})


class _Line(NamedTuple):
    name: str
    parameters: str
    value: str


class _Event(NamedTuple):
    start: date
    days: int
    rule: dict[str, str] | None


def days_of_icalendar(text: str, today: date, most: int) -> list[date]:
    """The days of all events, in order; raises BadInputError for what can't be read, or for more than `most` days."""
    lines = [_parse(line) for line in _FOLDED.sub("", text.removeprefix("\ufeff")).splitlines() if line.strip()]
    if not lines or lines[0].name != "BEGIN" or lines[0].value.upper() != "VCALENDAR":
        raise _refused("must begin with BEGIN:VCALENDAR")
    found: set[date] = set()
    for properties in _events(lines):
        event = _event(properties)
        for first in _starts(event, today.year + MOST_YEARS):
            found.update(first + number * _DAY for number in range(event.days))
            if len(found) > most:
                raise _refused(f"has more than {most} days")
    return sorted(found)


def _parse(line: str) -> _Line:
    head, colon, value = line.partition(":")
    if not colon:
        raise _refused(f"has a line that is not iCalendar: {line[:60]!r}")
    name, _, parameters = head.partition(";")
    return _Line(name.strip().upper(), parameters.strip().upper(), value.strip())


def _events(lines: list[_Line]) -> Iterator[list[_Line]]:
    """The properties of each event, without those of what stands inside it."""
    open_components: list[str] = []
    properties: list[_Line] = []
    for line in lines:
        if line.name == "BEGIN":
            component = line.value.upper()
            _check_component(component, open_components)
            open_components.append(component)
            if component == "VEVENT":
                properties = []
        elif line.name == "END":
            if not open_components or open_components.pop() != line.value.upper():
                raise _refused(f"has END:{line.value[:60]} without its BEGIN")
            if line.value.upper() == "VEVENT":
                yield properties
        elif open_components and open_components[-1] == "VEVENT":
            properties.append(line)
    if open_components:
        raise _refused(f"ends before END:{open_components[-1]}")


def _check_component(component: str, inside: list[str]) -> None:
    if inside and (inside[-1] in _PASSED_OVER or component in _PASSED_OVER):
        return
    if component != "VCALENDAR" and (component != "VEVENT" or inside != ["VCALENDAR"]):
        raise _refused(f"has {component[:60]}; only all-day events (VEVENT) are read")


def _event(properties: list[_Line]) -> _Event:
    given: dict[str, _Line] = {}
    for line in properties:
        if line.name in _NOT_READ:
            raise _refused(f"has {line.name}, which is not read; only DTSTART, DTEND and a yearly RRULE are")
        if line.name == "STATUS" and line.value.upper() == "CANCELLED":
            raise _refused("has an event with STATUS:CANCELLED; leave it out")
        if line.name in given and line.name in ("DTSTART", "DTEND", "RRULE"):
            raise _refused(f"has an event with two {line.name}")
        given[line.name] = line
    if "DTSTART" not in given:
        raise _refused("has an event without DTSTART")
    start = _date(given["DTSTART"].value, "DTSTART")
    end = _date(given["DTEND"].value, "DTEND") if "DTEND" in given else start + _DAY
    # Some programs write the day itself as the end of an event of one day.
    days = max((end - start).days, 1)
    if end < start or days > MOST_EVENT_DAYS:
        raise _refused(f"has an event from {start} whose DTEND is before it or more than {MOST_EVENT_DAYS} days after")
    return _Event(start, days, _rule(given["RRULE"].value) if "RRULE" in given else None)


def _rule(value: str) -> dict[str, str]:
    rule = {}
    for part in value.upper().split(";"):
        name, _, content = part.partition("=")
        if name not in _RULE_PARTS:
            raise _refused(f"has an RRULE with {name[:60]}; write the days of this event out")
        rule[name] = content
    if rule.get("FREQ") != "YEARLY":
        raise _refused(f"has an RRULE with FREQ={rule.get('FREQ', '')[:60]}; only YEARLY is read")
    return rule


def _starts(event: _Event, last_year: int) -> Iterator[date]:
    """The first days of an event. A 29 February does not come in other years, and does not count there."""
    if event.rule is None:
        yield event.start
        return
    step = _number(event.rule, "INTERVAL") or 1
    left = _number(event.rule, "COUNT")
    until = _date(event.rule["UNTIL"][:8], "UNTIL") if "UNTIL" in event.rule else None
    for year in range(event.start.year, last_year + 1, step):
        try:
            first = event.start.replace(year=year)
        except ValueError:
            continue
        if (until is not None and first > until) or left == 0:
            return
        yield first
        left = None if left is None else left - 1


def _number(rule: dict[str, str], name: str) -> int | None:
    if name not in rule:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,4}", rule[name]):
        raise _refused(f"has an RRULE whose {name} is not a number")
    return int(rule[name])


def _date(text: str, name: str) -> date:
    match = _DATE.fullmatch(text)
    if match is None:
        raise _refused(f"has {name}:{text[:60]}; only whole days are read, such as {name};VALUE=DATE:20270101")
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        raise _refused(f"has {name}:{text}, which is no day") from None


def _refused(words: str) -> BadInputError:
    return BadInputError(words, field="icalendar")
