"""A time limit raises TimeoutError, also in a task that is being cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import rota
from rota.time_limits import OwnTimeLimit, time_limit

LIMITS = pytest.mark.parametrize("limit", [time_limit, OwnTimeLimit])


@LIMITS
async def test_what_takes_longer_is_ended(limit):
    with pytest.raises(TimeoutError):
        async with limit(0.01):
            await asyncio.sleep(3600)
    assert asyncio.current_task().cancelling() == 0


@LIMITS
@pytest.mark.parametrize("seconds", [None, 3600])
async def test_what_does_not_is_left_alone(limit, seconds):
    async with limit(seconds):
        await asyncio.sleep(0)
    with pytest.raises(KeyError):
        async with limit(seconds):
            raise KeyError


@LIMITS
async def test_a_task_that_is_being_cancelled_cleans_up_within_its_limit(limit):
    ended = []

    async def work():
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            try:
                async with limit(0.01):
                    await asyncio.sleep(3600)
            except TimeoutError:
                ended.append("in time")
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["in time"]


@LIMITS
async def test_a_cancellation_from_outside_stays_one(limit):
    async def work():
        async with limit(3600):
            await asyncio.sleep(3600)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_nothing_uses_the_timeouts_of_asyncio_beside_it():
    files = [file for file in Path(rota.__file__).parent.rglob("*.py") if file.name != "time_limits.py"]
    assert [file.name for file in files if "asyncio.timeout" in file.read_text()] == []
