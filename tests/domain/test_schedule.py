"""Intervals, bounds around a schedule, jitter, and lists of fire times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.cron import Cron
from rota.domain.job import Timetable
from rota.domain.schedule import MAX_INTERVAL_SECONDS, Bounded, Every, fire_times, jitter_of, parse_bounds, parse_every
from rota.errors import BadInputError

JOB = UUID(int=7)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
INSTANT = timedelta(microseconds=1)
HOURLY = Cron("0 * * * *")


# Intervals.


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


def test_an_interval_is_elapsed_time_through_a_clock_change():
    before = datetime.fromisoformat("2026-03-28T12:00:00+01:00")  # the day before Berlin's clocks go forward
    assert Every(86400, before).next_after(before) == datetime.fromisoformat("2026-03-29T13:00:00+02:00")


def test_an_interval_answers_in_utc_wherever_its_anchor_is():
    anchor = NEW_YEAR.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert Every(60, anchor).next_after(anchor).utcoffset() == timedelta(0)


def test_an_interval_ends_with_the_calendar():
    assert Every(MAX_INTERVAL_SECONDS, NEW_YEAR).next_after(datetime.max.replace(tzinfo=UTC)) is None


@pytest.mark.parametrize("seconds", [1, 1.5, 60, MAX_INTERVAL_SECONDS])
def test_an_interval_from_a_second_to_ten_years_is_taken(seconds):
    assert parse_every(seconds, NEW_YEAR) == Every(seconds, NEW_YEAR)


@pytest.mark.parametrize("seconds", [0, -1, 0.999, MAX_INTERVAL_SECONDS + 1, float("inf"), float("-inf"), float("nan")])
def test_an_interval_that_is_none_is_refused_with_its_field(seconds):
    with pytest.raises(BadInputError) as refused:
        parse_every(seconds, NEW_YEAR)
    assert refused.value.fields[0][0] == "everySeconds"


# Bounds.


def test_bounds_take_in_their_ends():
    bounded = Bounded(HOURLY, NEW_YEAR, NEW_YEAR + 2 * HOUR)
    hours = [NEW_YEAR + number * HOUR for number in range(3)]
    assert fire_times(bounded, NEW_YEAR - WEEK, NEW_YEAR + WEEK, 100) == hours
    assert bounded.next_after(hours[-1]) is None


def test_times_that_are_not_quite_within_the_bounds_are_left_out():
    bounded = Bounded(HOURLY, NEW_YEAR + INSTANT, NEW_YEAR + 2 * HOUR - INSTANT)
    assert fire_times(bounded, NEW_YEAR - WEEK, NEW_YEAR + WEEK, 100) == [NEW_YEAR + HOUR]


def test_one_bound_leaves_the_other_side_open():
    assert Bounded(HOURLY, start=NEW_YEAR).next_after(NEW_YEAR + WEEK) == NEW_YEAR + WEEK + HOUR
    assert Bounded(HOURLY, end=NEW_YEAR).next_after(NEW_YEAR - WEEK) == NEW_YEAR - WEEK + HOUR


def test_a_schedule_without_bounds_stays_what_it_is():
    assert parse_bounds(HOURLY, None, None) is HOURLY


def test_an_interval_with_a_start_fires_at_it_first():
    start = NEW_YEAR + timedelta(minutes=7)
    bounded = parse_bounds(Every(3600, NEW_YEAR), start, None)
    assert fire_times(bounded, NEW_YEAR, NEW_YEAR + WEEK, 2) == [start, start + HOUR]


def test_an_end_before_the_start_is_refused():
    with pytest.raises(BadInputError) as refused:
        parse_bounds(HOURLY, NEW_YEAR, NEW_YEAR - INSTANT)
    assert refused.value.fields[0][0] == "endTime"


# Jitter.


@given(st.uuids(), st.floats(min_value=0.001, max_value=86400))
def test_jitter_is_less_than_asked_for_and_the_same_for_a_run(run_id, seconds):
    jitter = jitter_of(run_id, seconds)
    assert timedelta(0) <= jitter < timedelta(seconds=seconds)
    assert jitter == jitter_of(UUID(run_id.hex), seconds)


def test_jitter_is_spread_evenly():
    tenths = [jitter_of(uuid4(), 10) // timedelta(seconds=1) for _ in range(2000)]
    assert all(120 < tenths.count(tenth) < 280 for tenth in range(10))


def test_no_jitter_is_none():
    assert jitter_of(uuid4(), 0) == timedelta(0)


# Lists.


def test_fire_times_leave_out_the_start_and_take_in_the_end():
    hours = [NEW_YEAR + number * HOUR for number in range(1, 4)]
    assert fire_times(HOURLY, NEW_YEAR, hours[-1], 100) == hours
    assert fire_times(HOURLY, NEW_YEAR, hours[-1], 2) == hours[:2]
    assert fire_times(HOURLY, NEW_YEAR, NEW_YEAR + timedelta(minutes=59), 100) == []


def test_a_timetable_knows_its_schedule():
    cron = Timetable("cron", "0 9 * * *", None, "Europe/Berlin", NEW_YEAR)
    interval = Timetable("interval", None, 90.0, "UTC", NEW_YEAR)
    assert cron.schedule(JOB) == Cron("0 9 * * *", "Europe/Berlin", "shift", JOB)
    assert interval.schedule(JOB) == Every(90.0, NEW_YEAR)
    bounded = Timetable("cron", "0 9 * * *", None, "UTC", NEW_YEAR, start_at=NEW_YEAR + timedelta(days=7))
    assert bounded.schedule(JOB).next_after(NEW_YEAR) == NEW_YEAR + timedelta(days=7, hours=9)
