"""Lost workers: noticed after a whole lease, and what holds up one run or one worker doesn't hold up the others."""

from __future__ import annotations

import pytest

from rota.scheduler.worker_watch import WorkerWatch
from support import eventually, in_time

SOON_SECONDS = 5  # much less than the database would let a statement wait


@pytest.fixture
def watch(engine, time):
    return WorkerWatch(workers=engine.lost_workers, monotonic=time)


async def dead_worker(engine, runs=1, **options):
    """A worker that claims, and is not heard of again."""
    broker = engine.broker(**options)
    worker_id = await engine.join(broker)
    for _ in range(runs):
        await engine.submit()
    return worker_id, await broker.claim(runs)


async def test_after_an_outage_a_whole_lease_passes_before_a_worker_is_given_up(engine, watch, time, sql):
    await dead_worker(engine)
    await watch.tick()
    time.now += 60  # no worker could beat, and no scheduler could look
    for _ in range(9):
        assert await watch.tick() == 0
        time.now += 0.5
    time.now += 1
    assert await watch.tick() == 1
    assert await sql.fetchval("SELECT gone_why FROM rota.workers") == "worker lost"


async def test_a_run_that_a_transaction_holds_does_not_hold_up_the_others(engine, sql):
    """A worker that is paused inside the transaction of a task keeps the lock on its run."""
    scheduler = await engine.leading()
    worker_id, claims = await dead_worker(engine, runs=3)
    await engine.lost_workers.give_up(worker_id, 0, "worker lost")
    async with sql.transaction():
        await sql.fetch("SELECT FROM rota.live_runs WHERE id = $1 FOR UPDATE", claims[0].run_id)
        assert await in_time(scheduler.reaper.tick(), SOON_SECONDS) == 2
    assert await scheduler.reaper.tick() == 1
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs WHERE worker_id IS NULL") == 3


async def test_a_worker_whose_row_is_held_does_not_hold_up_the_others(engine, watch, time, sql):
    """A claim under way holds the row of its worker until the answer has been sent, and a paused worker reads none."""
    held, _ = await dead_worker(engine)
    await dead_worker(engine)
    for _ in range(6):
        await watch.tick()
        time.now += 0.9
    async with sql.transaction():
        await sql.fetch("SELECT FROM rota.workers WHERE id = $1 FOR KEY SHARE", held)
        assert await in_time(watch.tick(), SOON_SECONDS) == 1
    assert await watch.tick() == 1
    assert await sql.fetchval("SELECT count(*) FROM rota.workers WHERE gone_at IS NOT NULL") == 2


async def test_a_worker_is_given_up_while_the_runs_of_another_are_being_settled(engine, sql):
    """If the watch stood still meanwhile, it would have to begin its observation again."""
    first, _ = await dead_worker(engine, lease_seconds=1.0)
    await engine.lost_workers.give_up(first, 0, "worker lost")

    async def settles():
        return await sql.fetchval(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'rota.attempts'::regclass"
        )

    async def is_gone():
        return await sql.fetchval("SELECT gone_at FROM rota.workers WHERE id = $1", second)

    async with engine.running(engine.scheduler()), sql.transaction():
        await sql.execute("LOCK TABLE rota.attempts IN EXCLUSIVE MODE")
        await eventually(settles)
        second, _ = await dead_worker(engine, lease_seconds=1.0)
        await eventually(is_gone)
