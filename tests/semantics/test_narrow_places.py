"""Narrow places of the hot path: what happens when something comes late, twice, or at the worst moment."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import time
import weakref
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

import rota.store.postgres.database as databases
from engine import report
from rota.clock import DatabaseClock
from rota.domain.run import LOOKAHEAD, SUCCESS, Claim, Progress, Report
from rota.errors import DatabaseUnavailableError
from rota.gateway import group_commit
from rota.store.postgres.scan_positions import FullScanBudget
from rota.task.context import Context
from rota.worker.runners.function import FunctionRunner
from support import eventually, in_time, patience


async def test_a_lock_on_the_runs_does_not_stop_a_workers_heart(engine, database_url):
    release = asyncio.Event()
    run_id = await engine.submit(task="hold")
    lease = patience()  # a worker that gets no turn for so long would lose it without any lock
    worker = engine.worker({"hold": release.wait}, broker=engine.broker(lease_seconds=lease))
    async with engine.running(worker):
        await eventually(lambda: worker.slots.running)
        other = await asyncpg.connect(database_url)
        await other.execute("BEGIN; LOCK TABLE rota.live_runs IN ACCESS EXCLUSIVE MODE")
        for _ in range(40):
            await asyncio.sleep(lease / 20)
            assert not worker.lease.cut_off
        await other.execute("ROLLBACK")
        await other.close()
        release.set()
        run = await engine.until(run_id, "success")
        assert run["attempts"] == []


async def test_leaving_waits_for_a_claim_that_is_still_being_carried_out(engine, database_url):
    run_id = await engine.submit()
    broker = engine.broker()
    worker_id = await engine.join(broker)
    other = await asyncpg.connect(database_url)
    await other.execute("BEGIN")
    lanes = broker._lanes["default", "default"]
    assert await databases.Statements(other).fetch(
        "claim",
        worker_id=worker_id,
        lanes=lanes,
        begin_at=[float("-inf")] * len(lanes),
        room=10,
        lookahead=LOOKAHEAD,
        portion=10,
    )
    leaving = asyncio.create_task(broker.leave())
    scheduler = await engine.leading()
    await scheduler.sweeper.tick()
    assert not leaving.done()
    await other.execute("COMMIT")
    await other.close()
    await leaving
    await scheduler.sweeper.tick()
    await scheduler.reaper.tick()
    assert (await engine.run(run_id))["status"] == "queued"


async def test_a_claim_answered_after_its_worker_was_given_up_is_not_started(engine, sql):
    started = []

    async def long():
        started.append(time.monotonic())
        await asyncio.sleep(1)

    broker = engine.broker(lease_seconds=1.0)
    worker = engine.worker({"long": long}, broker=broker)
    claim, answered, arrived = broker._claims.claim, asyncio.Event(), asyncio.Event()

    async def slow_answer(*arguments):
        claims = await claim(*arguments)
        if claims and not arrived.is_set():
            arrived.set()
            await answered.wait()
        return claims

    broker._claims.claim = slow_answer
    async with engine.running(worker):
        await eventually(lambda: worker.id)
        await engine.submit(task="long", maxRetries=5)
        await in_time(arrived.wait())
        old = worker.id
        given_up = False
        while not given_up:
            beat = await sql.fetchval("SELECT beat FROM rota.workers WHERE id = $1", old)
            given_up = await engine.lost_workers.give_up(old, beat, "worker lost")
        await (await engine.leading()).reaper.tick()
        await eventually(lambda: worker.id != old)
        other = engine.broker()
        await engine.join(other, "long")
        (claimed,) = await other.claim(10)
        answered.set()
        await asyncio.sleep(0.3)
        assert started == []
        await other.report([report(claimed)])


async def test_a_statement_on_a_backend_that_hangs_comes_back_at_its_limit(database_url, sql, monkeypatch):
    monkeypatch.setattr(databases, "STATEMENT_SECONDS", 1.0)
    database = await databases.Database.connect(database_url, size=1, name="hangs")
    await database.fetch("database_time")
    pid = await sql.fetchval("SELECT pid FROM pg_stat_activity WHERE application_name = 'hangs'")
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(DatabaseUnavailableError):
            await in_time(database.fetch("database_time"), 1.9)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert await database.fetch("database_time")
    await database.close()


async def test_starts_and_reports_of_the_same_runs_do_not_deadlock(engine, sql):
    items = [{"name": "t", "scheduleType": "immediate", "task": "rota.echo"}] * 3000
    assert (await engine.api.post("/v1/jobs/batch", json=items)).status_code == 200
    broker = engine.broker()
    await engine.join(broker)
    claims = sorted(await broker.claim(3000), key=lambda claim: claim.run_id)
    for first in range(0, 3000, 200):
        some = claims[first : first + 200]
        notes = [Progress(claim, time.time(), None, None) for claim in some]
        random.shuffle(notes)
        successes = [Report(claim, SUCCESS, time.time(), time.time()) for claim in some]
        await asyncio.gather(engine.reports.update(notes), engine.reports.record(successes))
    await sql.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
    assert await sql.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


async def test_a_run_that_started_and_was_lost_is_charged_even_if_the_clock_went_back(engine, sql):
    run_id = await engine.submit(maxRetries=0)
    broker = engine.broker()
    await engine.join(broker)
    await broker.claim(1)
    await sql.execute("UPDATE rota.live_runs SET started_at = now(), ready_at = ready_at + interval '1 hour'")
    await sql.execute("UPDATE rota.workers SET gone_at = now(), gone_why = 'worker lost'")
    await (await engine.leading()).reaper.tick()
    assert (await engine.run(run_id))["status"] == "failed"


async def test_nothing_starts_early_when_the_first_beat_is_lost_and_the_clock_is_ahead(engine):
    started = []

    async def note_time():
        started.append(time.time())

    broker = engine.broker(lease_seconds=2.0)
    beat, lost = broker.beat, []

    async def lose_the_first(**words):
        if not lost:
            lost.append(True)
            raise DatabaseUnavailableError("lost")
        return await beat(**words)

    broker.beat = lose_the_first
    clock = DatabaseClock()
    clock._offset += 5
    due = datetime.now(UTC) + timedelta(seconds=0.9)
    await engine.submit(task="note", scheduleType="future", scheduleTime=due.isoformat())
    async with engine.running(engine.worker({"note": note_time}, broker=broker, clock=clock)):
        await eventually(lambda: started)
    assert started[0] >= due.timestamp()


async def test_jobs_that_were_read_and_not_fired_are_read_again(engine, sql):
    for _ in range(2):
        await engine.recurring(scheduleType="cron", cronExpression="* * * * * *")
    scheduler = await engine.leading()
    await sql.execute(
        "UPDATE rota.jobs SET shard = 1, next_fire_at = date_trunc('second', now()) - interval '20 s', "
        "fired_through = date_trunc('second', now()) - interval '21 s'"
    )
    schedules = scheduler.firer._schedules
    schedules._fired._looks._not_before = float("inf")
    fetch, failed = schedules._database.fetch, []

    async def fail_once(name, /, **options):
        if name == "fire" and not failed:
            failed.append(True)
            raise DatabaseUnavailableError("cut")
        return await fetch(name, **options)

    schedules._database.fetch = fail_once
    try:
        with pytest.raises(DatabaseUnavailableError):
            await scheduler.firer.tick()
        await scheduler.firer.tick()
    finally:
        schedules._database.fetch = fetch
    assert await sql.fetchval("SELECT count(*) FROM rota.jobs WHERE next_fire_at < now()") == 0


async def test_what_becomes_due_soon_is_not_hidden_by_what_was_promoted_ahead(engine, sql):
    scheduler = await engine.leading()
    soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    ahead = await engine.submit(scheduleType="future", scheduleTime=soon)
    await sql.execute("UPDATE rota.upcoming_runs SET shard = 1, run_at = now() + interval '0.95 s'")
    await scheduler.promoter.tick()
    assert (await engine.run(ahead))["status"] == "queued"
    scheduler.promoter._promotions._promoted._looks._not_before = float("inf")
    late = await engine.submit(scheduleType="future", scheduleTime=soon)
    await sql.execute("UPDATE rota.upcoming_runs SET shard = 1, run_at = now() + interval '0.1 s'")
    await scheduler.promoter.tick()
    assert (await engine.run(late))["status"] == "queued"


def test_what_was_taken_does_not_count_as_the_price_of_looking():
    now = [0.0]
    looks = FullScanBudget(lambda: now[0])

    def look(around, seconds, rows):
        with around(lambda: rows):
            now[0] += seconds

    for _ in range(30):
        look(looks.compared, 0.05, 1000)
    for _ in range(3):
        look(looks.measured, 0.05, 1000)
    assert looks._not_before - now[0] < 0.1
    for _ in range(3):
        look(looks.compared, 0.05, 1000)
        look(looks.measured, 1.05, 1000)
    assert 4 < looks._not_before - now[0] < 6


async def test_the_error_of_a_function_in_a_thread_lets_go_of_what_the_function_held():
    class Big:
        pass

    kept = []

    def fail():
        big = Big()
        kept.append(weakref.ref(big))
        raise ValueError("no")

    runner = FunctionRunner({"fail": fail}, threads=1)
    now = time.time()
    context = Context(Claim("default", uuid4(), uuid4(), 1, "fail", 0, None, None, "{}", None, now, now, 0, 0))
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            # Not with pytest.raises: it keeps the error.
            with suppress(ValueError):
                await runner.run("fail", {}, context)
        assert sum(reference() is not None for reference in kept) <= 1
    finally:
        gc.enable()


async def test_a_batch_that_repeats_one_key_ten_thousand_times_is_one_job(engine, sql, monkeypatch):
    chunks = []
    monkeypatch.setattr(group_commit, "_Chunk", _counted(group_commit._Chunk, chunks))
    item = {"name": "t", "scheduleType": "immediate", "task": "rota.echo", "idempotencyKey": "one"}
    answer = await engine.api.post("/v1/jobs/batch", json=[*[item] * 9999, {**item, "name": "other"}])
    results = answer.json()["results"]
    assert len({result["jobId"] for result in results[:9999]}) == 1
    assert results[9999]["error"]["status"] == 422
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
    assert len(chunks) == 1


def _counted(kind, made):
    def make(items):
        made.append(kind(items))
        return made[-1]

    return make


async def test_a_far_month_that_has_a_day_already_gets_days(engine, sql):
    far = (datetime.now(UTC) + timedelta(days=75)).replace(day=15, hour=12)
    for parent in ("finished_runs", "attempts"):
        await sql.execute(f"CREATE TABLE rota.{parent}_{far:%Y%m%d} (LIKE rota.{parent} INCLUDING ALL)")
        await sql.execute(
            f"ALTER TABLE rota.{parent} ATTACH PARTITION rota.{parent}_{far:%Y%m%d} "
            f"FOR VALUES FROM (rota.id_floor('{far:%Y-%m-%d}Z')) "
            f"TO (rota.id_floor('{far + timedelta(days=1):%Y-%m-%d}Z'))"
        )
    run_id = await engine.submit(scheduleType="future", scheduleTime=(far + timedelta(days=3)).isoformat())
    assert (await engine.api.post(f"/v1/runs/{run_id}/cancel")).status_code == 202
    assert (await engine.run(run_id))["status"] == "cancelled"
