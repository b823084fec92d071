"""Planning what to fire: catching up costs a handful of looks, however long everything was down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from rota.domain.job import Timetable
from rota.domain.schedule import Cron
from rota.scheduler.firing import HORIZON, plan_firing
from rota.store.schedules import DueJob

NOW = datetime(2030, 5, 4, 12, 0, 0, 500_000, tzinfo=UTC)


def due(expression, down_for):
    first = Cron(expression).next_after(NOW - down_for)
    timetable = Timetable("cron", expression, None, "UTC", NOW - timedelta(days=400))
    return DueJob("default", uuid4(), 1, timetable, first, first - timedelta(seconds=1), NOW)


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
    past = [moment for _, moment in firing.runs if moment <= NOW]
    assert past == ([latest] if latest else [])
    assert firing.next_fire_at > NOW
    assert firing.mark >= (latest or NOW - timedelta(hours=1))


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
    assert looks < 40


def test_what_is_a_little_late_is_fired_whole():
    firing = plan_firing(due("* * * * * *", timedelta(seconds=20)))
    past = [moment for _, moment in firing.runs if moment <= NOW]
    assert len(past) == 20
    assert firing.runs[-1][1] <= NOW + HORIZON
