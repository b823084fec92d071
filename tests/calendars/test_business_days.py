"""Business days against an oracle: every day's times are listed, moved one by one, and compared."""

import random
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from rota.domain.business_days import Exclusion, check_reach, encode_exclusion, exclude_days
from rota.domain.cron import Cron
from rota.domain.dependencies import time_needed
from rota.domain.job import Timetable
from rota.domain.misfire import last_times
from rota.domain.schedule import Bounded, Every, fire_times, parse_bounds
from rota.domain.schedule_description import describe
from rota.errors import BadInputError

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia")
CRONS = (
    "0 2 * * *",
    "30 2 * * *",
    "0 14,18 * * SAT",
    "0 */6 * * *",
    "15 0 1,15 * *",
    "*/30 1-3 * * SUN",
    "59 23 * * 1,6",
    "0 9 L * *",
)
DAY = timedelta(days=1)


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the clock shows it: the first time, or right after the gap. Found by looking at every minute around."""
    day = datetime.combine(wall.date(), time(), UTC) - timedelta(hours=16)
    at = day
    while at.astimezone(zone).replace(tzinfo=None) < wall:
        at += timedelta(minutes=1)
    return at


def oracle(cron: str, zone: str, exclusion: Exclusion, first: date, last: date, start=None, end=None):
    """All fire times of days `first` to `last`."""
    info, times = ZoneInfo(zone), set()
    begin = datetime.combine(first - 2 * DAY, time(), UTC)
    for moment in fire_times(Cron(cron, zone), begin, datetime.combine(last + 3 * DAY, time(), UTC), 100_000):
        if not exclusion.covers(moment.astimezone(info).date()) and (start is None or moment >= start):
            times.add(moment)
    if exclusion.rule == "next":
        walls = fire_times(Cron(cron, "UTC"), begin - 30 * DAY, datetime.combine(last + DAY, time(), UTC), 100_000)
        for wall in (wall.replace(tzinfo=None) for wall in walls):
            if not exclusion.covers(wall.date()) or (start is not None and moment_of(wall, info) < start):
                continue
            day = wall.date()
            while exclusion.covers(day):
                day += DAY
            times.add(moment_of(datetime.combine(day, wall.time()), info))
    wanted = [moment for moment in sorted(times) if first <= moment.astimezone(info).date() <= last]
    return [moment for moment in wanted if end is None or moment <= end]


@pytest.mark.parametrize("seed", range(40))
def test_every_time_of_a_schedule_with_excluded_days_is_that_of_the_oracle(seed: int) -> None:
    chance = random.Random(seed)
    zone, cron = chance.choice(ZONES), chance.choice(CRONS)
    first = date(2026, 1, 1) + chance.randrange(330) * DAY
    if chance.random() < 0.5:  # around a change of Berlin's clock, and of New York's
        first = chance.choice((date(2026, 3, 27), date(2026, 10, 23), date(2026, 3, 6), date(2026, 10, 30)))
    last = first + 30 * DAY
    days = tuple(sorted({first + chance.randrange(31) * DAY for _ in range(chance.randrange(12))}))
    rule = chance.choice(("skip", "next"))
    exclusion = Exclusion({"holidays": "1"} if days else {}, chance.random() < 0.6, rule, days)
    noon = datetime.combine(first + 4 * DAY, time(12), UTC)
    start = noon if chance.random() < 0.4 else None
    end = noon + 20 * DAY if chance.random() < 0.4 else None
    schedule = exclude_days(parse_bounds(Cron(cron, zone), start, end), exclusion, zone)
    wanted = oracle(cron, zone, exclusion, first, last, start, end)
    begin = moment_of(datetime.combine(first, time()), ZoneInfo(zone)) - timedelta(microseconds=1)
    until = moment_of(datetime.combine(last + DAY, time()), ZoneInfo(zone)) - timedelta(microseconds=1)
    assert fire_times(schedule, begin, until, 100_000) == wanted
    # Asked at any moment, the next time is the same.
    for _ in range(20):
        moment = begin + chance.random() * (until - begin)
        later = [one for one in wanted if one > moment]
        found = schedule.next_after(moment)
        assert found == later[0] if later else found is None or found > until
    assert last_times(schedule, begin, until, 5) == wanted[-5:]


def test_saturday_sunday_and_monday_are_one_run_on_monday() -> None:
    schedule = exclude_days(Cron("30 2 * * *", "Europe/Berlin"), Exclusion(weekends=True, rule="next"), "Europe/Berlin")
    # In the night to Sunday 29 March 2026 there is no 02:30.
    times = fire_times(schedule, at(2026, 3, 27, 12), at(2026, 4, 1), 10)
    assert times == [at(2026, 3, 30, 0, 30), at(2026, 3, 31, 0, 30)]


def test_a_moved_time_comes_after_an_earlier_one_of_its_new_day() -> None:
    schedule = exclude_days(Cron("0 14 * * SAT"), Exclusion(weekends=True, rule="next"), "UTC")
    assert fire_times(schedule, at(2026, 11, 20), at(2026, 12, 1), 5) == [at(2026, 11, 23, 14), at(2026, 11, 30, 14)]
    both = exclude_days(Cron("0 2,14 * * SAT,MON"), Exclusion(weekends=True, rule="next"), "UTC")
    assert fire_times(both, at(2026, 11, 20), at(2026, 11, 24), 5) == [at(2026, 11, 23, 2), at(2026, 11, 23, 14)]


def test_days_are_those_of_the_schedules_zone() -> None:
    # 20:00 UTC on Friday is Saturday in Tokyo.
    schedule = exclude_days(Cron("0 5 * * *", "Asia/Tokyo"), Exclusion(weekends=True), "Asia/Tokyo")
    assert fire_times(schedule, at(2026, 11, 19), at(2026, 11, 23), 9) == [at(2026, 11, 19, 20), at(2026, 11, 22, 20)]


def test_a_time_before_the_start_is_not_moved_and_none_is_moved_past_the_end() -> None:
    weekends = Exclusion(weekends=True, rule="next")
    saturdays = Cron("0 2 * * SAT")
    late = exclude_days(Bounded(saturdays, start=at(2026, 11, 21, 3)), weekends, "UTC")
    assert late.next_after(at(2026, 11, 20)) == at(2026, 11, 30, 2)
    ended = exclude_days(Bounded(saturdays, end=at(2026, 11, 22)), weekends, "UTC")
    assert ended.next_after(at(2026, 11, 20)) is None


def test_an_interval_skips_excluded_days_and_can_not_move_them() -> None:
    every = Every(6 * 3600, at(2026, 11, 20))
    schedule = exclude_days(every, Exclusion(weekends=True), "UTC")
    assert fire_times(schedule, at(2026, 11, 20, 17), at(2026, 11, 23, 7), 9) == [
        at(2026, 11, 20, 18),
        at(2026, 11, 23),
        at(2026, 11, 23, 6),
    ]
    with pytest.raises(BadInputError, match="is for cron schedules"):
        exclude_days(every, Exclusion(weekends=True, rule="next"), "UTC")


def test_a_schedule_without_a_time_in_366_days_is_refused_and_a_rarer_one_goes_on() -> None:
    saturdays = exclude_days(Cron("0 2 * * SAT"), Exclusion(weekends=True), "UTC")
    with pytest.raises(BadInputError, match="no time within 366 days") as refused:
        check_reach(saturdays, at(2026, 11, 18))
    assert refused.value.fields[0][0] == "excludeWeekends"
    year = tuple(date(2027, 1, 1) + number * DAY for number in range(400))
    moved = exclude_days(Cron("0 2 1 1 *"), Exclusion({"year": "1"}, rule="next", days=year), "UTC")
    with pytest.raises(BadInputError, match="2027-01-01T02:00:00Z"):
        check_reach(moved, at(2026, 11, 18))
    check_reach(exclude_days(Cron("0 2 * * *"), Exclusion({"year": "1"}, days=year[:365]), "UTC"), at(2026, 12, 31, 3))
    leap = exclude_days(Cron("0 2 29 2 *"), Exclusion({"one": "1"}, days=(date(2028, 2, 29),)), "UTC")
    assert leap.next_after(at(2026, 11, 18)) == at(2032, 2, 29, 2)


def test_a_timetable_keeps_its_days_and_dependencies_see_moved_times() -> None:
    exclusion = Exclusion({"holidays": "7"}, True, "next", (date(2026, 12, 25), date(2026, 12, 28)))
    timetable = Timetable("cron", "0 2 * * *", None, "UTC", at(2026, 1, 1), excluded=encode_exclusion(exclusion))
    schedule = timetable.schedule(UUID(int=1))
    assert timetable.exclusion == exclusion
    assert schedule.next_after(at(2026, 12, 24, 3)) == at(2026, 12, 29, 2)
    assert time_needed(schedule, at(2026, 12, 25, 2), None) is None
    assert time_needed(schedule, at(2026, 12, 29, 2), None) == at(2026, 12, 29, 2)


def test_the_description_names_what_is_left_out() -> None:
    skips = exclude_days(Cron("0 2 * * *"), Exclusion({"bank": "1", "works": "1"}, True), "UTC")
    assert describe(skips) == "at 02:00 every day, UTC; not on weekends, days of bank and days of works"
    moves = exclude_days(Cron("0 2 * * *"), Exclusion(weekends=True, rule="next"), "UTC")
    assert describe(moves) == "at 02:00 every day, UTC; on weekends moved to the next business day"


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]
