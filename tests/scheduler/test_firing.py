"""Planning what to fire: catching up costs a handful of looks, however long everything was down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
import pytest

from rota.domain.cron import Cron
from rota.domain.firing import HORIZON, MOST_RECORDED, ScheduledJob
from rota.domain.firing import plan_firing as plan_ahead
from rota.domain.job import MisfireRule, Timetable

OUTSIDE = "missed: older than the window of 3600 seconds"
NOW = datetime(2030, 5, 4, 12, 0, 0, 500_000, tzinfo=UTC)


def plan_firing(job):
    return plan_ahead(job, HORIZON)


def due(expression, down_for):
    first = Cron(expression).next_after(NOW - down_for)
    timetable = Timetable("cron", expression, None, "UTC", NOW - timedelta(days=400))
    return ScheduledJob("default", uuid4(), 1, timetable, first, first - timedelta(seconds=1), NOW)


@pytest.mark.parametrize(
    ("expression", "latest"),
    [
        ("* * * * * *", NOW.replace(microsecond=0)),
        ("*/7 * * * * *", NOW.replace(minute=0, second=0, microsecond=0)),
        ("30 11 * * *", NOW.replace(hour=11, minute=30, second=0, microsecond=0)),
        ("30 10 * * *", None),
    ],
)
@pytest.mark.parametrize("down_for", [timedelta(minutes=50), timedelta(days=40)])
def test_only_the_latest_missed_time_within_the_window_is_fired(expression, latest, down_for):
    firing = plan_firing(due(expression, down_for))
    past = [run.nominal_at for run in firing.runs if run.nominal_at <= NOW and not run.skipped]
    assert past == ([latest] if latest else [])
    assert firing.next_fire_at > NOW
    assert firing.mark >= max(run.nominal_at for run in firing.runs)


def test_catching_up_looks_at_few_times(monkeypatch):
    looks = 0
    next_after = Cron.next_after

    def counted(self, moment):
        nonlocal looks
        looks += 1
        return next_after(self, moment)

    job = due("* * * * * *", timedelta(days=1))
    monkeypatch.setattr(Cron, "next_after", counted)
    plan_firing(job)
    assert looks < 1000, "a day has 86,400 of these times"


@pytest.mark.parametrize(
    ("rule", "run", "reasons"),
    [
        (MisfireRule("skip"), 0, ["missed: nothing ran at its time, and its job skips what was missed"]),
        (MisfireRule("latest"), 1, ["missed: a later time of the schedule was due as well", OUTSIDE]),
        (MisfireRule("all"), 6, [OUTSIDE]),
        (MisfireRule("all", window_seconds=86400.0), 24, []),
        (MisfireRule("all", window_seconds=86400.0, cap=4), 4, ["missed: more than 4 times were missed"]),
        (MisfireRule("latest", window_seconds=1.0), 0, ["missed: older than the window of 1 seconds"]),
    ],
)
def test_a_jobs_rule_says_what_of_the_missed_is_run_and_the_rest_is_recorded(rule, run, reasons):
    job = due("*/10 * * * *", timedelta(hours=3, minutes=55))
    timetable = msgspec.structs.replace(job.timetable, misfire=msgspec.json.encode(rule).decode())
    now = NOW + timedelta(seconds=30)
    firing = plan_firing(msgspec.structs.replace(job, timetable=timetable, database_time=now))
    missed = [planned for planned in firing.runs if planned.nominal_at <= now]
    assert len(missed) == 24
    assert sum(not planned.skipped for planned in missed) == run
    assert [planned.skipped for planned in missed].count(None) == run
    assert {planned.skipped for planned in missed} - {None} == set(reasons)


def test_of_what_is_skipped_the_latest_are_recorded():
    firing = plan_firing(due("* * * * * *", timedelta(days=1)))
    skipped = [run.nominal_at for run in firing.runs if run.skipped]
    assert len(skipped) == MOST_RECORDED
    assert skipped[-1] == NOW.replace(microsecond=0) - timedelta(seconds=1)


def test_jitter_moves_the_start_and_never_the_nominal_time():
    job = due("* * * * *", timedelta(seconds=20))
    timetable = msgspec.structs.replace(job.timetable, jitter_seconds=30.0)
    plain, jittered = plan_firing(job), plan_firing(msgspec.structs.replace(job, timetable=timetable))
    assert [run.nominal_at for run in plain.runs] == [run.nominal_at for run in jittered.runs]
    assert all(run.run_at == run.nominal_at for run in plain.runs)
    assert all(timedelta() <= run.run_at - run.nominal_at < timedelta(seconds=30) for run in jittered.runs)
    assert plan_firing(msgspec.structs.replace(job, timetable=timetable)) == jittered


def test_what_is_a_little_late_is_fired_whole():
    firing = plan_firing(due("* * * * * *", timedelta(seconds=20)))
    past = [run for run in firing.runs if run.nominal_at <= NOW]
    assert len(past) == 20
    assert not any(run.skipped for run in past)
    assert firing.runs[-1].nominal_at <= NOW + HORIZON
