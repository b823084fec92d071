"""The kit does the same in the same order each time, and says nothing that its clock does not say."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

import rota

app = rota.App("kit-order")
other = rota.App("kit-order-too")
done: list[str] = []
SOON = rota.Retry(strategy="fixed", base_seconds=0.5, jitter=0)


@app.task(name="on_the_loop")
async def on_the_loop(name: str, seconds: float = 0) -> None:
    await asyncio.sleep(seconds)
    done.append(name)


@app.task(name="in_a_thread")
def in_a_thread(name: str, seconds: float = 0) -> None:
    time.sleep(seconds)
    done.append(name)


@app.task(name="waits")
async def waits(name: str) -> None:
    await (await in_a_thread.submit(f"for {name}")).result(timeout=60)
    done.append(name)


@app.task(name="cancels")
async def cancels(run_id: str, context: rota.Context) -> None:
    await context.gateway.cancel(run_id)
    done.append("cancelled another")


@other.task(name="elsewhere")
async def elsewhere(name: str) -> None:
    done.append(name)


@app.task(name="stumbles", retries=2, retry=SOON)
async def stumbles(context: rota.Context) -> int:
    if context.attempt < 3:
        raise ConnectionError("away")
    return context.attempt


@pytest.fixture
def rota_app():
    done.clear()
    return app


@pytest.mark.parametrize("task", [on_the_loop, in_a_thread], ids=lambda task: task.name)
async def test_runs_of_one_moment_come_one_after_the_other_however_long_each_takes(rota_kit, task):
    names = ["first", "second", "third", "fourth"]
    for name, seconds in zip(names, (0.15, 0.1, 0.05, 0), strict=True):
        await task.submit(name, seconds)
    ended = await rota_kit.run_until_idle()
    assert done == names
    assert [run.arguments["name"] for run in ended] == names


async def test_priority_comes_before_the_order_of_submission(rota_kit):
    for number in range(3):
        await in_a_thread.with_options(priority="low").submit(f"low {number}")
        await on_the_loop.submit(f"normal {number}")
        await in_a_thread.with_options(priority="high").submit(f"high {number}")
    ended = await rota_kit.run_until_idle()
    expected = [f"{priority} {number}" for priority in ("high", "normal", "low") for number in range(3)]
    assert done == expected
    assert [run.arguments["name"] for run in ended] == expected
    assert [run.arguments["name"] for run in await rota_kit.runs()] == expected


async def test_however_many_are_due_they_come_in_order(rota_kit):
    levels = ["low", "high"] * 130
    for number, priority in enumerate(levels):
        await on_the_loop.with_options(priority=priority).submit(f"{priority} {number}")
    await rota_kit.run_until_idle()
    expected = [(level, number) for level in ("high", "low") for number in range(260) if levels[number] == level]
    assert done == [f"{level} {number}" for level, number in expected]


async def test_runs_of_several_applications_come_in_the_order_of_their_submission(rota_kit):
    await rota_kit.use(other)
    names = [f"run {number}" for number in range(6)]
    for number, name in enumerate(names):
        await (elsewhere if number % 2 else on_the_loop).submit(name)
    ended = await rota_kit.run_until_idle()
    assert done == names
    assert [run.arguments["name"] for run in ended] == names


async def test_a_due_run_that_is_cancelled_by_one_before_it_does_not_run(rota_kit):
    late = await on_the_loop.with_options(priority="low").submit("late")
    await cancels.submit(late.id)
    await on_the_loop.submit("third")
    await rota_kit.run_until_idle(raise_errors=True)
    assert done == ["cancelled another", "third"]
    assert await late.status() == "cancelled"


async def test_schedules_of_one_moment_come_in_the_order_of_their_submission(rota_kit):
    names = [f"schedule {number}" for number in range(8)]
    for name in names:
        await in_a_thread.cron("0 * * * *").submit(name)
    ended = await rota_kit.advance(hours=2)
    assert done == names * 2
    assert [run.arguments["name"] for run in ended] == names * 2


async def test_a_run_that_waits_for_another_lets_it_come_first(rota_kit):
    await waits.submit("one")
    await in_a_thread.submit("two")
    await rota_kit.run_until_idle(raise_errors=True)
    assert set(done) == {"for one", "one", "two"}
    assert done.index("for one") < done.index("one")


async def test_a_run_is_scheduled_until_the_clock_gets_there(rota_kit):
    run = await on_the_loop.after(0.5).submit("later")
    await rota_kit.run_until_idle()
    assert await run.status() == "scheduled"
    assert [one.status for one in await rota_kit.runs()] == ["scheduled"]
    assert await rota_kit.runs(status="queued") == []
    await rota_kit.advance(timedelta(milliseconds=499))
    assert await run.status() == "scheduled"
    await rota_kit.advance(timedelta(milliseconds=1))
    assert await run.status() == "success"


async def test_a_run_is_retrying_until_the_clock_gets_there(rota_kit):
    run = await stumbles.submit()
    await rota_kit.run_until_idle()
    assert await run.status() == "retrying"
    assert [(one.status, one.error) for one in await rota_kit.failures()] == [("retrying", "ConnectionError: away")]
    await rota_kit.advance(timedelta(milliseconds=499))
    assert await run.status() == "retrying"
    before = rota_kit.now
    await rota_kit.run_until_idle(retries=True)
    assert await run.result() == 3
    assert rota_kit.now - before == timedelta(milliseconds=501)
