"""Schedules in plain English: a line for each, and no two meanings in the same words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cron_expressions import full_expressions
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rota.domain.cron import Cron
from rota.domain.cron_grammar import MonthShape
from rota.domain.schedule import Bounded, Every
from rota.domain.schedule_description import describe
from rota.errors import BadInputError
from support import examples

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SHAPES = [MonthShape(weekday, length) for weekday in range(7) for length in range(28, 32)]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("30 9 * * 1", "at 09:30 on Mondays"),
        ("0 30 9 * * 1", "at 09:30 on Mondays"),
        ("15 30 9 * * *", "at 09:30:15 every day"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("@daily", "at 00:00 every day"),
        ("@hourly", "every hour"),
        ("@yearly", "at 00:00 on the 1st of the month in January"),
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,15,30,45 * * * *", "every 15 minutes"),
        ("5/15 * * * *", "every 15 minutes from minute 5"),
        ("*/7 * * * *", "every 7 minutes from minute 0 to 56 of every hour"),
        ("30 * * * *", "at minute 30 of every hour"),
        ("0 */2 * * *", "every 2 hours"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("0 0-3,10-14 * * *", "at 00:00, 01:00, 02:00, 03:00, 10:00, 11:00, 12:00, 13:00 and 14:00"),
        ("*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 to 17:59 on weekdays"),
        ("*/5 */2 * * *", "every 5 minutes in every 2nd hour from 00:00"),
        ("5,20 8,10-12 * * *", "at minutes 5 and 20 of the hour from 08:00 to 08:59 and from 10:00 to 12:59"),
        ("10-20 * * * * *", "at seconds 10 to 20 of every minute"),
        ("5 10 * * * *", "at second 5 of the minute, at minute 10 of every hour"),
        ("0 9 * * SAT,SUN", "at 09:00 on weekends"),
        ("0 9 * * 0,2,4", "at 09:00 on Tuesdays, Thursdays and Sundays"),
        ("0 9 1,15 * *", "at 09:00 on the 1st and the 15th of the month"),
        ("0 9 1-7,22,L * *", "at 09:00 on the 1st to 7th, the 22nd and the last day of the month"),
        ("0 9 LW 1-3,7 *", "at 09:00 on the last weekday (Monday to Friday) of the month in January to March and July"),
        ("0 9 15W * *", "at 09:00 on the weekday (Monday to Friday) nearest the 15th of the month"),
        ("0 9 * * MON#2", "at 09:00 on the second Monday of the month"),
        ("0 9 * * 5L", "at 09:00 on the last Friday of the month"),
        ("0 9 13 * FRI", "at 09:00 on the 13th of the month or on Fridays"),
        ("0 9 1-31 * FRI", "at 09:00 every day"),
        ("0 9 */2 * FRI", "at 09:00 on every 2nd day from the 1st to the 31st of the month, but only on Fridays"),
    ],
)
def test_an_expression_in_words(expression, words):
    assert describe(Cron(expression)) == f"{words}, UTC"


def test_the_zone_is_named():
    assert describe(Cron("30 9 * * 1", "Europe/Berlin")) == "at 09:30 on Mondays, Europe/Berlin"


@pytest.mark.parametrize(
    ("dst", "words"),
    [
        ("shift", "at 02:30 every day, UTC"),
        ("skip", "at 02:30 every day, UTC; not when a clock change leaves the time out"),
        ("strict", "at 02:30 every day, UTC; at a clock change whenever the wall clock shows the time"),
    ],
)
def test_a_wish_for_clock_changes_is_told_where_it_matters(dst, words):
    assert describe(Cron("30 2 * * *", dst=dst)) == words
    assert describe(Cron("*/5 * * * *", dst=dst)) == "every 5 minutes, UTC"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "every second"),
        (1.5, "every 1.5 seconds"),
        (60, "every minute"),
        (90, "every 90 seconds"),
        (3600, "every hour"),
        (5400, "every 90 minutes"),
        (86400, "every 24 hours"),
        (604800, "every 168 hours (7 days)"),
        (1234567.25, "every 1234567.25 seconds"),
    ],
)
def test_an_interval_in_words(seconds, words):
    assert describe(Every(seconds, NEW_YEAR)) == words


def test_bounds_are_told():
    bounded = Bounded(Every(60, NEW_YEAR), NEW_YEAR, NEW_YEAR + timedelta(hours=36))
    assert describe(bounded) == "every minute, from 2026-01-01 00:00:00Z until 2026-01-02 12:00:00Z"
    assert describe(Bounded(Every(60, NEW_YEAR), end=NEW_YEAR)) == "every minute, until 2026-01-01 00:00:00Z"


def meaning_of(expression):
    """All an expression says about wall-clock times."""
    fields = Cron(expression).fields
    return fields.seconds, fields.minutes, fields.hours, fields.months, tuple(map(fields.days_in, SHAPES))


def meaning_or_skip(expression):
    try:
        return meaning_of(expression)
    except BadInputError:  # it never fires
        assume(False)


@settings(deadline=None, max_examples=examples(300))
@given(full_expressions())
def test_every_expression_has_one_line(expression):
    meaning_or_skip(expression)
    words = describe(Cron(expression))
    assert words.endswith(", UTC")
    assert len(words) > len(", UTC")
    assert words.isprintable()
    assert "  " not in words


@settings(deadline=None, max_examples=examples(500))
@given(full_expressions(), full_expressions(), st.integers(1, 5))
def test_a_change_of_meaning_is_a_change_of_words(expression, other, place):
    """One field is replaced; counted from the end, where 5 and 6 fields are alike."""
    fields = expression.split()
    fields[-place] = other.split()[-place]
    changed = " ".join(fields)
    same_meaning = meaning_or_skip(expression) == meaning_or_skip(changed)
    assert same_meaning or describe(Cron(expression)) != describe(Cron(changed))
