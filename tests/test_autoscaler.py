"""When `rota autoscale` starts and drains workers; tests/scenarios has it with real ones."""

from __future__ import annotations

import asyncio

import pytest

from rota.errors import RotaError
from rota.ops import supervised_process
from rota.ops.autoscaler import Autoscaler, ScaleLimits
from rota.settings import Settings
from support import eventually


class Needs:
    """What the server would say."""

    def __init__(self):
        self.wanted = 0.0
        self.runs = {}

    async def slots(self):
        if self.wanted is None:
            raise RotaError("the server is away")
        return self.wanted

    async def busy(self):
        return self.runs

    async def close(self):
        pass


@pytest.fixture
async def scaled(monkeypatch, tmp_path):
    """An autoscaler of sleeping processes, its needs and its clock."""
    create = asyncio.create_subprocess_exec

    async def sleeper(*_arguments, **options):
        return await create("sleep", "60", **options)

    monkeypatch.setattr(supervised_process.asyncio, "create_subprocess_exec", sleeper)
    needs, now = Needs(), [0.0]
    limits = ScaleLimits(least=1, most=5, cooldown_seconds=30)
    autoscaler = Autoscaler(Settings(home=tmp_path, slots=10), [], limits, needs=needs, monotonic=lambda: now[0])
    async with autoscaler._group:
        yield autoscaler, needs, now
        await autoscaler.workers.stop()


async def at(now, seconds, autoscaler):
    now[0] = seconds
    await autoscaler.tick()
    return len(autoscaler.workers.active)


async def test_more_workers_start_at_once_within_the_bounds(scaled):
    autoscaler, needs, now = scaled
    assert await at(now, 0, autoscaler) == 1
    needs.wanted = 25.0
    assert await at(now, 5, autoscaler) == 3
    needs.wanted = 1000.0
    assert await at(now, 10, autoscaler) == 5


async def test_fewer_only_when_no_answer_for_a_while_wanted_as_many(scaled):
    autoscaler, needs, now = scaled
    needs.wanted = 50.0
    assert await at(now, 0, autoscaler) == 5
    needs.wanted = 0.0
    assert [await at(now, seconds, autoscaler) for seconds in (5, 15)] == [5, 5]
    needs.wanted = 35.0
    assert await at(now, 20, autoscaler) == 5
    needs.wanted = 0.0
    assert [await at(now, seconds, autoscaler) for seconds in (34, 36, 63, 65)] == [5, 4, 4, 1]


async def test_workers_stay_while_the_server_does_not_answer_and_the_fewest_come_without_it(scaled):
    autoscaler, needs, now = scaled
    needs.wanted = None
    with pytest.raises(RotaError):
        await autoscaler.tick()
    assert len(autoscaler.workers.active) == 1
    needs.wanted = 30.0
    assert await at(now, 5, autoscaler) == 3
    needs.wanted = None
    now[0] = 500.0
    with pytest.raises(RotaError):
        await autoscaler.tick()
    assert len(autoscaler.workers.active) == 3


async def test_those_with_the_fewest_runs_drain(scaled):
    autoscaler, needs, now = scaled
    needs.wanted = 30.0
    await at(now, 0, autoscaler)
    workers = list(autoscaler.workers.active)
    await eventually(lambda: all(worker.process for worker in workers))
    needs.runs = {worker.process.pid: runs for worker, runs in zip(workers, (0, 7, 2), strict=True)}
    needs.wanted = 0.0
    await at(now, 1, autoscaler)
    await at(now, 31, autoscaler)
    assert autoscaler.workers.active == [workers[1]]
    await eventually(lambda: autoscaler.workers.draining == 0)
    assert [worker.process.returncode is None for worker in workers] == [False, True, False]
