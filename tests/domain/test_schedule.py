"""When schedules fire: cron in time zones, through clock changes, and intervals."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domain.job import Timetable
from rota.domain.schedule import (
    MAX_EXPRESSION_LENGTH,
    MAX_INTERVAL_SECONDS,
    Cron,
    Every,
    fire_times,
    load_zone,
    parse_cron,
    parse_every,
)
from rota.errors import BadInputError

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Santiago",
    "America/Havana",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Antarctica/Troll",
)
# The clock changes by half an hour here, or at a quarter past.
ODD_ZONES = ("Australia/Lord_Howe", "Pacific/Chatham")
EXPRESSIONS = (
    "30 2 * * *",
    "*/15 * * * *",
    "0 * * * *",
    "15,45 1-3 * * *",
    "0 0 * * *",
    "*/20 0 * * *",
    "5 */2 * * *",
    "0 12 * * MON",
    "59 23 L * *",
    "0 30 2 * * *",
    "*/10 * 2 * * *",
    "0 0 0 1 * *",
)
WEEK = timedelta(days=7)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first(expression, count=1, *, after=NEW_YEAR, timezone="UTC"):
    """The next so many fire times as text, in UTC."""
    times = fire_times(parse_cron(expression, timezone, after), after, after + timedelta(days=4000), count)
    return [moment.strftime("%Y-%m-%d %H:%M:%S") for moment in times]


def refusal(expression, timezone="UTC"):
    with pytest.raises(BadInputError) as refused:
        parse_cron(expression, timezone, NEW_YEAR)
    ((field, message),) = refused.value.fields
    return field, message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 * * * *", ["2026-01-01 00:20:00", "2026-01-01 00:40:00", "2026-01-01 01:00:00"]),
        ("30 9 * * *", ["2026-01-01 09:30:00", "2026-01-02 09:30:00"]),
        ("0 9 * * MON-FRI", ["2026-01-01 09:00:00", "2026-01-02 09:00:00", "2026-01-05 09:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("0 0 L * *", ["2026-01-31 00:00:00", "2026-02-28 00:00:00"]),
        ("0 0 LW * *", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 * * MON#1", ["2026-01-05 00:00:00", "2026-02-02 00:00:00"]),
        ("0 0 * * 5L", ["2026-01-30 00:00:00", "2026-02-27 00:00:00"]),
        ("0 0 13 * FRI", ["2026-01-02 00:00:00", "2026-01-09 00:00:00", "2026-01-13 00:00:00"]),
        ("0 0 * * 7", ["2026-01-04 00:00:00", "2026-01-11 00:00:00"]),
        ("0 12 1 jan,JUL *", ["2026-01-01 12:00:00", "2026-07-01 12:00:00"]),
        ("  0   12\t* * *", ["2026-01-01 12:00:00"]),
        ("* * * * * *", ["2026-01-01 00:00:01", "2026-01-01 00:00:02"]),
        ("*/30 * * * * *", ["2026-01-01 00:00:30", "2026-01-01 00:01:00"]),
        ("15 30 9 * * *", ["2026-01-01 09:30:15", "2026-01-02 09:30:15"]),
    ],
)
def test_five_fields_begin_with_minutes_and_six_with_seconds(expression, expected):
    assert first(expression, len(expected)) == expected


@pytest.mark.parametrize(
    ("timezone", "expected"),
    [
        ("UTC", "2026-01-01 09:00:00"),
        ("Europe/Berlin", "2026-01-01 08:00:00"),
        ("America/New_York", "2026-01-01 14:00:00"),
        ("Asia/Kathmandu", "2026-01-01 03:15:00"),
        ("Pacific/Kiritimati", "2026-01-01 19:00:00"),
    ],
)
def test_a_cron_is_read_on_the_wall_clock_of_its_zone(timezone, expected):
    assert first("0 9 * * *", timezone=timezone) == [expected]


def test_a_zone_keeps_its_wall_clock_time_in_summer_and_winter():
    before_summer = utc("2026-03-28 00:00")
    assert first("0 9 * * *", 2, after=before_summer, timezone="Europe/Berlin") == [
        "2026-03-28 08:00:00",
        "2026-03-29 07:00:00",
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("30 2 * * *", ["2026-03-29 01:00:00", "2026-03-30 00:30:00"], id="a time that is left out"),
        pytest.param("15,45 2 * * *", ["2026-03-29 01:00:00", "2026-03-30 00:15:00"], id="two of them fire once"),
        pytest.param("0 3 * * *", ["2026-03-29 01:00:00", "2026-03-30 01:00:00"], id="the end of the gap itself"),
        pytest.param(
            "*/30 * * * *", ["2026-03-29 00:30:00", "2026-03-29 01:00:00", "2026-03-29 01:30:00"], id="by the half hour"
        ),
    ],
)
def test_when_the_clock_goes_forward_nothing_is_left_out_and_nothing_fires_twice(expression, expected):
    after = utc("2026-03-29 00:00")
    assert first(expression, len(expected), after=after, timezone="Europe/Berlin") == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("30 2 * * *", ["2026-10-25 00:30:00", "2026-10-26 01:30:00"], id="a time that comes twice"),
        pytest.param("0 2,3 * * *", ["2026-10-25 00:00:00", "2026-10-25 02:00:00"], id="both ends of the hour"),
        pytest.param(
            "*/30 * * * *",
            ["2026-10-25 00:00:00", "2026-10-25 00:30:00", "2026-10-25 01:00:00", "2026-10-25 01:30:00"],
            id="by the half hour it goes on through both hours",
        ),
    ],
)
def test_when_the_clock_goes_back_a_time_of_day_fires_once(expression, expected):
    after = utc("2026-10-24 23:59")
    assert first(expression, len(expected), after=after, timezone="Europe/Berlin") == expected


def test_asked_within_the_repeated_hour_a_time_that_fired_in_the_first_one_is_not_given_again():
    second_time_around = utc("2026-10-25 01:10")
    assert first("30 2 * * *", after=second_time_around, timezone="Europe/Berlin") == ["2026-10-26 01:30:00"]


@pytest.mark.parametrize(
    "expression",
    ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 */31 * MON#5", "0 0 0 */31 * MON#5", "0 0 31 2 * *"],
)
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_a_cron_that_never_fires_is_refused_with_its_field(expression, timezone):
    began = time.monotonic()
    field, _ = refusal(expression, timezone)
    assert field == "cronExpression"
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("60 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("a * * * *", "minute"),
        ("-1 * * * *", "minute"),
        ("1.5 * * * *", "minute"),
        ("٣ * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* 5-1 * * *", "hour"),
        ("* * 0 * *", "day-of-month"),
        ("* * 32 * *", "day-of-month"),
        ("* * * 13 *", "month"),
        ("* * * JAX *", "month"),
        ("* * * * 8", "day-of-week"),
        ("* * * * MON-", "day-of-week"),
        ("* * * * MON#6", "day-of-week"),
        ("60 * * * * *", "second"),
        ("*,, * * * * *", "second"),
    ],
)
def test_a_malformed_cron_is_refused_naming_the_part_that_is_wrong(expression, part):
    field, message = refusal(expression)
    assert field == "cronExpression"
    assert f"bad {part} field" in message


@pytest.mark.parametrize("expression", ["", " ", "*", "* * * *", "* * * * * * *", "\x00"], ids=repr)
def test_a_cron_of_another_number_of_fields_is_refused_saying_how_many_are_expected(expression):
    field, message = refusal(expression)
    assert field == "cronExpression"
    assert "5 (minute hour day month weekday) or 6 (second first)" in message


@pytest.mark.parametrize(
    "expression",
    [
        "* " * 100_000,
        "1," * 1_000_000 + "1 * * * *",
        "*/" + "9" * 1_000_000 + " * * * *",
        "0" * (MAX_EXPRESSION_LENGTH + 1),
        "/" * 190 + " * * * *",
        "1/" * 90 + "1 * * * *",
        "\U0001f600" * 190 + " * * * *",
        "#" * 90 + " * * * " + "L" * 90,
        "9" * 190 + " * * * *",
    ],
    ids=lambda text: f"{text[:6]}… of {len(text)}",
)
def test_a_hostile_expression_is_refused_quickly_with_a_short_message(expression):
    began = time.monotonic()
    field, message = refusal(expression)
    assert field == "cronExpression"
    assert len(message) < 2 * MAX_EXPRESSION_LENGTH
    assert time.monotonic() - began < 0.5


def test_a_step_beyond_any_range_is_harmless():
    assert first("*/" + "9" * 150 + " * * * *", 2) == ["2026-01-01 01:00:00", "2026-01-01 02:00:00"]


@pytest.mark.parametrize(
    "name",
    ["", "Nowhere/Land", "europe/berlin", "Europe", "../../etc/passwd", "/etc/localtime", "\x00", "A" * 5000, "+01:00"],
    ids=lambda name: repr(name[:20]),
)
def test_a_zone_that_does_not_exist_is_refused_with_its_field(name):
    with pytest.raises(BadInputError) as refused:
        load_zone(name)
    ((field, message),) = refused.value.fields
    assert field == "timezone"
    assert len(message) < 250


def _clock_changes(zone):
    """The hours of 2026 and 2027 in which the zone's clock changes; for a zone without any, the new year."""
    hours = [NEW_YEAR + timedelta(hours=hour) for hour in range(2 * 365 * 24)]
    offsets = [hour.astimezone(ZoneInfo(zone)).utcoffset() for hour in hours]
    return [later for later, one, two in zip(hours[1:], offsets, offsets[1:], strict=False) if one != two] or [NEW_YEAR]


CLOCK_CHANGES = {zone: _clock_changes(zone) for zone in ZONES + ODD_ZONES}
around_a_change = st.timedeltas(min_value=-timedelta(hours=30), max_value=timedelta(hours=6))


def crons_and_moments(zones):
    """A cron in one of the zones, with a moment near one of its clock changes."""
    return st.sampled_from(zones).flatmap(
        lambda zone: st.tuples(
            st.builds(Cron, st.sampled_from(EXPRESSIONS), st.just(zone)),
            st.builds(datetime.__add__, st.sampled_from(CLOCK_CHANGES[zone]), around_a_change),
        )
    )


@settings(deadline=None, max_examples=300)
@given(crons_and_moments(ZONES + ODD_ZONES))
def test_fire_times_are_after_the_moment_asked_for_and_strictly_increasing(question):
    cron, moment = question
    for _ in range(12):
        following = cron.next_after(moment)
        assert following > moment
        assert following.utcoffset() == timedelta(0)
        moment = following


@settings(deadline=None, max_examples=300)
@given(crons_and_moments(ZONES), around_a_change.map(abs))
def test_no_fire_time_depends_on_when_it_is_asked_for(question, pause):
    """Asked later, the answer is the same until it has passed: else a takeover would skip or repeat a time."""
    cron, moment = question
    following = cron.next_after(moment)
    assert cron.next_after(following - timedelta(microseconds=1)) == following
    if moment + pause < following:
        assert cron.next_after(moment + pause) == following
    else:
        assert cron.next_after(moment + pause) > following


@pytest.mark.parametrize("zone", ZONES)
def test_a_daily_time_fires_once_a_day_through_a_whole_year(zone):
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))
    times = fire_times(Cron("30 2 * * *", zone), start, start + timedelta(days=365), 1000)
    days = [moment.astimezone(ZoneInfo(zone)).date() for moment in times]
    assert days == [start.date() + timedelta(days=number) for number in range(365)]


@pytest.mark.parametrize(
    ("after", "expected"),
    [(-WEEK, 10), (timedelta(0), 10), (timedelta(seconds=9.999999), 10), (timedelta(seconds=10), 20), (WEEK, 604810)],
    ids=["before the anchor", "at the anchor", "just before", "at a fire time", "a week later"],
)
def test_an_interval_fires_at_whole_multiples_after_its_anchor(after, expected):
    assert Every(10, NEW_YEAR).next_after(NEW_YEAR + after) == NEW_YEAR + timedelta(seconds=expected)


@given(
    st.floats(min_value=1, max_value=MAX_INTERVAL_SECONDS),
    st.timedeltas(min_value=-WEEK, max_value=timedelta(days=36500)),
)
def test_an_interval_keeps_its_grid_whenever_it_is_asked(seconds, elapsed):
    every = Every(seconds, NEW_YEAR)
    moment = NEW_YEAR + elapsed
    following = every.next_after(moment)
    assert following > moment
    assert (following - NEW_YEAR) % timedelta(seconds=seconds) == timedelta(0)
    assert following - max(moment, NEW_YEAR) <= timedelta(seconds=seconds)


@pytest.mark.parametrize("seconds", [1, 1.5, 60, MAX_INTERVAL_SECONDS])
def test_an_interval_from_a_second_to_ten_years_is_taken(seconds):
    assert parse_every(seconds, NEW_YEAR) == Every(seconds, NEW_YEAR)


@pytest.mark.parametrize("seconds", [0, -1, 0.999, MAX_INTERVAL_SECONDS + 1, float("inf"), float("-inf"), float("nan")])
def test_an_interval_that_is_none_is_refused_with_its_field(seconds):
    with pytest.raises(BadInputError) as refused:
        parse_every(seconds, NEW_YEAR)
    assert refused.value.fields[0][0] == "everySeconds"


def test_fire_times_leave_out_the_start_and_take_in_the_end():
    hourly = Cron("0 * * * *")
    hours = [NEW_YEAR + timedelta(hours=number) for number in range(1, 4)]
    assert fire_times(hourly, NEW_YEAR, hours[-1], 100) == hours
    assert fire_times(hourly, NEW_YEAR, hours[-1], 2) == hours[:2]
    assert fire_times(hourly, NEW_YEAR, NEW_YEAR + timedelta(minutes=59), 100) == []


def test_a_timetable_knows_its_schedule():
    cron = Timetable("cron", "0 9 * * *", None, "Europe/Berlin", NEW_YEAR)
    interval = Timetable("interval", None, 90.0, "UTC", NEW_YEAR)
    assert cron.schedule() == Cron("0 9 * * *", "Europe/Berlin")
    assert interval.schedule() == Every(90.0, NEW_YEAR)
