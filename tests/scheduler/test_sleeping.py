"""Services of a scheduler sleep while nothing is due, and whatever comes up sooner ends their sleep.

In these tests nothing but a due time, a wake-up or an outlook that the test asks for ends a sleep: one that was missed
would last for ever.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from rota.clock import DatabaseClock
from rota.contract.jobs import BatchJobIn
from rota.domain.rights import Caller
from rota.gateway.protocol import OutgoingJob
from rota.gateway.transaction import KnownFunctions, submit_within
from rota.scheduler import outlook
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.scheduler import Scheduler
from rota.store.lease import Shards
from support import eventually, job

FOR_EVER = 1e6


@pytest.fixture(autouse=True)
def endless_sleep(monkeypatch):
    monkeypatch.setattr(outlook, "_LONGEST_SLEEP_SECONDS", FOR_EVER)


def sleepers(scheduler):
    return scheduler.outlook._sleepers


async def fall_asleep(scheduler):
    """Until everything sleeps; from then on there is no outlook."""

    async def all_asleep():
        await scheduler.outlook.tick()
        return all(service.is_asleep for service in sleepers(scheduler))

    await eventually(all_asleep, every=0.1)


@asynccontextmanager
async def asleep(engine, monkeypatch, **worker):
    """A scheduler that sleeps, and a worker."""
    monkeypatch.setattr(outlook.Outlook, "interval_seconds", FOR_EVER)
    scheduler = engine.scheduler()
    async with engine.running(scheduler, engine.worker(**worker)):
        await fall_asleep(scheduler)
        yield scheduler


def due_in(seconds):
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"scheduleType": "future", "scheduleTime": moment.isoformat()}


async def count_successes(sql):
    return await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'")


# What comes up sooner


async def a_job_that_is_due_soon(engine):
    await engine.submit(**due_in(2))


async def a_schedule(engine):
    await engine.recurring(scheduleType="interval", everySeconds=1)


async def a_retry(engine):
    retry = {"strategy": "fixed", "baseSeconds": 0.5, "jitter": 0}
    await engine.submit(task="fails_once", maxRetries=1, retry=retry)


async def a_retry_in_some_seconds(engine):
    retry = {"strategy": "fixed", "baseSeconds": 2, "jitter": 0}
    await engine.submit(task="fails_once", maxRetries=1, retry=retry)


async def an_earlier_time(engine):
    answer = await engine.api.post("/v1/jobs", json=job(**due_in(3600)))
    moment = datetime.now(UTC) + timedelta(seconds=2)
    changed = await engine.api.put(f"/v1/jobs/{answer.json()['jobId']}", json={"scheduleTime": moment.isoformat()})
    assert changed.status_code == 200, changed.text


async def a_job_that_goes_on(engine):
    answer = await engine.api.post("/v1/jobs", json=job(**due_in(2)))
    for change in ("pause", "resume"):
        done = await engine.api.post(f"/v1/jobs/{answer.json()['jobId']}/{change}")
        assert done.status_code == 200, done.text


async def a_schedule_that_goes_on(engine):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=1)
    for change in ("pause", "resume"):
        assert (await engine.api.post(f"/v1/jobs/{job_id}/{change}")).status_code == 200


async def a_run_now(engine):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600)
    assert (await engine.api.post(f"/v1/jobs/{job_id}/run")).status_code == 202


async def a_run_with_a_key(engine):
    await engine.submit(orderingKey="ada", **due_in(2))


SOONER = [
    a_job_that_is_due_soon,
    a_schedule,
    a_retry,
    a_retry_in_some_seconds,
    an_earlier_time,
    a_job_that_goes_on,
    a_schedule_that_goes_on,
    a_run_now,
    a_run_with_a_key,
]


def failing_once():
    tried = []

    async def fails_once():
        tried.append(True)
        if len(tried) == 1:
            raise ValueError("not yet")

    return {"fails_once": fails_once}


@pytest.mark.parametrize("come_up", SOONER, ids=lambda one: one.__name__)
async def test_what_is_due_sooner_than_the_sleep_ends_is_done(engine, sql, monkeypatch, come_up):
    async with asleep(engine, monkeypatch, tasks=failing_once()):
        await come_up(engine)
        await eventually(lambda: count_successes(sql))


@pytest.mark.parametrize("sets", [None, False], ids=["as a set", "one by one"])
async def test_jobs_submitted_in_the_callers_transaction_end_the_sleep(engine, sql, monkeypatch, sets):
    async with asleep(engine, monkeypatch):
        moment = datetime.now(UTC) + timedelta(seconds=2)
        soon = OutgoingJob.of(BatchJobIn(name="soon", task="rota.echo", schedule_type="future", schedule_time=moment))
        known = KnownFunctions()
        known.sets = sets
        async with sql.transaction():
            await submit_within(sql, [soon, soon], Caller("default", "ada"), datetime.now(UTC), known)
        assert known.sets is (sets is None)
        await eventually(lambda: count_successes(sql))


@pytest.mark.parametrize("come_up", SOONER, ids=lambda one: one.__name__)
async def test_without_wake_ups_nothing_sleeps(engine, sql, come_up):
    scheduler = Scheduler(database=engine.database, listen_url=None, lease_seconds=3.0, blobs=engine.blobs)
    async with engine.running(scheduler, engine.worker(failing_once())):
        await eventually(lambda: scheduler.leases.owned)
        await scheduler.outlook.tick()
        assert not any(service.is_asleep for service in sleepers(scheduler))
        await come_up(engine)
        await eventually(lambda: count_successes(sql))


# The end of a sleep


async def test_a_sleep_ends_when_the_next_run_is_due(engine, sql, monkeypatch):
    await engine.submit(**due_in(5))
    async with asleep(engine, monkeypatch):
        await eventually(lambda: count_successes(sql))


async def test_a_sleep_ends_when_the_next_schedule_fires(engine, sql, monkeypatch):
    await engine.recurring(scheduleType="interval", everySeconds=9)
    async with asleep(engine, monkeypatch) as scheduler:
        await eventually(lambda: not scheduler.firer.is_asleep)
        await eventually(lambda: count_successes(sql))


async def test_what_no_wake_up_told_of_is_found_by_the_next_outlook(engine, sql, monkeypatch):
    await engine.submit(**due_in(3600))
    async with asleep(engine, monkeypatch) as scheduler:
        await sql.execute("UPDATE rota.upcoming_runs SET run_at = now()")
        await scheduler.outlook.tick()
        assert not scheduler.promoter.is_asleep
        await eventually(lambda: count_successes(sql))


async def test_an_outlook_that_can_not_hear_wake_ups_ends_every_sleep(engine, monkeypatch):
    async with asleep(engine, monkeypatch) as scheduler:
        monkeypatch.setattr(scheduler._listener, "connected", False)
        await scheduler.outlook.tick()
        assert not any(service.is_asleep for service in sleepers(scheduler))


async def test_an_answer_to_a_question_asked_before_the_wake_up_puts_nothing_to_sleep(engine):
    scheduler = await engine.leading()
    promoter = scheduler.promoter
    promoter.sleep(math.inf, known_at=-math.inf)
    assert not promoter.is_asleep, "taking the shards was a wake-up"
    promoter._roused_at = -math.inf
    promoter.sleep(FOR_EVER, known_at=0.0)
    assert promoter.is_asleep
    promoter.rouse()
    promoter.sleep(FOR_EVER, known_at=promoter._roused_at + 0.9)
    assert not promoter.is_asleep


async def test_a_scheduler_that_takes_shards_wakes_up(engine, sql, monkeypatch):
    """What is due on shards that were another's is not in its last outlook."""
    monkeypatch.setattr(outlook.Outlook, "interval_seconds", FOR_EVER)
    dead = engine.scheduler()
    await dead.leases.tick()
    heir = engine.scheduler()
    async with engine.running(heir, engine.worker()):
        await eventually(lambda: len(heir.leases.owned) == 64)
        await fall_asleep(heir)
        await sql.execute("UPDATE rota.shard_leases SET owner = NULL, epoch = epoch + 1")
        await eventually(lambda: not heir.promoter.is_asleep)


@pytest.fixture
def kept(database, time):
    """A lease keeper, its clock, and how often it said that what is due may have changed."""
    changes = []
    clock = DatabaseClock(time)
    keeper = LeaseKeeper(
        shards=Shards(database),
        scheduler_id=uuid4(),
        clock=clock,
        lease_seconds=3.0,
        on_change=lambda: changes.append(True),
        monotonic=time,
    )
    return keeper, clock, changes


async def test_a_beat_like_the_one_before_wakes_nothing(kept, time):
    keeper, _, changes = kept
    await keeper.tick()
    changes.clear()
    time.now += 0.001
    await keeper.tick()
    assert not changes


async def test_a_clock_that_jumps_wakes_everything(kept, time):
    keeper, clock, changes = kept
    await keeper.tick()
    changes.clear()
    time.now += 0.001
    clock._offset -= 3600
    clock._highest -= 3600
    await keeper.tick()
    assert changes


async def test_a_process_that_was_suspended_wakes_everything(kept, time):
    keeper, clock, changes = kept
    clock.observe = lambda **_measured: 0.0
    await keeper.tick()
    changes.clear()
    time.now += 2.0
    await keeper.tick()
    assert changes


# What it costs


async def test_an_idle_scheduler_asks_for_its_beat_and_little_else(engine, monkeypatch):
    asked = []
    fetch = engine.database.fetch

    async def noted(name, **parameters):
        asked.append(name)
        return await fetch(name, **parameters)

    async with asleep(engine, monkeypatch):
        monkeypatch.setattr(engine.database, "fetch", noted)
        await eventually(lambda: asked.count("beat_scheduler") >= 6)
    # By services that look every few seconds, or once a minute.
    rare = {"dead_rows", "versions_in_force", "logs_to_upload", "take_sample", "roll_up_minutes", "roll_up_hours"}
    of_others = {"beat_worker", "worker_signals", "claim", "claims_of_worker", "leave_worker", "leave_scheduler"}
    of_others |= {"changed_limits", "capped_pools", "database_time"}
    assert set(asked) <= {"beat_scheduler"} | rare | of_others
    assert all(asked.count(name) <= 2 for name in rare)
