"""Days in iCalendar texts."""

from datetime import date

import pytest

from rota.domain.icalendar import days_of_icalendar
from rota.errors import BadInputError

TODAY = date(2026, 11, 18)


def days(*lines: str, most: int = 100) -> list[str]:
    text = "\r\n".join(("BEGIN:VCALENDAR", "VERSION:2.0", *lines, "END:VCALENDAR", ""))
    return [day.isoformat() for day in days_of_icalendar(text, TODAY, most)]


def event(*lines: str) -> tuple[str, ...]:
    return ("BEGIN:VEVENT", "UID:1", *lines, "END:VEVENT")


def test_all_day_events_give_their_days_once_and_the_end_is_not_one() -> None:
    assert days(
        *event("DTSTART;VALUE=DATE:20261224", "DTEND;VALUE=DATE:20261227", "SUMMARY:Christmas, of", " fice closed"),
        *event("DTSTART:20261226"),
        *event("DTSTART;VALUE=DATE:20270101", "DTEND;VALUE=DATE:20270101"),
    ) == ["2026-12-24", "2026-12-25", "2026-12-26", "2027-01-01"]


def test_a_yearly_rule_is_followed_to_its_end_or_thirty_years() -> None:
    assert days(*event("DTSTART:20250101", "RRULE:FREQ=YEARLY;COUNT=3")) == ["2025-01-01", "2026-01-01", "2027-01-01"]
    assert days(*event("DTSTART:20250101", "RRULE:FREQ=YEARLY;INTERVAL=2;UNTIL=20290101T000000Z")) == [
        "2025-01-01",
        "2027-01-01",
        "2029-01-01",
    ]
    endless = days(*event("DTSTART:20260101", "RRULE:FREQ=YEARLY"))
    assert (len(endless), endless[-1]) == (31, "2056-01-01")
    assert days(*event("DTSTART:20240229", "RRULE:FREQ=YEARLY;COUNT=2")) == ["2024-02-29", "2028-02-29"]


def test_time_zones_and_reminders_are_passed_over() -> None:
    zone = ("BEGIN:VTIMEZONE", "BEGIN:STANDARD", "DTSTART:19701025T030000", "END:STANDARD", "END:VTIMEZONE")
    alarm = ("BEGIN:VALARM", "TRIGGER:-PT15M", "DURATION:PT5M", "END:VALARM")
    assert days(*zone, *event("DTSTART:20270101", *alarm)) == ["2027-01-01"]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (event("DTSTART:20270101T090000Z"), "DTSTART:20270101T090000Z"),
        (event("DTSTART:20270231"), "no day"),
        (event("SUMMARY:x"), "without DTSTART"),
        (event("DTSTART:20270101", "DURATION:P1D"), "DURATION"),
        (event("DTSTART:20270101", "EXDATE:20280101"), "EXDATE"),
        (event("DTSTART:20270101", "RDATE:20280101"), "RDATE"),
        (event("DTSTART:20270101", "RECURRENCE-ID:20270101"), "RECURRENCE-ID"),
        (event("DTSTART:20270101", "RRULE:FREQ=WEEKLY"), "FREQ=WEEKLY"),
        (event("DTSTART:20270118", "RRULE:FREQ=YEARLY;BYDAY=3MO"), "BYDAY"),
        (event("DTSTART:20270101", "RRULE:FREQ=YEARLY;COUNT=many"), "COUNT"),
        (event("DTSTART:20270101", "RRULE:FREQ=YEARLY", "RRULE:FREQ=YEARLY"), "two RRULE"),
        (event("DTSTART:20270101", "STATUS:CANCELLED"), "CANCELLED"),
        (event("DTSTART:20270110", "DTEND:20270101"), "DTEND"),
        (("BEGIN:VTODO", "END:VTODO"), "VTODO"),
        (("BEGIN:VEVENT", "DTSTART:20270101"), "END:VCALENDAR without its BEGIN"),
        (("nonsense",), "nonsense"),
    ],
)
def test_what_is_not_read_is_refused_by_name(lines: tuple[str, ...], named: str) -> None:
    with pytest.raises(BadInputError, match=named):
        days(*lines)


def test_a_text_with_too_many_days_or_without_a_calendar_is_refused() -> None:
    with pytest.raises(BadInputError, match="more than 30 days"):
        days(*event("DTSTART:20260101", "RRULE:FREQ=YEARLY"), most=30)
    with pytest.raises(BadInputError, match="BEGIN:VCALENDAR"):
        days_of_icalendar("", TODAY, 10)
    with pytest.raises(BadInputError, match="ends before END:VCALENDAR"):
        days_of_icalendar("BEGIN:VCALENDAR\n", TODAY, 10)
