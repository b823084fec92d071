"""Faults in the parts of a worker, and in stopping a process, that no loop guards."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from rota.processes import run_until_stopped
from rota.service import ServiceGroup
from rota.worker.watchdog import Watchdog
from support import eventually, in_time


async def test_the_watchdog_survives_a_look_that_fails():
    """Without its thread nothing would end a process whose lease is over."""
    looks, left = [], []

    def must_leave():
        looks.append(True)
        if len(looks) < 3:
            raise ValueError("a fault of ours")
        return True

    async with ServiceGroup([Watchdog(must_leave=must_leave, leave=lambda: left.append(True))]):
        await eventually(lambda: left)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_worker_that_cannot_leave_in_good_order_ends_all_the_same(engine, restarts):
    broker = engine.broker()

    async def leave():
        raise ValueError("a fault of ours")

    broker.leave = leave
    worker = engine.worker(broker=broker)
    running = asyncio.create_task(worker.run())
    await eventually(lambda: worker.id)
    if restarts:
        worker._restart("a test wants it")
    else:
        await worker.drain()
    await in_time(running)


async def test_a_callback_that_fails_costs_no_slot(engine):
    def on_failure(_report):
        raise ValueError("a fault of ours")

    async def fail():
        raise ValueError("of the task")

    async with engine.running(engine.worker({"fail": fail}, slots=1, on_failure=on_failure)):
        for _ in range(3):
            await engine.until(await engine.submit(task="fail", maxRetries=0), "failed")


async def test_a_process_that_cannot_be_stopped_in_order_ends_all_the_same():
    async def stop():
        raise ValueError("a fault of ours")

    running = asyncio.create_task(run_until_stopped(asyncio.Event().wait(), on_stop=stop))
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await in_time(running)
