"""What a worker holds: room, prefetch, hoarding, cut off, given up."""

from __future__ import annotations

import asyncio
import threading

from rota.errors import DatabaseUnavailableError
from support import eventually


async def test_a_worker_claims_no_more_than_it_can_start_of_long_runs(engine, sql):
    release = asyncio.Event()

    async def long():
        await release.wait()

    for _ in range(20):
        await engine.submit(task="long")
    async with engine.running(engine.worker({"long": long}, slots=3)):

        async def claimed():
            return await sql.fetchval("SELECT count(*) FROM rota.live_runs WHERE worker_id IS NOT NULL")

        await eventually(claimed)
        await asyncio.sleep(0.3)
        assert await claimed() == 3
        release.set()

        async def all_done():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == 20

        await eventually(all_done)


async def test_short_runs_are_prefetched_and_what_finds_no_slot_is_given_back(engine, sql):
    release = asyncio.Event()

    async def turn(wait: bool = False):
        if wait:
            await release.wait()

    for _ in range(50):
        await engine.submit(task="turn")
    worker = engine.worker({"turn": turn}, slots=2)
    async with engine.running(worker):

        async def done(count):
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == count

        await eventually(lambda: done(50))
        assert worker._prefetch() > 0
        for _ in range(30):
            await engine.submit(task="turn", payload={"wait": True})
        await eventually(lambda: len(worker._running) == 2)
        hoarded = await eventually(lambda: len(worker._ready))
        assert hoarded
        # Runs turn out to be long: what is due and waits here is let go for others.
        worker._mean_seconds = 10.0
        await eventually(lambda: not worker._ready)

        async def free():
            return await sql.fetchval("SELECT count(*) FROM rota.live_runs WHERE worker_id IS NULL") == 28

        await eventually(free)
        assert await sql.fetchval("SELECT max(attempt) FROM rota.live_runs") == 0
        release.set()
        await eventually(lambda: done(80))


async def test_a_worker_that_was_given_up_stops_everything_and_comes_back_as_another(engine, sql):
    started = asyncio.Event()

    async def long():
        started.set()
        await asyncio.sleep(60)

    run_id = await engine.submit(task="long", maxRetries=5)
    worker = engine.worker({"long": long}, broker=engine.broker(lease_seconds=1.0))
    async with engine.running(worker):
        await started.wait()
        old = worker.id
        beat = await sql.fetchval("SELECT beat FROM rota.workers WHERE id = $1", old)
        while not await engine.workers.give_up(old, beat, "worker lost"):
            beat = await sql.fetchval("SELECT beat FROM rota.workers WHERE id = $1", old)
        scheduler = await engine.leading()
        await scheduler.reaper.tick()
        await eventually(lambda: worker.id != old)
        await eventually(lambda: worker._reporter.fenced >= 1)
        run = await engine.until(run_id, "running")
        assert (run["attempt"], run["executorId"]) == (2, str(worker.id))
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        await engine.until(run_id, "cancelled")


async def test_a_function_in_a_thread_that_does_not_stop_takes_the_process_down_before_the_lease_ends(engine):
    left: list[int] = []
    ended = threading.Event()

    def stubborn():
        ended.wait(30)

    await engine.submit(task="stubborn")
    broker = engine.broker(lease_seconds=1.0)
    worker = engine.worker({"stubborn": stubborn}, broker=broker, leave_process=left.append)
    async with engine.running(worker):
        await eventually(lambda: worker._running)

        async def silence(**_details):
            raise DatabaseUnavailableError("cut")

        beat, broker.beat = broker.beat, silence
        await eventually(lambda: left, within=10)
        broker.beat = beat
        ended.set()
    assert left[0] == 70


async def test_a_synchronous_function_runs_beside_the_event_loop(engine):
    def count(context, upto: int) -> dict[str, object]:
        return {"sum": sum(range(upto)), "thread": threading.current_thread().name, "attempt": context.attempt}

    count.__annotations__["context"] = "rota.Context"
    run_id = await engine.submit(task="count", payload={"upto": 1000})
    async with engine.running(engine.worker({"count": count})):
        run = await engine.until(run_id, "success")
    assert run["result"]["sum"] == 499500
    assert run["result"]["thread"].startswith("rota-task")
