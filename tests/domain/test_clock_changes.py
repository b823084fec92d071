"""What a cron does when the clock is changed: against every change of the IANA database from 2020 to 2040."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, product
from zoneinfo import ZoneInfo

import pytest
from clock_changes import MINUTE, SECOND, Change, Example, all_changes, expected_times, kinds_of_changes, walk
from cronsim import CronSim

from rota.domain.cron import Cron
from rota.domain.schedule import fire_times

RULES = ("shift", "skip", "strict")
REACH = timedelta(hours=4)
PER_CHANGE = 3
HOUR = timedelta(hours=1)
INSTANT = timedelta(microseconds=1)
BERLIN = "Europe/Berlin"


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times_between(cron, first, last):
    return fire_times(cron, first - INSTANT, last, 100_000)


def shown(expression, after, count, zone=BERLIN, dst="shift"):
    """The next fire times as text, in UTC."""
    times = fire_times(Cron(expression, zone, dst), utc(after), utc(after) + timedelta(days=800), count)
    return [moment.strftime("%m-%d %H:%M:%S") for moment in times]


def near(change: Change):
    """Wall-clock times before, at, within and after a change."""
    first, last = sorted((change.closes, change.opens))
    middle = first + (last - first) // 2
    return [first - MINUTE, first, first + MINUTE, middle, last - MINUTE, last, last + MINUTE]


def fixed(wall: datetime, *, date=False, second=None):
    """A time of the day; with `date` on that very day of the year."""
    day = f"{wall.day} {wall.month}" if date else "* *"
    seconds = "" if second is None else f"{second} "
    return Example(
        f"{seconds}{wall.minute} {wall.hour} {day} *",
        lambda other: (
            (other.hour, other.minute, other.second) == (wall.hour, wall.minute, second or 0)
            and (not date or (other.day, other.month) == (wall.day, wall.month))
        ),
        is_fixed=True,
    )


def many(change: Change):
    """Several times of the day, spread around the change."""
    hours = sorted({wall.hour for wall in near(change)})
    return Example(
        f"10,25,40,55 {','.join(map(str, hours))} * * *",
        lambda wall: wall.hour in hours and wall.minute in (10, 25, 40, 55) and wall.second == 0,
        is_fixed=True,
    )


def wildcards(change: Change):
    hour, minute = change.closes.hour, change.opens.minute
    return [
        Example("*/20 * * * *", lambda wall: wall.minute % 20 == 0, is_fixed=False),
        Example(f"{minute} * * * *", lambda wall: wall.minute == minute, is_fixed=False),
        Example(f"*/10 {hour} * * *", lambda wall: wall.minute % 10 == 0 and wall.hour == hour, is_fixed=False),
        Example(f"{minute} */2 * * *", lambda wall: wall.minute == minute and wall.hour % 2 == 0, is_fixed=False),
    ]


def examples(change: Change):
    return [
        *(fixed(wall) for wall in near(change)),
        *(fixed(wall, date=True) for wall in near(change)),
        many(change),
        *wildcards(change),
    ]


def examples_with_seconds(change: Change):
    seconds = (5, 35)
    hour, minute = change.closes.hour, change.closes.minute
    return [
        *(fixed(wall, second=30) for wall in near(change)),
        Example("*/15 * * * * *", lambda wall: wall.second % 15 == 0, is_fixed=False),
        Example(f"5,35 * {hour} * * *", lambda wall: wall.second in seconds and wall.hour == hour, is_fixed=False),
        Example(
            f"5,35 {minute} {hour} * * *",
            lambda wall: wall.second in seconds and (wall.hour, wall.minute) == (hour, minute),
            is_fixed=True,
        ),
    ]


def check(change, steps, example, dst):
    """The same times, asked one after another and asked from the middle of things."""
    cron = Cron(example.expression, change.zone, dst)
    expected = expected_times(steps, example, dst)
    about = f"{change}: {example.expression} {dst}"
    assert times_between(cron, steps[0][0], steps[-1][0]) == expected, about
    for moment in (change.moment - INSTANT, change.moment, change.moment + abs(change.size) // 3):
        following = next((fire for fire in expected if fire > moment), None)
        if following is not None:
            assert cron.next_after(moment) == following, about


def test_there_are_changes_of_all_sizes_in_the_database():
    assert len(all_changes()) > 1000
    assert {abs(change.size) for change in all_changes()} >= {HOUR / 2, HOUR, 2 * HOUR}
    assert len({change.zone for change in all_changes()}) > 30


def test_every_change_from_2020_to_2040_follows_the_rule():
    """Each change meets a few of the examples in turn; the next test shows all of them to each kind of change."""
    for number, change in enumerate(all_changes()):
        steps = walk(change, REACH, MINUTE)
        some = islice(cycle(examples(change)), PER_CHANGE * number % 19, None)
        for example, dst in product(islice(some, PER_CHANGE), RULES):
            check(change, steps, example, dst)


@pytest.mark.parametrize("dst", RULES)
def test_every_kind_of_change_follows_the_rule_for_every_kind_of_expression(dst):
    for change in kinds_of_changes():
        steps = walk(change, REACH, MINUTE)
        for example in examples(change):
            check(change, steps, example, dst)


@pytest.mark.parametrize("dst", RULES)
def test_six_fields_follow_the_same_rule(dst):
    for change in kinds_of_changes():
        steps = walk(change, abs(change.size) + 10 * MINUTE, 5 * SECOND)
        for example in examples_with_seconds(change):
            check(change, steps, example, dst)


@pytest.mark.parametrize("expression", ["30 2 * * *", "0,15,30,45 0-5 * * *", "*/15 * * * *", "0 * * * *", "0 3 * * *"])
def test_changes_by_whole_hours_on_the_hour_are_read_as_cronsim_reads_them(expression):
    """It follows Debian's rule, for 5 fields; changes of other sizes it gets wrong, so they are left out."""
    compared = 0
    for change in all_changes():
        if change.size % HOUR or change.closes.minute:
            continue
        first, last = change.moment - REACH, change.moment + REACH
        theirs = []
        for local in CronSim(expression, (first - SECOND).astimezone(ZoneInfo(change.zone))):
            if local.astimezone(UTC) > last:
                break
            theirs.append(local.astimezone(UTC))
        assert times_between(Cron(expression, change.zone), first, last) == theirs, str(change)
        compared += 1
    assert compared > 1000


@pytest.mark.parametrize(
    ("expression", "dst", "expected"),
    [
        pytest.param("30 2 * * *", "shift", ["03-29 01:00:00", "03-30 00:30:00"], id="made up for after the gap"),
        pytest.param("30 2 * * *", "skip", ["03-30 00:30:00", "03-31 00:30:00"], id="skipped"),
        pytest.param("30 2 * * *", "strict", ["03-30 00:30:00", "03-31 00:30:00"], id="never shown"),
        pytest.param("0 30 2 * * *", "shift", ["03-29 01:00:00", "03-30 00:30:00"], id="the same for 6 fields"),
        pytest.param("15,45 2 * * *", "shift", ["03-29 01:00:00", "03-30 00:15:00"], id="two of them fire once"),
        pytest.param("30 2,3 * * *", "shift", ["03-29 01:00:00", "03-29 01:30:00"], id="one in the gap, one after it"),
        pytest.param("0 2,3 * * *", "shift", ["03-29 01:00:00", "03-30 00:00:00"], id="the end of the gap is one too"),
        pytest.param("*/30 2 * * *", "shift", ["03-30 00:00:00", "03-30 00:30:00"], id="a wildcard is not made up for"),
        pytest.param("H(30-30) 2 * * *", "shift", ["03-29 01:00:00", "03-30 00:30:00"], id="H is a fixed time"),
        pytest.param("H/30 2 * * *", "shift", ["03-30 00:20:00", "03-30 00:50:00"], id="H with a step is a wildcard"),
    ],
)
def test_when_the_clock_goes_forward(expression, dst, expected):
    assert shown(expression, "2026-03-29 00:59", 2, dst=dst) == expected


@pytest.mark.parametrize(
    ("expression", "dst", "expected"),
    [
        pytest.param("30 2 * * *", "shift", ["10-25 00:30:00", "10-26 01:30:00"], id="once"),
        pytest.param("30 2 * * *", "skip", ["10-25 00:30:00", "10-26 01:30:00"], id="once when skipping"),
        pytest.param("30 2 * * *", "strict", ["10-25 00:30:00", "10-25 01:30:00"], id="whenever it is shown"),
        pytest.param("0 30 2 * * *", "shift", ["10-25 00:30:00", "10-26 01:30:00"], id="the same for 6 fields"),
        pytest.param("*/30 2 * * *", "shift", ["10-25 00:00:00", "10-25 00:30:00", "10-25 01:00:00"], id="a wildcard"),
        pytest.param("0 2,3 * * *", "shift", ["10-25 00:00:00", "10-25 02:00:00"], id="both ends of the hour"),
    ],
)
def test_when_the_clock_goes_back(expression, dst, expected):
    assert shown(expression, "2026-10-24 23:59", len(expected), dst=dst) == expected


def test_a_strict_time_of_one_day_a_year_fires_again_when_asked_between_its_two_occurrences():
    assert shown("30 2 25 10 *", "2026-10-25 00:40", 2, dst="strict") == ["10-25 01:30:00", "10-25 00:30:00"]


def test_asked_within_the_repeated_hour_a_time_that_fired_in_the_first_one_is_not_given_again():
    assert shown("30 2 * * *", "2026-10-25 01:10", 1) == ["10-26 01:30:00"]


def test_a_day_that_is_left_out_is_made_up_for_when_the_next_one_begins():
    """Samoa went without 30 December 2011."""
    assert shown("0 9 * * *", "2011-12-29 00:00", 3, "Pacific/Apia") == [
        "12-29 19:00:00",
        "12-30 10:00:00",
        "12-30 19:00:00",
    ]
    assert shown("0 9 30 12 *", "2011-12-29 00:00", 1, "Pacific/Apia") == ["12-30 10:00:00"]
    assert shown("0 9 30 12 *", "2011-12-29 00:00", 1, "Pacific/Apia", "skip") == ["12-29 19:00:00"]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        pytest.param("Australia/Lord_Howe", ["10-03 15:30:00", "10-04 15:15:00"], id="by half an hour"),
        pytest.param("America/Havana", ["03-08 06:15:00", "03-09 06:15:00"], id="not at this hour"),
    ],
)
def test_a_change_may_have_any_size_and_hour(zone, expected):
    after = "2026-10-03 00:00" if zone == "Australia/Lord_Howe" else "2026-03-08 05:30"
    assert shown("15 2 * * *", after, 2, zone) == expected


def test_a_change_of_standard_time_follows_the_rule_as_well():
    """Kazakhstan's east went back an hour for good on 1 March 2024."""
    assert shown("30 23 * * *", "2024-02-29 12:00", 2, "Asia/Almaty") == ["02-29 17:30:00", "03-01 18:30:00"]
    assert shown("30 23 * * *", "2024-02-29 12:00", 2, "Asia/Almaty", "strict") == ["02-29 17:30:00", "02-29 18:30:00"]


@pytest.mark.parametrize("dst", RULES)
def test_a_time_that_no_clock_change_touches_is_the_same_under_every_rule(dst):
    assert shown("0 12 * * *", "2026-03-28 12:00", 2, dst=dst) == ["03-29 10:00:00", "03-30 10:00:00"]


@pytest.mark.parametrize("zone", [BERLIN, "Africa/Casablanca", "Antarctica/Troll", "Australia/Lord_Howe", "Asia/Gaza"])
def test_a_daily_time_fires_once_a_day_through_a_year_of_changes(zone):
    here = ZoneInfo(zone)
    start = datetime(2026, 1, 1, tzinfo=here)
    times = fire_times(Cron("30 2 * * *", zone), start, datetime(2027, 1, 1, tzinfo=here), 1000)
    days = [moment.astimezone(here).date() for moment in times]
    assert days == [start.date() + timedelta(days=number) for number in range(365)]
