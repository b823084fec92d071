"""What a worker holds: room, prefetch, hoarding, cut off, given up."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from rota.errors import DatabaseUnavailableError
from support import eventually, patience


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
        for _ in range(10):
            await asyncio.sleep(0.03)
            assert await claimed() <= 3

        async def all_slots():
            return await claimed() == 3

        await eventually(all_slots)
        release.set()

        async def all_done():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == 20

        await eventually(all_done)


async def test_what_was_prefetched_and_finds_no_slot_goes_to_a_worker_that_has_one(engine, sql):
    release = asyncio.Event()

    async def turn(wait: bool = False):
        if wait:
            await release.wait()

    async def done(count):
        return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == count

    for _ in range(60):
        await engine.submit(task="turn")
    busy = engine.worker({"turn": turn}, slots=2)
    async with engine.running(busy):
        await eventually(lambda: done(60))
        busy.slots._mean_seconds = min(busy.slots._mean_seconds, 0.01)  # a busy machine may have taken longer over them
        assert busy.slots.prefetch() > 0, "runs are short: some are fetched ahead"
        for _ in range(2):
            await engine.submit(task="turn", payload={"wait": True})
        await eventually(lambda: len(busy.slots.running) == 2)
        for _ in range(40):
            await engine.submit(task="turn")
        async with engine.running(engine.worker({"turn": turn})):
            await eventually(lambda: done(100))
        assert await sql.fetchval("SELECT max(attempt) FROM rota.finished_runs") == 1
        release.set()


async def test_a_task_that_says_nonsense_about_its_progress_harms_nobody(engine):
    async def odd(context):
        context.progress(0.5, "a\x00b\ud800")
        await asyncio.sleep(2.5)

    odd.__annotations__["context"] = "rota.Context"
    beside = await engine.submit(task="rota.sleep", payload={"seconds": 2.5}, maxRetries=0)
    run_id = await engine.submit(task="odd", maxRetries=0)
    async with engine.running(engine.worker({"odd": odd})):
        await engine.until(run_id, "success")
        await engine.until(beside, "success")


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("can't be told")


@pytest.mark.parametrize(
    "kind", [asyncio.CancelledError, SystemExit, StopIteration, KeyboardInterrupt, UnspeakableError]
)
@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_whatever_a_task_raises_is_a_failed_attempt_and_no_more(engine, kind, colour):
    starts = 0

    def odd():
        nonlocal starts
        starts += 1
        raise kind

    async def odd_async():
        odd()

    run_id = await engine.submit(task="odd", maxRetries=1, retry={"strategy": "fixed", "baseSeconds": 0.01})
    worker = engine.worker({"odd": odd if colour == "sync" else odd_async})
    async with engine.running(engine.scheduler(), worker):
        run = await engine.until(run_id, "failed")
        assert await engine.until(await engine.submit(), "success"), "the worker lives on"
    assert starts == 2
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["failed", "failed"]


async def test_a_stream_of_work_does_not_keep_a_worker_from_hearing_a_cancel(engine, sql):
    broker = engine.broker()
    run_id = await engine.submit(task="rota.sleep", payload={"seconds": 30})
    worker = engine.worker(broker=broker)
    async with engine.running(worker):
        await eventually(lambda: worker.slots.running)

        async def stream():
            while True:
                broker._heard("rota_ready", "default")
                await asyncio.sleep(0.05)

        streaming = asyncio.create_task(stream())
        # The hint is lost: nobody is told, the row alone says it.
        await sql.execute("UPDATE rota.live_runs SET cancel_requested_at = now()")
        await engine.until(run_id, "cancelled")
        streaming.cancel()


async def test_a_beat_whose_backend_hangs_comes_back_well_within_the_lease(engine, sql):
    broker = engine.broker(lease_seconds=5 * patience())
    await engine.join(broker)
    assert await broker.beat(busy=0, fenced=0, draining=False)
    rows = await sql.fetch(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'rota' AND datname = current_database()"
    )
    for row in rows:
        os.kill(row["pid"], signal.SIGSTOP)
    try:
        with pytest.raises(DatabaseUnavailableError):
            await asyncio.wait_for(broker.beat(busy=0, fenced=0, draining=False), broker.lease_seconds)
    finally:
        for row in rows:
            os.kill(row["pid"], signal.SIGCONT)


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
        while not await engine.lost_workers.give_up(old, beat, "worker lost"):
            beat = await sql.fetchval("SELECT beat FROM rota.workers WHERE id = $1", old)
        scheduler = await engine.leading()
        await scheduler.reaper.tick()
        await eventually(lambda: worker.id != old)
        await eventually(lambda: worker.slots.reporter.fenced >= 1)
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
        await eventually(lambda: worker.slots.running)

        async def silence(**_details):
            raise DatabaseUnavailableError("cut")

        beat, broker.beat = broker.beat, silence
        await eventually(lambda: left)
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
