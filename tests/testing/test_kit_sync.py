"""The kit without `await`, and code under test in event loops and threads of its own."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime

import kit_tasks as tasks
import pytest

from rota.errors import SetupError
from rota.testing import Kit, SyncKit


def test_a_test_that_is_not_async(rota_kit_sync):
    rota_kit_sync.travel_to(datetime(2031, 1, 1, tzinfo=UTC))
    run = tasks.double.sync.after("1d").submit(4)
    assert rota_kit_sync.run_until_idle() == []
    assert [one.result for one in rota_kit_sync.advance(days=1)] == [8]
    assert run.result() == 8
    rota_kit_sync.assert_submitted(tasks.double, number=4, count=1)
    assert rota_kit_sync.now == datetime(2031, 1, 2, tzinfo=UTC)


def test_whoever_waits_for_a_run_makes_it_run_without_await_as_well(rota_kit_sync):
    assert tasks.quadruple.sync.submit(2).result() == 8
    assert rota_kit_sync.database_url


def test_code_in_another_event_loop_submits_into_the_same_kit(rota_kit_sync):
    async def under_test():
        return await (await tasks.double.submit(5)).result()

    assert asyncio.run(under_test()) == 10


async def test_code_that_can_not_await_is_called_in_a_thread(rota_kit):
    def under_test():
        return tasks.double.sync.submit(5).id

    with pytest.raises(SetupError, match="to_thread"):
        under_test()
    assert await asyncio.to_thread(under_test)
    assert [run.result for run in await rota_kit.run_until_idle()] == [10]


def test_the_two_kits_have_the_same_names():
    def calls(kind):
        return {name for name, member in vars(kind).items() if not name.startswith("_") and callable(member)}

    asynchronous = {name for name in calls(Kit) if inspect.iscoroutinefunction(getattr(Kit, name))}
    assert asynchronous <= calls(SyncKit)
