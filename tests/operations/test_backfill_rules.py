"""The rules of operations without a database, against a ledger that stores everything."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from rota.domain.backfills import EarlierBackfill, FrozenCalendar, Known, is_wanted
from rota.domain.job import Timetable
from rota.domain.operations import has_failed_too_often, paced, seconds_for, usual_concurrency

START = datetime(2026, 3, 1, tzinfo=UTC)
TIMES = [START + timedelta(hours=number) for number in range(12)]
HOURLY = Timetable("cron", "0 * * * *", None, "UTC", START)
JOB = uuid4()


@pytest.mark.parametrize("seed", range(200))
def test_what_earlier_backfills_did_follows_from_their_rules(seed):
    chance = random.Random(seed)
    endings = {it: chance.choice(["success", "failed", "open"]) for it in TIMES if chance.random() < 0.5}
    unknown = {it for it in TIMES if it not in endings and chance.random() < 0.3}
    ledger = {it: endings.get(it, "unknown" if it in unknown else "missing") for it in TIMES}
    earlier, rows = [], {}
    for _ in range(5):
        known = Known(endings, unknown, earlier, rows)
        assert {it: known.ending(it) for it in TIMES} == ledger
        first, last = sorted(chance.sample(range(12), 2))
        calendar = FrozenCalendar(JOB, HOURLY, TIMES[first], TIMES[last], newest_first=chance.random() < 0.5)
        times = calendar.times(None, 100)
        assert sorted(times) == TIMES[first : last + 1]
        dealt_with = times[: chance.randrange(len(times) + 1)]
        backfill = EarlierBackfill(
            uuid4(),
            calendar,
            chance.choice(["skip", "failed", "rerun"]),
            chance.choice(["run", "skip", None]),
            dealt_with[-1] if dealt_with else None,
            len(dealt_with) == len(times),
        )
        for moment in dealt_with:
            if ledger[moment] == "open":
                rows[backfill.id, moment] = "left"
            elif is_wanted(ledger[moment], backfill.existing, backfill.unknown):
                ended = chance.choice(["success", "failed", "missing"])  # the last: cancelled while it waited
                if ended != "success":
                    rows[backfill.id, moment] = ended
                ledger[moment] = ledger[moment] if ended == "missing" else ended
        for moment in [it for it, ending in endings.items() if ending == "open" and chance.random() < 0.5]:
            endings[moment] = chance.choice(["success", "failed"])
            ledger[moment] = endings[moment]
        earlier.append(backfill)


def test_a_rate_is_not_saved_up_and_a_clock_that_went_back_delays():
    now = START
    made, used = paced(10, None, now, 100)
    assert made == 10
    assert paced(10, used, now, 100)[0] == 0
    assert paced(10, used, now + timedelta(seconds=0.5), 100)[0] == 5
    assert paced(10, used, now + timedelta(hours=1), 100)[0] == 10
    assert paced(10, used, now - timedelta(hours=1), 100)[0] == 0
    assert paced(0.1, START, now + timedelta(seconds=9), 5)[0] == 0
    assert paced(0.1, START, now + timedelta(seconds=10), 5) == (1, START + timedelta(seconds=10))
    assert paced(None, None, now, 7) == (7, None)


def test_a_share_is_judged_from_ten_ends_on():
    assert not has_failed_too_often(1, 1, 0.2)
    assert not has_failed_too_often(2, 2, 0.2)
    assert has_failed_too_often(3, 3, 0.2)
    assert has_failed_too_often(1, 1, 0)
    assert not has_failed_too_often(100, 20, 0.2)
    assert has_failed_too_often(100, 21, 0.2)
    assert not has_failed_too_often(100, 100, 1)
    assert not has_failed_too_often(100, 100, None)


def test_a_quarter_of_the_slots_and_at_least_one():
    assert [usual_concurrency(slots) for slots in (0, 3, 8, 100_000)] == [1, 1, 2, 10_000]


def test_how_long_it_takes_is_the_longer_of_rate_and_runs():
    assert seconds_for(100, 10, None, 2.0) == 20
    assert seconds_for(100, 10, 1.0, 2.0) == 100
    assert seconds_for(100, 10, None, None) is None
    assert seconds_for(100, 10, 4.0, None) == 25
