"""The grammar of cron, and when an expression fires on a wall clock that nobody changes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from cron_expressions import full_expressions, plain_expressions, plain_expressions_with_seconds
from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rota.domain.cron import Cron
from rota.domain.cron_grammar import MACROS, MAX_EXPRESSION_LENGTH, MonthShape, members_of, parse_fields
from rota.domain.schedule import fire_times, parse_cron
from rota.domain.timezones import load_zone
from rota.errors import BadInputError
from support import examples

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
FAR = datetime(2200, 1, 1, tzinfo=UTC)
JOB = UUID("01890000-0000-7000-8000-000000000001")
moments = st.datetimes(
    datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    datetime(2040, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


def first(expression, count=1, *, after=NEW_YEAR, timezone="UTC"):
    """The next so many fire times as text, in UTC."""
    times = fire_times(parse_cron(expression, timezone, after), after, after + timedelta(days=36500), count)
    return [moment.strftime("%Y-%m-%d %H:%M:%S") for moment in times]


def days(expression, count):
    """The next so many days on which it fires."""
    return [text[:10] for text in first(f"0 0 {expression}", count, after=NEW_YEAR - timedelta(seconds=1))]


def refusal(expression, timezone="UTC", **options):
    with pytest.raises(BadInputError) as refused:
        parse_cron(expression, timezone, NEW_YEAR, **options)
    ((field, message),) = refused.value.fields
    assert field == "cronExpression"
    return message


def minutes_of(expression, seed=None):
    return members_of(parse_fields(expression, seed).minutes)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/20 * * * *", ["2026-01-01 00:20:00", "2026-01-01 00:40:00", "2026-01-01 01:00:00"]),
        ("30 9 * * *", ["2026-01-01 09:30:00", "2026-01-02 09:30:00"]),
        ("5/20 * * * *", ["2026-01-01 00:05:00", "2026-01-01 00:25:00", "2026-01-01 00:45:00", "2026-01-01 01:05:00"]),
        ("10-40/15 0 * * *", ["2026-01-01 00:10:00", "2026-01-01 00:25:00", "2026-01-01 00:40:00"]),
        ("1,2,58-59 0 * * *", ["2026-01-01 00:01:00", "2026-01-01 00:02:00", "2026-01-01 00:58:00"]),
        ("0 12 1 jan,JUL *", ["2026-01-01 12:00:00", "2026-07-01 12:00:00"]),
        ("0 0 1 nov-Dec *", ["2026-11-01 00:00:00", "2026-12-01 00:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00", "2032-02-29 00:00:00"]),
        ("  0   12\t* * *", ["2026-01-01 12:00:00"]),
        ("00 09 * * *", ["2026-01-01 09:00:00"]),
        ("* * * * * *", ["2026-01-01 00:00:01", "2026-01-01 00:00:02"]),
        ("*/30 * * * * *", ["2026-01-01 00:00:30", "2026-01-01 00:01:00"]),
        ("15 30 9 * * *", ["2026-01-01 09:30:15", "2026-01-02 09:30:15"]),
        ("0 30 9 * * 1", ["2026-01-05 09:30:00", "2026-01-12 09:30:00"]),
        ("59 59 23 31 12 *", ["2026-12-31 23:59:59", "2027-12-31 23:59:59"]),
    ],
)
def test_five_fields_begin_with_minutes_and_six_with_seconds(expression, expected):
    assert first(expression, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * MON-FRI", ["2026-01-01", "2026-01-02", "2026-01-05"]),
        ("* * 7", ["2026-01-04", "2026-01-11"]),
        ("* * 0", ["2026-01-04", "2026-01-11"]),
        ("* * fri-SUN", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
        ("* * 5-7", ["2026-01-02", "2026-01-03", "2026-01-04", "2026-01-09"]),
        ("* * 1/2", ["2026-01-02", "2026-01-04", "2026-01-05", "2026-01-07"]),
        ("L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("1,L * *", ["2026-01-01", "2026-01-31", "2026-02-01"]),
        ("LW * *", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("lw 5 *", ["2026-05-29", "2027-05-31"]),
        ("15W * *", ["2026-01-15", "2026-02-16", "2026-03-16"]),
        ("14W * *", ["2026-01-14", "2026-02-13", "2026-03-13"]),
        ("1W 8 *", ["2026-08-03", "2027-08-02"]),
        ("31W 5 *", ["2026-05-29", "2027-05-31"]),
        ("31W 4,5 *", ["2026-05-29", "2027-05-31"]),
        ("1W,15W 8 *", ["2026-08-03", "2026-08-14"]),
        ("* * MON#1", ["2026-01-05", "2026-02-02"]),
        ("* * 1#5", ["2026-03-30", "2026-06-29"]),
        ("* * 7#1", ["2026-01-04", "2026-02-01"]),
        ("* * 5L", ["2026-01-30", "2026-02-27"]),
        ("* * FRIL", ["2026-01-30", "2026-02-27"]),
        ("* * 7L", ["2026-01-25", "2026-02-22"]),
        ("? * MON#1,FRIL", ["2026-01-05", "2026-01-30"]),
        ("13 * ?", ["2026-01-13", "2026-02-13"]),
    ],
)
def test_days_are_named_in_many_ways(expression, expected):
    assert days(expression, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("13 * FRI", ["2026-01-02", "2026-01-09", "2026-01-13"], id="two restrictions are alternatives"),
        pytest.param("*/13 * FRI", ["2026-02-27", "2026-03-27"], id="a star with a step narrows"),
        pytest.param("13 * */5", ["2026-02-13", "2026-03-13"], id="on the other side as well"),
        pytest.param("1-31 * FRI", ["2026-01-01", "2026-01-02"], id="a whole range is a restriction"),
        pytest.param("L * FRI#1", ["2026-01-02", "2026-01-31"], id="days that move are restrictions"),
    ],
)
def test_day_of_month_and_day_of_week_are_combined_by_the_rule_of_debian(expression, expected):
    assert days(expression, len(expected)) == expected


@pytest.mark.parametrize(
    ("macro", "expected"),
    [
        ("@yearly", "2027-01-01 00:00:00"),
        ("@annually", "2027-01-01 00:00:00"),
        ("@monthly", "2026-02-01 00:00:00"),
        ("@weekly", "2026-01-04 00:00:00"),
        ("@daily", "2026-01-02 00:00:00"),
        (" @Midnight ", "2026-01-02 00:00:00"),
        ("@hourly", "2026-01-01 01:00:00"),
    ],
)
def test_names_for_whole_expressions(macro, expected):
    assert first(macro) == [expected]


def test_an_unknown_name_is_refused_with_those_that_are_known():
    message = refusal("@fortnightly")
    assert all(macro in message for macro in MACROS)


@pytest.mark.parametrize("expression", ["@every 90s", "@every 1h30m", "@every"])
def test_an_interval_is_not_cron_and_is_told_where_to_go(expression):
    assert "everySeconds" in refusal(expression)


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


def test_the_moment_asked_for_may_be_in_any_zone_and_within_a_second():
    moment = datetime(2026, 1, 1, 9, 59, 59, 999_999, tzinfo=load_zone("Europe/Berlin"))
    assert Cron("0 9 * * *").next_after(moment) == datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert Cron("0 9 * * *").next_after(moment + timedelta(microseconds=1)) == datetime(2026, 1, 2, 9, tzinfo=UTC)


def test_at_the_ends_of_the_calendar_there_is_an_answer():
    assert Cron("0 0 1 1 *").next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert Cron("0 0 1 1 *").next_after(datetime.min.replace(tzinfo=UTC)) == datetime(2, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("timezone", "expected"),
    [("Europe/Berlin", "2028-12-31 23:30:00"), ("UTC", "2029-01-01 00:30:00"), ("America/Lima", "2029-01-01 05:30:00")],
)
def test_new_year_is_found_years_ahead_in_every_zone(timezone, expected):
    """The first Monday of January, if it is the first or the last day of the month: not before 2029."""
    assert first("30 0 */30 1 MON#1", timezone=timezone) == [expected]


# H.


def test_h_is_one_fixed_value_for_a_job():
    seeds = [uuid4() for _ in range(200)]
    chosen = [minutes_of("H H * * *", seed) for seed in seeds]
    assert all(len(minutes) == 1 for minutes in chosen)
    assert chosen == [minutes_of("H H * * *", seed) for seed in seeds]


def test_h_spreads_jobs_over_the_whole_field():
    chosen = {minutes_of("H * * * *", UUID(int=number))[0] for number in range(2000)}
    assert chosen == set(range(60))


def test_h_never_changes_from_one_release_to_the_next():
    """These values are a promise: another hash would move every job of every user."""
    fields = parse_fields("H H H H H H", JOB)
    parts = (fields.seconds, fields.minutes, fields.hours, fields.day.members, fields.months, fields.weekday.members)
    assert [members_of(part) for part in parts] == [[12], [12], [16], [1], [5], [6]]


def test_h_is_the_same_with_and_without_seconds():
    assert minutes_of("H H * * *", JOB) == minutes_of("0 H H * * *", JOB)


def test_h_without_a_job_is_a_fixed_value():
    assert minutes_of("H * * * *") == minutes_of("H * * * *", None) == [20]


@given(st.uuids(), st.integers(1, 60))
def test_h_with_a_step_keeps_the_distance(seed, step):
    minutes = minutes_of(f"H/{step} * * * *", seed)
    assert minutes == list(range(minutes[0], 60, step))
    assert minutes[0] < step


@given(st.uuids())
def test_h_with_a_range_stays_within(seed):
    assert minutes_of("H(10-19) * * * *", seed)[0] in range(10, 20)
    tens = minutes_of("H(0-29)/10 * * * *", seed)
    assert len(tens) == 3
    assert tens[-1] < 30


@given(st.uuids())
def test_h_names_a_day_that_every_month_has(seed):
    fields = parse_fields("0 0 H * *", seed)
    assert fields.days_in(MonthShape(0, 28))


# What is refused.


@pytest.mark.parametrize(
    "expression",
    ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 */31 * MON#5", "0 0 0 */31 * MON#5", "0 0 0 31 2 *", "0 0 31W 2-2 ?"],
)
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_a_cron_that_never_fires_is_refused_in_no_time(expression, timezone):
    began = time.process_time()
    assert "never fires" in refusal(expression, timezone)
    assert time.process_time() - began < 0.5


def test_a_cron_that_fires_once_in_28_years_is_not_refused():
    assert days("*/28 2 MON#5", 2) == ["2044-02-29", "2072-02-29"]
    assert days("*/28 2 SUN#5", 3) == ["2032-02-29", "2060-02-29", "2088-02-29"]


def test_a_time_that_every_clock_change_leaves_out_is_refused_when_it_is_to_be_skipped():
    assert "never fires in Europe/Berlin" in refusal("30 2 * 3 SUNL", "Europe/Berlin", dst="skip")
    assert first("30 2 * 3 SUNL", timezone="Europe/Berlin") == ["2026-03-29 01:00:00"]


@pytest.mark.parametrize(
    ("expression", "part", "reason"),
    [
        ("60 * * * *", "minute", "'60' is not within 0-59"),
        ("*/0 * * * *", "minute", "'*/0' has no step of 1 or more"),
        ("*/x * * * *", "minute", "'*/x' has no step of 1 or more".upper()),
        ("a * * * *", "minute", "'A' is not understood; expected: 0-59"),
        ("-1 * * * *", "minute", "'-1' is not understood"),
        ("1.5 * * * *", "minute", "'1.5' is not understood"),
        ("1-2-3 * * * *", "minute", "'1-2-3' is not understood"),
        ("? * * * *", "minute", "'?' is not understood"),
        ("L * * * *", "minute", "'L' is not understood"),
        ("٣ * * * *", "minute", "'٣' is not understood"),
        ("* * * * \u017fun", "day-of-week", "is not understood"),
        ("H( * * * *", "minute", "'H(' is not understood"),
        ("H() * * * *", "minute", "'H()' needs a range"),
        ("H(5) * * * *", "minute", "'H(5)' needs a range"),
        ("H(0-99) * * * *", "minute", "is not within 0-59"),
        ("H5 * * * *", "minute", "'H5' is not understood"),
        ("* 24 * * *", "hour", "'24' is not within 0-23"),
        ("* 5-1 * * *", "hour", "'5-1' ends before it begins"),
        ("* * 0 * *", "day-of-month", "'0' is not within 1-31"),
        ("* * 32 * *", "day-of-month", "'32' is not within 1-31"),
        ("* * 0W * *", "day-of-month", "'0W' is not within 1-31"),
        ("* * W * *", "day-of-month", "expected: 1-31, *, L, LW, 15W"),
        ("* * 1-5W * *", "day-of-month", "'1-5W' is not understood"),
        ("* * L/2 * *", "day-of-month", "'L/2' is not understood"),
        ("* * * 13 *", "month", "'13' is not within 1-12"),
        ("* * * JAX *", "month", "expected: 1-12 or JAN-DEC"),
        ("* * * * 8", "day-of-week", "'8' is not within 0-7"),
        ("* * * * MON-", "day-of-week", "expected: 0-7 or SUN-SAT, *, 5L, MON#2"),
        ("* * * * MON#6", "day-of-week", "'MON#6' must end with #1 to #5"),
        ("* * * * MON#", "day-of-week", "'MON#' must end with #1 to #5"),
        ("* * * * L", "day-of-week", "'L' is not understood"),
        ("60 * * * * *", "second", "'60' is not within 0-59"),
        ("*,, * * * * *", "second", "'' is not understood"),
    ],
)
def test_a_malformed_cron_is_refused_naming_the_part_that_is_wrong_and_why(expression, part, reason):
    message = refusal(expression)
    assert message.startswith(f"bad {part} field: ")
    assert reason.lower() in message.lower()


@pytest.mark.parametrize("expression", ["", " ", "*", "* * * *", "* * * * * * *", "\x00"], ids=repr)
def test_a_cron_of_another_number_of_fields_is_refused_saying_how_many_are_expected(expression):
    assert "5 (minute hour day month weekday) or 6 (second first)" in refusal(expression)


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
        "H(" * 90 + " * * * *",
        "0 0 31W" + ",31W" * 40 + " 2 ?",
        "@" + "x" * 190,
    ],
    ids=lambda text: f"{text[:6]}… of {len(text)}",
)
def test_a_hostile_expression_is_refused_quickly_with_a_short_message(expression):
    began = time.process_time()
    assert len(refusal(expression)) < 2 * MAX_EXPRESSION_LENGTH
    assert time.process_time() - began < 0.5


def test_a_step_beyond_any_range_is_harmless():
    assert first("*/" + "9" * 150 + " * * * *", 2) == ["2026-01-01 01:00:00", "2026-01-01 02:00:00"]


@settings(max_examples=examples(200))
@given(st.text(max_size=MAX_EXPRESSION_LENGTH) | st.text("0123456789*/-,#?LWH()@ ", max_size=60))
def test_any_text_is_either_read_or_refused(text):
    problem = problem_with(text)
    assert problem is None or problem.fields[0][0] == "cronExpression"


# Against others.


@settings(deadline=None, max_examples=examples(300))
@given(plain_expressions() | plain_expressions_with_seconds(), moments)
def test_fire_times_are_those_of_cronsim(expression, moment):
    cron = parsed(expression)
    theirs = CronSim(expression, moment)
    for _ in range(5):
        moment = cron.next_after(moment)
        assert moment == next(theirs, None)


@settings(deadline=None, max_examples=examples(300))
@given(plain_expressions() | plain_expressions_with_seconds(), moments)
def test_fire_times_are_those_of_croniter(expression, moment):
    """Told to follow the day rule of Debian's cron, and where seconds are.

    A day field that names every day without a star (`1-31`) is a star to croniter; not to us, cronsim and Debian.
    """
    cron = parsed(expression)
    assume(not any(names_all_without_a_star(field, all_of_it) for field, all_of_it in day_fields(cron)))
    with_seconds = len(expression.split()) == 6
    theirs = croniter(expression, moment, second_at_beginning=with_seconds, implement_cron_bug=True)
    for _ in range(5):
        moment = cron.next_after(moment)
        assert moment == theirs.get_next(datetime)


@pytest.mark.parametrize("field", ["L * *", "LW * *", "1,L * *", "* * 5L", "* * 0L", "* * MON#1", "* * 3#5", "L * 5#2"])
def test_days_that_move_are_those_of_cronsim(field):
    theirs = CronSim(f"0 0 {field}", NEW_YEAR)
    assert fire_times(Cron(f"0 0 {field}"), NEW_YEAR, FAR, 200) == [next(theirs) for _ in range(200)]


@pytest.mark.parametrize("number", range(1, 29))
def test_the_nearest_weekday_is_that_of_croniter(number):
    """Up to the 28th: for a day that a month does not have, croniter takes its last one, and we take none."""
    theirs = croniter(f"0 0 {number}W * *", NEW_YEAR)
    assert fire_times(Cron(f"0 0 {number}W * *"), NEW_YEAR, FAR, 60) == [theirs.get_next(datetime) for _ in range(60)]


@settings(deadline=None, max_examples=examples(200))
@given(full_expressions(), moments, st.sampled_from([("Asia/Kathmandu", 345), ("Pacific/Kiritimati", 840)]))
def test_where_clocks_are_never_changed_a_zone_is_a_plain_distance(expression, moment, zone):
    parsed(expression)
    name, minutes = zone
    distance = timedelta(minutes=minutes)
    assert Cron(expression, name).next_after(moment) == Cron(expression).next_after(moment + distance) - distance


@settings(deadline=None, max_examples=examples(200))
@given(full_expressions(), moments, st.uuids())
def test_fire_times_are_after_the_moment_asked_for_and_do_not_depend_on_it(expression, moment, seed):
    """Asked later, the answer is the same until it has passed: else a takeover would skip or repeat a time."""
    parsed(expression)
    cron = Cron(expression, "Europe/Berlin", seed=seed)
    following = cron.next_after(moment)
    assume(following is not None)
    assert following > moment
    assert following.utcoffset() == timedelta(0)
    assert cron.next_after(moment + (following - moment) / 2) == following
    assert cron.next_after(following - timedelta(microseconds=1)) == following


def day_fields(cron):
    """Both day fields, each with the set of all its values."""
    return (cron.fields.day, 2**32 - 2), (cron.fields.weekday, 2**7 - 1)


def names_all_without_a_star(field, all_of_it):
    return field.members == all_of_it and not field.begins_with_star


def problem_with(expression):
    try:
        parse_cron(expression, "UTC", NEW_YEAR)
    except BadInputError as refused:
        return refused
    return None


def parsed(expression):
    """A schedule; what is made at random is well formed, but may never fire."""
    problem = problem_with(expression)
    assert problem is None or "never fires" in str(problem)
    assume(problem is None)
    return Cron(expression)


def test_ten_thousand_schedules_are_asked_within_a_second_or_so():
    crons = [Cron(f"{number % 60} {number % 24} * * MON-FRI", "Europe/Berlin") for number in range(1440)]
    for cron in crons:
        cron.next_after(NEW_YEAR)
    began = time.process_time()
    for number in range(10_000):
        crons[number % len(crons)].next_after(NEW_YEAR)
    assert time.process_time() - began < 2
