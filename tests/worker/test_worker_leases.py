"""The worker's lease: what may begin under it, and what goes on when it was nearly lost."""

from __future__ import annotations

import threading
import time
from contextlib import asynccontextmanager

import pytest

from rota.errors import DatabaseUnavailableError
from support import eventually

LEASE_SECONDS = 20.0  # so long that a busy machine can't lose it


class Pause:
    """A monotonic clock that a test sets forward, as a pause of the process does."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.seconds


@asynccontextmanager
async def silence(worker, broker, pause):
    """The database doesn't answer and most of the lease passes; at the end it answers again."""

    async def unanswered(**_details):
        raise DatabaseUnavailableError("cut")

    beat, broker.beat = broker.beat, unanswered
    pause.seconds += 0.65 * LEASE_SECONDS
    await eventually(lambda: worker.lease.cut_off)
    yield
    broker.beat = beat
    worker.heartbeat.wake()
    await eventually(lambda: not worker.lease.cut_off)


class Deaf:
    """A function in a thread that doesn't look whether it is asked to stop."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.free = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        self.free.wait(60)
        return "done"


@pytest.fixture
async def cut_off(engine):
    """A worker with a deaf function, which was cut off for a while."""
    deaf, pause = Deaf(), Pause()

    @asynccontextmanager
    async def make(seconds=0.0, **fields):
        run_id = await engine.submit(task="deaf", maxRetries=0, **fields)
        broker = engine.broker(lease_seconds=LEASE_SECONDS)
        worker = engine.worker({"deaf": deaf}, broker=broker, monotonic=pause, grace_seconds=0.2)
        async with engine.running(worker):
            await eventually(deaf.begun.is_set)
            began = time.monotonic()
            async with silence(worker, broker, pause):
                await eventually(lambda: time.monotonic() > began + seconds)
            yield run_id, worker
            deaf.free.set()

    make.deaf = deaf
    yield make
    deaf.free.set()


async def test_a_run_that_outlives_a_cut_off_can_be_cancelled(engine, cut_off):
    async with cut_off() as (run_id, worker):
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        run = await engine.until(run_id, "cancelled")
        assert "may still be running" in run["error"]
        assert worker.slots.occupied == 0


async def test_a_run_that_outlives_a_cut_off_can_be_timed_out(engine, cut_off):
    async with cut_off(timeoutSeconds=4) as (run_id, _):
        run = await engine.until(run_id, "failed")
        assert run["error"].startswith("timed out after 4 s")


async def test_a_run_whose_time_was_over_during_a_cut_off_is_timed_out_afterwards(engine, cut_off):
    async with cut_off(seconds=2.5, timeoutSeconds=2) as (run_id, _):
        run = await engine.until(run_id, "failed")
        assert run["error"].startswith("timed out")


async def test_a_run_that_outlives_a_cut_off_goes_on_under_its_claim(engine, cut_off):
    async with cut_off() as (run_id, _):
        cut_off.deaf.free.set()
        run = await engine.until(run_id, "success", "failed")
        assert (run["status"], run["result"], run["attempt"]) == ("success", "done", 1)


async def test_a_run_that_another_worker_may_have_leaves_its_slot_when_it_does_not_stop(engine, sql):
    deaf = Deaf()
    await engine.submit(task="deaf", maxRetries=5)
    worker = engine.worker({"deaf": deaf}, broker=engine.broker(lease_seconds=LEASE_SECONDS), grace_seconds=0.2)
    async with engine.running(worker):
        await eventually(deaf.begun.is_set)
        (claim,) = worker.slots.running
        await sql.execute("UPDATE rota.workers SET gone_at = now(), gone_why = 'worker lost'")
        worker.heartbeat.wake()
        await eventually(lambda: worker.has_abandoned_runs)
        await eventually(lambda: claim not in worker.slots.held)
        deaf.free.set()


async def test_what_waits_for_a_thread_does_not_begin_when_the_lease_is_over(engine):
    """A process that was paused wakes up in any of its threads, before the event loop has noticed anything."""
    pause, begun = Pause(), []
    holds = [Deaf() for _ in range(4)]
    tasks = {f"hold{number}": hold for number, hold in enumerate(holds)} | {"late": lambda: begun.append(True)}
    broker = engine.broker(lease_seconds=LEASE_SECONDS)
    worker = engine.worker(tasks, broker=broker, monotonic=pause)
    for number in range(4):
        await engine.submit(task=f"hold{number}")
    async with engine.running(worker):
        await eventually(lambda: all(hold.begun.is_set() for hold in holds))
        run_id = await engine.submit(task="late", maxRetries=0)
        await eventually(lambda: len(worker.slots.running) == 5)
        pause.seconds += LEASE_SECONDS
        # The event loop stands still, as it does after a pause, while a thread becomes free and takes the next call.
        for hold in holds:
            hold.free.set()
        time.sleep(0.3)  # noqa: ASYNC251 - it stands still
        assert not begun
        # Its claim was never lost here, so it is given back, uncharged, and starts again once the lease is kept.
        run = await engine.until(run_id, "success")
        assert (run["attempt"], begun) == (1, [True])


async def test_what_the_event_loop_was_about_to_begin_does_not_begin_when_the_lease_is_over(engine):
    pause, begun = Pause(), []

    async def late():
        begun.append(worker.lease.silence)

    worker = engine.worker({"late": late}, broker=engine.broker(lease_seconds=LEASE_SECONDS), monotonic=pause)
    start = worker.slots.executor.start

    def start_and_pause(claim):
        start(claim)
        pause.seconds += LEASE_SECONDS
        worker.slots.executor.start = start

    worker.slots.executor.start = start_and_pause
    async with engine.running(worker):
        run_id = await engine.submit(task="late", maxRetries=0)
        await engine.until(run_id, "success")
    assert len(begun) == 1
    assert begun[0] < 0.6
