"""The zone data changes; schedules in local time follow, and nothing else does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine import plain
from rota.scheduler import rezoner
from support import job


@pytest.fixture
async def jobs(engine):
    """A schedule in Berlin, one in UTC, one that is paused, and an interval."""
    berlin = {"scheduleType": "cron", "cronExpression": "0 9 * * *", "timezone": "Europe/Berlin"}
    made = [
        await engine.recurring(**fields)
        for fields in (
            berlin,
            berlin | {"timezone": "UTC"},
            berlin,
            {"scheduleType": "interval", "everySeconds": 3600},
        )
    ]
    await engine.api.post(f"/v1/jobs/{made[2]}/pause")
    return [plain(job_id) for job_id in made]


async def fires(sql):
    return dict(await sql.fetch("SELECT id, next_fire_at FROM rota.jobs"))


async def test_stored_times_are_computed_anew_once_when_the_data_is_another(engine, sql, jobs):
    scheduler = await engine.leading()
    right = await fires(sql)
    # As if Berlin had been an hour off in the data of yesterday.
    await sql.execute(
        "UPDATE rota.jobs SET next_fire_at = next_fire_at + interval '1 hour' WHERE next_fire_at IS NOT NULL"
    )
    await sql.execute("UPDATE rota.constants SET zone_data = 'of yesterday'")
    assert await scheduler.rezoner.tick() == 1
    after = await fires(sql)
    assert after[jobs[0]] == right[jobs[0]]
    assert after[jobs[1]] == right[jobs[1]] + timedelta(hours=1), "UTC never changes"
    assert after[jobs[2]] is None
    assert await scheduler.rezoner.tick() == 0
    assert await sql.fetchval("SELECT zone_data FROM rota.constants") == rezoner.zone_data_version()


async def test_a_scheduler_that_runs_notices_new_data(engine, sql, jobs, monkeypatch):
    scheduler = await engine.leading()
    await scheduler.rezoner.tick()
    await sql.execute(
        "UPDATE rota.jobs SET next_fire_at = next_fire_at + interval '1 hour' WHERE next_fire_at IS NOT NULL"
    )
    assert await scheduler.rezoner.tick() == 0
    monkeypatch.setattr(rezoner, "refresh_zones", lambda: True)
    monkeypatch.setattr(rezoner, "zone_data_version", lambda: "of tomorrow")
    assert await scheduler.rezoner.tick() == 1


async def test_a_time_that_is_due_is_left_to_firing(engine, sql, jobs):
    scheduler = await engine.leading()
    await sql.execute(
        "UPDATE rota.jobs SET next_fire_at = now() - interval '1 second', fired_through = now() - interval '1 day'"
        " WHERE next_fire_at IS NOT NULL"
    )
    assert await scheduler.rezoner.tick() == 0


async def test_a_job_that_changed_meanwhile_keeps_what_it_has(engine, sql, jobs):
    scheduler = await engine.leading()
    (read, *_) = await scheduler.rezoner._schedules.zoned_jobs(None, 10)
    await engine.api.put(f"/v1/jobs/job_{read.id.hex}", json={"cronExpression": "0 10 * * *"})
    before = await fires(sql)
    assert await scheduler.rezoner._schedules.move_next_fires([(read, datetime.now(UTC) + timedelta(days=9))]) == 0
    assert await fires(sql) == before


async def test_many_schedules_are_gone_through_in_steps(engine, sql, monkeypatch):
    monkeypatch.setattr(rezoner, "JOBS_PER_STEP", 3)
    schedule = job(scheduleType="cron", cronExpression="0 9 * * *", timezone="Asia/Tokyo")
    await engine.api.post("/v1/jobs/batch", json=[schedule] * 10)
    await sql.execute("UPDATE rota.jobs SET next_fire_at = next_fire_at + interval '1 hour'")
    scheduler = await engine.leading()
    assert await scheduler.rezoner.tick() == 10
