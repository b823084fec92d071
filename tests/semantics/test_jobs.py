"""The rules of jobs: fire, misfire, update, pause, schedule change, and the marks behind them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from engine import plain, report
from rota.domain.firing import HORIZON
from rota.domain.ids import fire_id, new_id
from rota.domain.run import Outcome
from rota.store.postgres.database import Statements
from support import eventually, job

EACH_SECOND = {"scheduleType": "cron", "cronExpression": "* * * * * *"}


async def runs_of(sql, job_id):
    return await sql.fetch("SELECT * FROM rota.runs WHERE job_id = $1 ORDER BY nominal_at", plain(job_id))


async def test_firing_makes_each_nominal_time_once_however_often_it_is_tried(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    first, second = await engine.leading(), await engine.leading()
    second.leases._owned = first.leases._owned  # as if it had not noticed that its lease moved on
    for _ in range(3):
        await first.firer.tick()
        await second.firer.tick()
    runs = await runs_of(sql, job_id)
    times = [run["nominal_at"] for run in runs]
    assert len(times) == len(set(times)) >= HORIZON.total_seconds() - 1
    assert times == [times[0] + timedelta(seconds=number) for number in range(len(times))]
    assert [run["id"] for run in runs] == [fire_id(plain(job_id), moment) for moment in times]


async def test_a_scheduler_whose_epoch_has_moved_on_fires_and_promotes_nothing(engine, sql):
    await engine.recurring(**EACH_SECOND)
    await engine.submit(scheduleType="future", scheduleTime=(datetime.now(UTC) + timedelta(seconds=1.2)).isoformat())
    stale = await engine.leading()
    await sql.execute("UPDATE rota.shard_leases SET epoch = epoch + 1")
    assert await stale.firer.tick() == 0
    assert await sql.fetchval("SELECT count(*) FROM rota.upcoming_runs WHERE cause = 'schedule'") == 0
    for _ in range(3):
        assert await stale.promoter.tick() == 0


async def test_a_crash_between_reading_and_firing_leaves_nothing_and_the_next_fires_all(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    scheduler = await engine.leading()
    due = await scheduler.firer._schedules.due_jobs(scheduler.leases.owned, HORIZON, 10, 10)
    assert len(list(due)) == 1
    assert await runs_of(sql, job_id) == []
    await scheduler.firer.tick()
    assert len(await runs_of(sql, job_id)) >= 9


async def test_time_going_back_never_fires_again(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    before = len(await runs_of(sql, job_id))
    # As after a clock that was an hour ahead: the mark is in the future, and nothing is made below it.
    await sql.execute(
        """UPDATE rota.jobs SET fired_through = now() + interval '1 hour',
                                next_fire_at = now() + interval '1 hour 1 second'"""
    )
    await scheduler.firer.tick()
    assert len(await runs_of(sql, job_id)) == before


async def test_of_missed_times_only_the_latest_within_an_hour_is_run(engine, sql):
    job_id = await engine.recurring(scheduleType="cron", cronExpression="*/5 * * * *")
    await sql.execute(
        """UPDATE rota.jobs SET fired_through = now() - interval '4 hours',
                                next_fire_at = date_trunc('hour', now()) - interval '2 hours 55 minutes'"""
    )
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    runs = await runs_of(sql, job_id)
    missed = [run for run in runs if run["nominal_at"] <= datetime.now(UTC)]
    past = [run for run in missed if run["status"] != "skipped"]
    assert len(past) == 1
    skipped = {run["reason"] for run in missed if run["status"] == "skipped"}
    assert skipped == {
        "missed: a later time of the schedule was due as well",
        "missed: older than the window of 3600 seconds",
    }
    assert datetime.now(UTC) - past[0]["nominal_at"] < timedelta(minutes=5)
    await scheduler.misfires.tick()
    await scheduler.promoter.tick()
    statuses = {run["nominal_at"]: run["status"] for run in await runs_of(sql, job_id)}
    assert statuses[past[0]["nominal_at"]] == "queued"


async def test_a_time_missed_by_more_than_an_hour_is_not_run(engine, sql):
    job_id = await engine.recurring(scheduleType="cron", cronExpression="0 0 1 1 *")
    await sql.execute(
        """UPDATE rota.jobs SET fired_through = now() - interval '10 hours',
                                next_fire_at = now() - interval '9 hours'"""
    )
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    assert [run["reason"] for run in await runs_of(sql, job_id)] == ["missed: older than the window of 3600 seconds"]
    row = await sql.fetchrow("SELECT next_fire_at, state FROM rota.jobs")
    assert row["next_fire_at"] > datetime.now(UTC)
    assert row["state"] == "scheduled"


async def test_runs_made_before_everything_went_down_are_judged_when_they_are_due(engine, sql):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=600)
    for minutes in (95, 25, 15):
        await sql.execute(
            """INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority,
                      tags, options, cause, shard, nominal_at, run_at, created_at)
               SELECT namespace, rota.id_floor(now() - $1::interval), id, version, owner, name, task, pool, priority,
                      tags, options, 'schedule', shard, now() - $1::interval, now() - $1::interval, now()
                 FROM rota.jobs""",
            timedelta(minutes=minutes),
        )
    await sql.execute("UPDATE rota.jobs SET anchor_at = now() - interval '10 hours 15 minutes'")
    scheduler = await engine.leading()
    await scheduler.promoter.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0, "promotion leaves what was missed alone"
    await scheduler.misfires.tick()
    runs = [(run["status"], run["reason"]) for run in await runs_of(sql, job_id)]
    assert runs == [
        ("skipped", "missed: older than the window of 3600 seconds"),
        ("skipped", "missed: a later time of the schedule was due as well"),
        ("skipped", "missed: a later time of the schedule was due as well"),
    ]


async def test_the_latest_of_the_runs_that_were_missed_is_run(engine, sql):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=600)
    await sql.execute(
        """INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority,
                  tags, options, cause, shard, nominal_at, run_at, created_at)
           SELECT namespace, rota.id_floor(now()), id, version, owner, name, task, pool, priority, tags,
                  options, 'schedule', shard, now() - interval '5 minutes', now() - interval '5 minutes', now()
             FROM rota.jobs"""
    )
    await sql.execute(
        "UPDATE rota.jobs SET anchor_at = (SELECT nominal_at FROM rota.upcoming_runs) - interval '10 hours'"
    )
    scheduler = await engine.leading()
    await scheduler.misfires.tick()
    assert [run["status"] for run in await runs_of(sql, job_id)] == ["queued"]


async def test_an_update_binds_every_unclaimed_run_at_its_commit(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND, payload={"version": 1})
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    await scheduler.promoter.tick()
    await engine.api.post(f"/v1/jobs/{job_id}/run")
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") >= 1
    before = len(await runs_of(sql, job_id))
    answer = await engine.api.put(f"/v1/jobs/{job_id}", json={"payload": {"version": 2}, "pool": "other"})
    assert answer.status_code == 200, answer.text
    runs = await runs_of(sql, job_id)
    assert len(runs) == before
    assert {(run["payload"], run["pool"], run["job_version"]) for run in runs} == {('{"version":2}', "other", 2)}
    broker = engine.broker()
    await engine.join(broker, pools=("other",))
    assert await broker.claim(1), "the lane follows the pool"


async def test_a_schedule_change_drops_its_future_runs_and_puts_the_mark_back_before_the_earliest(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    await scheduler.promoter.tick()
    mark = await sql.fetchval("SELECT fired_through FROM rota.jobs")
    asked = datetime.now(UTC)
    answer = await engine.api.put(f"/v1/jobs/{job_id}", json={"cronExpression": "*/2 * * * * *"})
    now = datetime.now(UTC)
    assert answer.status_code == 200, answer.text
    runs = await runs_of(sql, job_id)
    assert all(run["nominal_at"] <= now for run in runs)
    row = await sql.fetchrow("SELECT fired_through, next_fire_at FROM rota.jobs")
    assert asked - timedelta(seconds=2) < row["fired_through"] < mark
    await scheduler.firer.tick()
    made = [run["nominal_at"] for run in await runs_of(sql, job_id) if run["nominal_at"] > now]
    assert made
    assert all(moment.second % 2 == 0 for moment in made)
    assert made[0] - now <= timedelta(seconds=2), "nothing between the change and the horizon is lost"


async def test_pause_drops_the_future_holds_the_due_and_resume_goes_on_without_a_gap(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    manual = (await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    paused = (await engine.api.post(f"/v1/jobs/{job_id}/pause")).json()
    assert (paused["status"], paused["nextFireTimes"]) == ("paused", [])
    run = await engine.run(manual)
    assert (run["status"], run["waitingFor"]) == ("blocked", "its job is paused")
    await scheduler.firer.tick()
    assert not [run for run in await runs_of(sql, job_id) if run["nominal_at"] > datetime.now(UTC)]
    resumed = (await engine.api.post(f"/v1/jobs/{job_id}/resume")).json()
    now = datetime.now(UTC)
    assert resumed["status"] == "scheduled"
    assert (await engine.run(manual))["status"] == "queued"
    await scheduler.firer.tick()
    future = [run["nominal_at"] for run in await runs_of(sql, job_id) if run["nominal_at"] > now]
    assert future[0] - now <= timedelta(seconds=1.5), "what was dropped is made again"


async def test_a_claimed_run_is_recalled_and_the_change_applies_once_it_is_given_back(engine, sql):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600, payload={"version": 1})
    run_id = (await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    await engine.api.put(f"/v1/jobs/{job_id}", json={"payload": {"version": 2}})
    assert (await sql.fetchrow("SELECT recalled, payload FROM rota.live_runs"))["recalled"]
    assert await engine.claims.signals(broker._id) == ([(claim.number, False)], frozenset())
    await broker.report([report(claim, Outcome.released)])
    assert (await engine.run(run_id))["status"] == "blocked"
    scheduler = await engine.leading()
    assert await scheduler.recaller.tick() == 1
    run = await engine.run(run_id)
    assert (run["status"], run["payload"], run["attempt"]) == ("queued", {"version": 2}, 0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [("pause", "blocked"), ("cancel", "cancelled"), ("pause and resume", "queued")],
)
async def test_a_recalled_run_follows_what_its_job_says_when_it_comes_back(engine, sql, change, expected):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600)
    run_id = (await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    if change == "cancel":
        await engine.api.request("DELETE", f"/v1/jobs/{job_id}")
    else:
        await engine.api.post(f"/v1/jobs/{job_id}/pause")
    if change == "pause and resume":
        await engine.api.post(f"/v1/jobs/{job_id}/resume")
    await broker.report([report(claim, Outcome.released)])
    scheduler = await engine.leading()
    await scheduler.recaller.tick()
    assert (await engine.run(run_id))["status"] == expected


async def test_a_recalled_run_whose_time_the_new_schedule_does_not_have_is_dropped(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    broker = engine.broker()
    await engine.join(broker)

    async def claimed_ahead():
        await scheduler.leases.tick()
        await scheduler.promoter.tick()
        ahead = datetime.now(UTC) + timedelta(seconds=0.5)
        return [claim for claim in await broker.claim(10) if datetime.fromtimestamp(claim.ready, UTC) > ahead]

    claims = await eventually(claimed_ahead)
    await engine.api.put(f"/v1/jobs/{job_id}", json={"cronExpression": "0 0 1 1 *"})
    await broker.report([report(claim, Outcome.released) for claim in claims])
    await scheduler.recaller.tick()
    assert not {run["id"] for run in await runs_of(sql, job_id)} & {claim.run_id for claim in claims}


@pytest.mark.parametrize("action", ["update", "pause"])
async def test_a_claimed_one_shot_can_not_be_updated_or_paused(engine, action):
    run_id = await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    await broker.claim(1)
    path = f"/v1/jobs/job_{run_id[4:]}"
    answer = await (
        engine.api.put(path, json={"name": "new"}) if action == "update" else engine.api.post(f"{path}/pause")
    )
    assert answer.status_code == 409, answer.text


async def test_an_unclaimed_one_shot_can_be_moved_to_another_time_and_back(engine, sql):
    run_id = await engine.submit(task="nobody.knows")
    path = f"/v1/jobs/job_{run_id[4:]}"
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    answer = await engine.api.put(path, json={"scheduleTime": later, "name": "later"})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["status"], answer.json()["name"], answer.json()["version"]) == ("scheduled", "later", 2)
    now = datetime.now(UTC).isoformat()
    assert (await engine.api.put(path, json={"scheduleTime": now})).json()["status"] == "queued"
    assert await sql.fetchval("SELECT count(*) FROM rota.runs") == 1


async def test_run_now_is_outside_the_identity_of_fire_times(engine, sql):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600)
    mark = await sql.fetchval("SELECT fired_through FROM rota.jobs")
    runs = {(await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"] for _ in range(3)}
    assert len(runs) == 3
    assert {row["cause"] for row in await runs_of(sql, job_id)} == {"manual"}
    assert await sql.fetchval("SELECT fired_through FROM rota.jobs") == mark


async def test_schedules_fire_on_time_end_to_end(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    async with engine.running(engine.scheduler(), engine.worker()):

        async def five_done():
            return [run for run in await runs_of(sql, job_id) if run["status"] == "success"][4:]

        await eventually(five_done)
    done = [run for run in await runs_of(sql, job_id) if run["status"] == "success"]
    times = [run["nominal_at"] for run in done]
    assert times == [times[0] + timedelta(seconds=number) for number in range(len(times))]
    assert all(run["started_at"] >= run["nominal_at"] for run in done)


async def test_pause_wins_against_a_retry_in_the_middle_of_it(engine, monkeypatch):
    job_id = await engine.recurring(
        scheduleType="interval", everySeconds=3600, retry={"strategy": "fixed", "baseSeconds": 0.1, "jitter": 0}
    )
    run_id = (await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    fetch = Statements.fetch
    failed = []

    async def fail_meanwhile(self, name, /, **options):
        if name in ("refresh_runs_of_job", "hold_runs_of_job") and not failed:
            failed.append(await broker.report([report(claim, Outcome.failed, error="e")]))
        return await fetch(self, name, **options)

    monkeypatch.setattr(Statements, "fetch", fail_meanwhile)
    assert (await engine.api.post(f"/v1/jobs/{job_id}/pause")).json()["status"] == "paused"
    run = await engine.run(run_id)
    assert (run["status"], run["waitingFor"]) == ("blocked", "its job is paused")


async def test_pause_wins_against_a_promotion_under_way(engine, database_url):
    job_id = await engine.recurring(
        scheduleType="interval", everySeconds=3600, retry={"strategy": "fixed", "baseSeconds": 0.2, "jitter": 0}
    )
    run_id = (await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    await broker.report([report(claim, Outcome.failed, error="e")])
    other = await asyncpg.connect(database_url)
    moving = other.transaction()
    await moving.start()
    assert await Statements(other).fetch(
        "promote_runs", namespaces=["default"], run_ids=[plain(run_id)], lookahead=timedelta(seconds=1)
    )
    pausing = asyncio.create_task(engine.api.post(f"/v1/jobs/{job_id}/pause"))

    async def waits():
        return await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")

    await eventually(waits)
    await moving.commit()
    await other.close()
    assert (await pausing).json()["status"] == "paused"
    assert (await engine.run(run_id))["status"] == "blocked"
    assert await broker.claim(1) == []


async def test_a_run_that_fails_after_its_job_was_paused_is_held_and_keeps_its_backoff(engine):
    job_id = await engine.recurring(
        scheduleType="interval", everySeconds=3600, retry={"strategy": "fixed", "baseSeconds": 100, "jitter": 0}
    )
    run_id = (await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    await engine.api.post(f"/v1/jobs/{job_id}/pause")
    await broker.report([report(claim, Outcome.failed, error="e")])
    scheduler = await engine.leading()
    await scheduler.recaller.tick()
    run = await engine.run(run_id)
    assert (run["status"], run["attempt"], run["waitingFor"]) == ("blocked", 1, "its job is paused")
    await engine.api.post(f"/v1/jobs/{job_id}/resume")
    run = await engine.run(run_id)
    assert run["status"] == "retrying"
    assert datetime.fromisoformat(run["scheduledTime"]) > datetime.now(UTC) + timedelta(seconds=90)


async def test_a_change_that_is_not_of_the_schedule_loses_no_time_that_is_due(engine, sql):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600)
    await sql.execute(
        """UPDATE rota.jobs SET next_fire_at = now() - interval '30 s', fired_through = now() - interval '3630 s',
                                anchor_at = now() - interval '7230 s'"""
    )
    await engine.api.put(f"/v1/jobs/{job_id}", json={"name": "new name"})
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    assert [run["name"] for run in await runs_of(sql, job_id)] == ["new name"]


async def test_a_time_that_has_its_run_is_not_made_again_even_if_the_mark_were_wrong(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    async with engine.running(scheduler, engine.worker()):

        async def some_done():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") >= 2

        await eventually(some_done)
    before = [run["id"] for run in await runs_of(sql, job_id)]
    await sql.execute(
        """UPDATE rota.jobs SET next_fire_at = date_trunc('second', now()) - interval '1 second',
                                fired_through = date_trunc('second', now()) - interval '2 seconds'"""
    )
    again = await engine.leading()
    await again.firer.tick()
    after = [run["id"] for run in await runs_of(sql, job_id)]
    assert len(after) == len(set(after))
    assert set(before) <= set(after)


async def test_run_now_beside_a_cancel_leaves_no_run_behind(engine, sql, database_url):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600)
    other = await asyncpg.connect(database_url)
    asking = other.transaction()
    await asking.start()
    assert await Statements(other).fetch(
        "run_now", namespace="default", job_id=plain(job_id), run_id=new_id(datetime.now(UTC).timestamp())
    )
    cancelling = asyncio.create_task(engine.api.request("DELETE", f"/v1/jobs/{job_id}"))
    await asyncio.sleep(0.2)
    await asking.commit()
    await other.close()
    assert (await cancelling).status_code == 200
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0
    assert (await engine.api.post(f"/v1/jobs/{job_id}/run")).status_code == 409


async def test_the_status_of_a_schedule_is_that_of_the_last_run_whose_time_has_come(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    status = (await engine.api.get(f"/v1/jobs/{job_id}/status")).json()
    assert (status["status"], status["runId"]) == ("scheduled", None)
    async with engine.running(engine.scheduler(), engine.worker()):

        async def succeeded():
            return (await engine.api.get(f"/v1/jobs/{job_id}/status")).json()["status"] == "success"

        await eventually(succeeded)


async def test_jobs_cancelled_in_the_far_future_do_not_open_a_partition_a_day(engine, sql):
    now = datetime.now(UTC)
    items = [
        job(scheduleType="future", scheduleTime=(now + timedelta(days=100 + number)).isoformat())
        for number in range(200)
    ]
    results = (await engine.api.post("/v1/jobs/batch", json=items)).json()["results"]
    for result in results:
        assert (await engine.api.post(f"/v1/runs/{result['runId']}/cancel")).status_code == 202
    partitions = await sql.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'rota.finished_runs'::regclass")
    assert partitions <= 9 + 8
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == 200
