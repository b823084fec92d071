"""Isolated tasks where it gets narrow: with an event loop of their own, with a lot to say, with nobody to answer."""

from __future__ import annotations

import asyncio

import pytest
import secluded

import rota
from rota.clock import DatabaseClock
from rota.compose import worker_gateway
from rota.gateway.thread import ThreadGateway
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.worker.runners.registry import Runners

MESSAGE_BYTES = 16 * 1024 * 1024


class Unanswering:
    """A gateway behind which something unexpected happens."""

    async def submit(self, jobs):
        raise OSError(f"the database is away, and with it {len(jobs)} job")


@pytest.fixture
async def worker_gateways(engine, tmp_path):
    """The gateways of a worker's runs, by their claims."""
    local = worker_gateway(Settings(home=tmp_path), engine.database, shards=64, clock=DatabaseClock())
    async with ServiceGroup(local.services):
        yield local.for_run


@pytest.fixture
async def isolating(engine, gateway, tmp_path):
    """A worker wired as in production, whose tasks submit through these gateways."""
    runners = Runners(Settings(home=tmp_path, processes=1, threads=2), secluded.app)

    def serve(gateways):
        # Nothing but the isolated tasks: what they submit stays where it is.
        isolated = {name: runner for name, runner in runners.by_task.items() if name in runners.processes.tasks}
        return engine.running(engine.worker(runners=isolated, gateways=gateways))

    with secluded.app.using(gateway, ThreadGateway(gateway, asyncio.get_running_loop())):
        yield serve
    await runners.close()


async def test_a_sync_task_with_middleware_and_a_lifespan_may_run_an_event_loop(isolating, worker_gateways):
    async with isolating(worker_gateways):
        for _ in range(2):
            run = await secluded.own_loop.submit()
            assert await run.result(timeout=60) == ("those of own_loop", True)


@pytest.mark.parametrize("task", [secluded.many, secluded.many_async], ids=["sync", "async"])
async def test_more_is_submitted_in_one_go_than_one_message_holds(isolating, worker_gateways, task, sql):
    assert secluded.LETTERS * secluded.CHILDREN > MESSAGE_BYTES
    async with isolating(worker_gateways):
        assert await (await task.submit()).result(timeout=60) == secluded.CHILDREN
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE task = 'child'") == secluded.CHILDREN


@pytest.mark.parametrize("task", [secluded.parent, secluded.parent_async], ids=["sync", "async"])
async def test_an_unexpected_error_behind_a_question_reaches_the_task_that_asked(isolating, task):
    async with isolating(lambda _claim: Unanswering()):
        run = await task.submit()
        with pytest.raises(rota.RunFailedError, match="the database is away, and with it 1 job"):
            await run.result(timeout=120)


async def test_a_refusal_has_the_same_type_in_a_process_of_its_own(isolating, worker_gateways):
    await secluded.child.with_options(unique_key="taken").after("1h").submit("holder")
    async with isolating(worker_gateways):
        assert await (await secluded.refused.submit()).result(timeout=60) == "DuplicateError"
