"""Schedules that should have fired: reported while they are overdue, and after they caught up."""

from __future__ import annotations

from datetime import timedelta

from rota.store.alert.measures import OverdueCounts
from rota.store.postgres.statements import load
from support import eventually

EVERY_SECOND = {"name": "nightly", "scheduleType": "interval", "everySeconds": 1}


async def overdue_since(alerting, seconds):
    """Waits until the first time of the only schedule is so long ago."""
    late = "SELECT bool_and(next_fire_at < now() - make_interval(secs => $1)) FROM rota.jobs"
    await eventually(lambda: alerting.sql.fetchval(late, seconds))


async def schedule_events(alerting):
    rows = await alerting.sql.fetch("SELECT kind, subject FROM rota.events WHERE kind LIKE 'schedule.%' ORDER BY id")
    return [(row["kind"], row["subject"]) for row in rows]


async def test_a_schedule_that_could_not_fire_is_overdue_and_recovers(alerting):
    await alerting.rule("overdue", "schedule_overdue", threshold=0.5, windowSeconds=60)
    job_id = await alerting.engine.recurring(**EVERY_SECOND)
    await alerting.evaluate()
    assert await alerting.alerts("overdue") == [], "its time has not come"
    found = await alerting.alert("overdue")
    assert found["title"].startswith("Schedule nightly is overdue by ")
    assert (found["jobId"], found["nextAct"]) == (job_id, f"rota job {job_id}")
    assert await schedule_events(alerting) == [("schedule.overdue", "nightly")]
    async with alerting.engine.running(alerting.engine.scheduler(), alerting.engine.worker()):
        await eventually(lambda: alerting.sql.fetchval("SELECT bool_and(next_fire_at > now()) FROM rota.jobs"))
        await alerting.sql.execute("UPDATE rota.late_fires SET fired_at = fired_at - interval '2 minutes'")
        await alerting.alert("overdue", "resolved")
    assert await schedule_events(alerting) == [("schedule.overdue", "nightly"), ("schedule.recovered", "nightly")]


async def test_one_that_caught_up_before_anyone_looked_is_reported(alerting):
    await alerting.rule("overdue", "schedule_overdue", threshold=6, windowSeconds=60)
    await alerting.engine.recurring(**EVERY_SECOND)
    await overdue_since(alerting, 7)
    async with alerting.engine.running(alerting.engine.scheduler(), alerting.engine.worker()):
        await eventually(lambda: alerting.sql.fetchval("SELECT bool_and(next_fire_at > now()) FROM rota.jobs"))
        found = await alerting.alert("overdue")
    assert found["title"].startswith("Schedule nightly fired ")
    assert found["title"].endswith(" s late")
    assert found["value"] >= 7


async def test_a_schedule_on_time_is_not_noted_as_late(alerting):
    async with alerting.engine.running(alerting.engine.scheduler(), alerting.engine.worker()):
        await alerting.engine.recurring(**EVERY_SECOND)
        await eventually(lambda: alerting.sql.fetchval("SELECT count(*) > 2 FROM rota.finished_runs"))
    assert await alerting.sql.fetchval("SELECT count(*) FROM rota.late_fires") == 0


async def test_a_run_that_no_worker_takes_is_overdue(alerting):
    await alerting.rule("overdue", "schedule_overdue", threshold=0.5)
    async with alerting.engine.running(alerting.engine.scheduler()):
        await alerting.engine.recurring(**EVERY_SECOND)

        async def waits():
            found = await alerting.alert("overdue")
            return found["title"].startswith("The run of schedule nightly has waited ")

        await eventually(waits)


async def test_a_paused_schedule_and_one_that_ended_are_not_overdue(alerting):
    await alerting.rule("overdue", "schedule_overdue", threshold=0)
    paused = await alerting.engine.recurring(**EVERY_SECOND)
    ended = await alerting.engine.recurring(**EVERY_SECOND)
    assert (await alerting.api.post(f"/v1/jobs/{paused}/pause")).status_code == 200
    assert (await alerting.api.delete(f"/v1/jobs/{ended}")).status_code < 300
    await alerting.engine.recurring(**EVERY_SECOND | {"name": "on duty"})
    found = await alerting.alert("overdue")
    assert found["subject"] == "on duty"
    assert len(await alerting.alerts("overdue")) == 1


async def test_a_rule_for_one_job_says_nothing_of_others(alerting):
    mine = await alerting.engine.recurring(**EVERY_SECOND)
    await alerting.engine.recurring(**EVERY_SECOND | {"name": "another"})
    await alerting.rule("overdue", "schedule_overdue", threshold=0.2, job=mine)
    found = await alerting.alert("overdue")
    assert found["jobId"] == mine
    await overdue_since(alerting, 1)
    await alerting.evaluate()
    assert len(await alerting.alerts("overdue")) == 1


async def test_overdue_schedules_are_counted_by_namespace(alerting):
    counts = OverdueCounts(alerting.engine.database)
    assert await counts.count() == ({}, 0)
    await alerting.engine.recurring(**EVERY_SECOND)
    await alerting.engine.recurring(**EVERY_SECOND | {"everySeconds": 86400})
    await eventually(lambda: alerting.sql.fetchval("SELECT bool_or(next_fire_at < now()) FROM rota.jobs"))
    assert await counts.count(timedelta()) == ({"default": 1}, 2)
    assert await counts.count() == ({}, 2)


async def test_a_job_says_that_it_is_overdue(alerting):
    job_id = await alerting.engine.recurring(**EVERY_SECOND)
    assert "overdue" not in (await alerting.api.get(f"/v1/jobs/{job_id}")).json()
    await alerting.sql.execute(
        "UPDATE rota.jobs SET fired_through = now() - interval '1 hour', next_fire_at = now() - interval '5 minutes'"
    )
    assert (await alerting.api.get(f"/v1/jobs/{job_id}")).json()["overdue"] is True
    assert [each["overdue"] for each in (await alerting.api.get("/v1/jobs")).json()["items"]] == [True]


async def test_a_million_overdue_schedules_of_one_namespace_hide_no_other(alerting):
    assert "row_number() OVER (PARTITION BY f.namespace" in load("overdue_schedules").text
    await alerting.rule("overdue", "schedule_overdue", threshold=0, scope="installation")
    job_id = await alerting.engine.recurring(**EVERY_SECOND)
    assert job_id
    columns = [
        row["column_name"]
        for row in await alerting.sql.fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'rota' AND table_name = 'jobs'"
        )
        if row["column_name"] not in ("id", "namespace", "next_fire_at", "fired_through")
    ]
    listed = ", ".join(columns)
    await alerting.sql.execute(
        f"""INSERT INTO rota.jobs (namespace, id, next_fire_at, fired_through, {listed})
            SELECT 'busy', gen_random_uuid(), now() - interval '1 hour', now() - interval '2 hours', {listed}
              FROM rota.jobs, generate_series(1, 3000)"""
    )
    await overdue_since(alerting, 0)
    await alerting.evaluate()
    counted = await alerting.sql.fetch("SELECT namespace, count(*) FROM rota.alert_states GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in counted] == [("busy", 101), ("default", 1)]
    await alerting.evaluate()
    told = await alerting.sql.fetchval("SELECT count(*) FROM rota.events WHERE kind = 'alert.fired'")
    assert told == 102
