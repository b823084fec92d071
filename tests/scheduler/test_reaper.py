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


# Beats that the scheduler's own beat brings along


class Counted:
    """Counts looks of the watch's own."""

    def __init__(self, workers):
        self._workers = workers
        self.looks = 0

    async def watched(self):
        self.looks += 1
        return await self._workers.watched()

    async def give_up(self, *details):
        return await self._workers.give_up(*details)


async def test_a_watch_that_hears_of_every_beat_asks_nothing(engine, time):
    broker = engine.broker()
    await engine.join(broker)
    workers = Counted(engine.lost_workers)
    watch = WorkerWatch(workers=workers, monotonic=time)
    for _ in range(12):
        await broker.beat(busy=0, fenced=0, draining=False)
        watch.hear(await engine.lost_workers.watched())
        assert await watch.tick() == 0
        time.now += 0.5
    assert workers.looks == 0


async def test_a_worker_that_is_late_is_looked_at_closely_and_given_up_after_its_lease(engine, time):
    await dead_worker(engine)
    workers = Counted(engine.lost_workers)
    watch = WorkerWatch(workers=workers, monotonic=time)
    silent = 0.0
    watch.hear(await engine.lost_workers.watched())
    while silent < 4.75:
        time.now += 0.25
        silent += 0.25
        if silent % 0.5 == 0:
            watch.hear(await engine.lost_workers.watched())
        assert await watch.tick() == 0
    assert workers.looks > 0
    assert watch.pause_seconds == 0.25
    time.now += 0.25
    assert await watch.tick() == 1


async def test_a_watch_that_hears_nothing_looks_for_itself(engine, time, sql):
    """The connection of the beat can hang, and a scheduler with a long lease beats rarely."""
    await dead_worker(engine)
    watch = WorkerWatch(workers=engine.lost_workers, monotonic=time)
    watch.hear(await engine.lost_workers.watched())
    for _ in range(6):
        time.now += 0.9
        given_up = await watch.tick()
    assert given_up == 1


async def test_a_beat_of_a_scheduler_tells_of_the_workers(engine):
    scheduler = await engine.leading()
    worker_id = await engine.join(engine.broker())
    heard = []
    scheduler.worker_watch.hear = heard.append
    await scheduler.leases.tick()
    assert [worker.id for worker in heard[0]] == [worker_id]
