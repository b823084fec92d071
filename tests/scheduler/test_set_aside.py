"""One schedule or run that can't be handled is set aside and reported; the others go on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from engine import plain, report
from rota.domain.run import Outcome
from rota.scheduler import firer, misfire_judge, recaller, rezoner
from rota.scheduler.set_aside import LONGEST_PAUSE_SECONDS, SetAside
from support import job

INTERVAL = {"scheduleType": "interval", "everySeconds": 600}
POISON = {
    "zone": "timezone = 'Atlantis/Poseidonis', schedule_type = 'cron', cron_expression = '* * * * *',"
    " every_seconds = NULL",
    "expression": "schedule_type = 'cron', cron_expression = 'whenever', every_seconds = NULL",
    "misfire rule": """misfire = '{"policy": "perhaps"}'""",
}


@pytest.fixture
def logged():
    """How often something was logged: logged("it failed")."""
    with capture_logs() as entries:
        yield lambda words: sum(words in entry["event"] for entry in entries)


@pytest.fixture(params=POISON)
def poison(request):
    return POISON[request.param]


@pytest.fixture
async def jobs(engine, sql):
    """Schedules in one shard, all missed since an hour."""
    results = (await engine.api.post("/v1/jobs/batch", json=[job(**INTERVAL)] * 4)).json()["results"]
    await sql.execute(
        """UPDATE rota.jobs SET shard = 1, fired_through = now() - interval '2 hours',
                                anchor_at = now() - interval '1 day', next_fire_at = now() - interval '1 hour'"""
    )
    return [plain(result["jobId"]) for result in results]


@pytest.fixture
def one_row_at_a_time(monkeypatch):
    """Looks so short that a row that is not taken away would hide all others."""
    monkeypatch.setattr(firer, "_LATE_PER_SHARD", 1)
    monkeypatch.setattr(misfire_judge, "_RUNS_PER_SHARD", 1)
    monkeypatch.setattr(recaller, "_RUNS_PER_SHARD", 1)


async def ticked(service, times=12):
    for _ in range(times):
        await service.tick()


@pytest.mark.usefixtures("one_row_at_a_time")
async def test_a_schedule_that_cannot_be_read_does_not_keep_others_from_firing(engine, sql, jobs, poison, logged):
    await sql.execute(
        f"UPDATE rota.jobs SET {poison}, next_fire_at = next_fire_at - interval '1 s' WHERE id = $1", jobs[0]
    )
    scheduler = await engine.leading()
    await ticked(scheduler.firer)
    fired = {row["job_id"] for row in await sql.fetch("SELECT DISTINCT job_id FROM rota.runs")}
    assert fired == set(jobs[1:])
    assert logged("a schedule can't be fired") == 1


async def make_missed(sql, job_id):
    """A run of this job that was made before everything went down."""
    await sql.execute(
        """INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority,
                  tags, options, cause, shard, nominal_at, run_at, created_at)
           SELECT namespace, gen_random_uuid(), id, version, owner, name, task, pool, priority, tags, options,
                  'schedule', shard, now() - interval '5 minutes', now() - interval '5 minutes', now()
             FROM rota.jobs WHERE id = $1""",
        job_id,
    )


@pytest.mark.usefixtures("one_row_at_a_time")
async def test_a_schedule_that_cannot_be_read_does_not_keep_others_from_being_judged(engine, sql, jobs, poison, logged):
    for job_id in (jobs[0], jobs[0], *jobs[1:]):
        await make_missed(sql, job_id)
    await sql.execute(f"UPDATE rota.jobs SET {poison} WHERE id = $1", jobs[0])
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = run_at - interval '1 s' WHERE job_id = $1", jobs[0])
    scheduler = await engine.leading()
    await ticked(scheduler.misfires)
    left = {row["job_id"] for row in await sql.fetch("SELECT job_id FROM rota.upcoming_runs")}
    assert left == {jobs[0]}
    assert logged("a missed run can't be judged") == 1


@pytest.mark.usefixtures("one_row_at_a_time")
async def test_a_schedule_that_cannot_be_read_does_not_keep_others_from_being_decided(engine, sql, jobs, logged):
    broker = engine.broker()
    await engine.join(broker)
    for job_id in jobs:
        await engine.api.post(f"/v1/jobs/job_{job_id.hex}/run")
    claims = await broker.claim(10)
    for job_id in jobs:
        await engine.api.put(f"/v1/jobs/job_{job_id.hex}", json={"name": "new"})
    await broker.report([report(claim, Outcome.released) for claim in claims])
    await sql.execute("UPDATE rota.held_runs SET cause = 'schedule', nominal_at = now() + interval '1 h', shard = 1")
    await sql.execute(f"UPDATE rota.jobs SET {POISON['zone']} WHERE id = $1", jobs[0])
    await sql.execute("UPDATE rota.held_runs SET run_at = run_at - interval '1 s' WHERE job_id = $1", jobs[0])
    scheduler = await engine.leading()
    await ticked(scheduler.recaller)
    assert {row["job_id"] for row in await sql.fetch("SELECT job_id FROM rota.held_runs")} == {jobs[0]}
    assert logged("a recalled run can't be decided") == 1


async def test_a_schedule_that_cannot_be_read_does_not_keep_others_from_being_rezoned(engine, sql, monkeypatch):
    monkeypatch.setattr(rezoner, "JOBS_PER_STEP", 3)
    schedule = job(scheduleType="cron", cronExpression="0 9 * * *", timezone="Asia/Tokyo")
    await engine.api.post("/v1/jobs/batch", json=[schedule] * 5)
    await sql.execute("UPDATE rota.jobs SET next_fire_at = next_fire_at + interval '1 hour'")
    await sql.execute(
        "UPDATE rota.jobs SET timezone = 'Atlantis' WHERE id = (SELECT min(id::text)::uuid FROM rota.jobs)"
    )
    scheduler = await engine.leading()
    assert await scheduler.rezoner.tick() == 4
    assert await sql.fetchval("SELECT zone_data FROM rota.constants") == rezoner.zone_data_version()


async def test_a_schedule_that_cannot_be_read_is_shown_among_the_others_with_the_reason(engine, sql, jobs, poison):
    await sql.execute(f"UPDATE rota.jobs SET {poison} WHERE id = $1", jobs[0])
    listed = await engine.api.get("/v1/jobs")
    assert listed.status_code == 200, listed.text
    assert len(listed.json()["items"]) == 4
    shown = (await engine.api.get(f"/v1/jobs/job_{jobs[0].hex}")).json()
    assert shown["note"].startswith("does not fire: its schedule can't be read")


async def test_a_schedule_that_its_owner_has_mended_fires_at_once(engine, sql, jobs):
    await sql.execute(f"UPDATE rota.jobs SET {POISON['expression']} WHERE id = $1", jobs[0])
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    answer = await engine.api.put(f"/v1/jobs/job_{jobs[0].hex}", json={"cronExpression": "* * * * * *"})
    assert answer.status_code == 200, answer.text
    await scheduler.firer.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.upcoming_runs WHERE job_id = $1", jobs[0]) >= 5


async def test_a_job_whose_data_the_database_refuses_does_not_keep_others_from_firing(engine, sql, jobs, logged):
    await sql.execute("""UPDATE rota.jobs SET options = '{"expiresSeconds": "soon"}' WHERE id = $1""", jobs[0])
    scheduler = await engine.leading()
    await ticked(scheduler.firer, 3)
    fired = {row["job_id"] for row in await sql.fetch("SELECT DISTINCT job_id FROM rota.runs")}
    assert fired == set(jobs[1:])
    assert logged("a schedule can't be fired") == 1


async def test_a_missed_run_that_was_started_meanwhile_is_not_skipped(engine, sql, jobs):
    """As by a scheduler that was paused between judging the run and writing that."""
    await make_missed(sql, jobs[0])
    scheduler = await engine.leading()
    (missed,) = await scheduler.misfires._promotions.missed_runs(scheduler.leases.owned, 10)
    retry_at = timedelta(hours=1)
    await sql.execute("UPDATE rota.upcoming_runs SET attempt = 1, run_at = now() + $1::interval", retry_at)
    assert await scheduler.misfires._promotions.skip([(missed.namespace, missed.id, "missed")]) == []
    assert await scheduler.misfires._promotions.promote_runs([(missed.namespace, missed.id)]) == 0
    assert await sql.fetchval("SELECT count(*) FROM rota.upcoming_runs") == 1


def test_what_is_set_aside_is_tried_again_after_pauses_that_grow_and_logged_once(logged):
    now = [0.0]
    aside = SetAside("it failed", lambda: now[0])
    tries = 0
    for second in range(1000):
        now[0] = float(second)
        aside.begin()
        if not aside.passes_over("key"):
            tries += 1
            aside.add("key", ValueError("no"))
    assert 1000 / LONGEST_PAUSE_SECONDS < tries < 30
    assert aside.begin() == 1
    assert logged("it failed") == 1
    assert not aside.passes_over("another version")


async def test_an_expired_run_that_the_database_refuses_to_skip_stops_no_other(engine, sql, logged):
    bad, other = [await engine.submit(expiresSeconds=1) for _ in range(2)]
    await sql.execute("UPDATE rota.live_runs SET expires_at = now() - interval '1 second'")
    await sql.execute(f"ALTER TABLE rota.finished_runs ADD CONSTRAINT refusing CHECK (id <> '{plain(bad)}')")
    scheduler = await engine.leading()
    assert await scheduler.expirer.tick() == 1
    assert (await engine.run(other))["status"] == "skipped"
    assert await scheduler.expirer.tick() == 0
    assert logged("a run has expired and can't be skipped") == 1
    await sql.execute("ALTER TABLE rota.finished_runs DROP CONSTRAINT refusing")
    assert await scheduler.expirer.tick() == 1
