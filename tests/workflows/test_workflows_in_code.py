"""Workflows of code over HTTP: the same handles as in a worker or a test, on a server that listens on a port."""

from __future__ import annotations

import asyncio

import pytest

import rota
from listening import TOKEN
from rota.errors import BadInputError, ConflictError

TASKS = {"flows.extract": lambda day: {"day": day, "n": 20}, "flows.double": lambda n: 2 * n}


@pytest.fixture
async def app(server):
    made = rota.App("flows", url=server.url, token=TOKEN)
    yield made
    await made.close()


@pytest.fixture
async def flow(app, server):
    @app.task(name="flows.extract", retries=0)
    def extract(day: str) -> dict: ...

    @app.task(name="flows.double", retries=0)
    def double(n: int) -> int: ...

    with app.workflow("doubled", inputs={"day": str}) as flow:
        rows = extract.node(flow.input("day"))
        decided = flow.wait(signal="go").after(rows)
        double.node(rows["n"]).after(decided)
    async with rota.AsyncClient(server.url, TOKEN) as client:
        await client.create_workflow(flow.definition())
    return flow


async def test_a_run_is_started_signalled_and_waited_for(engine, flow):
    async with engine.running(engine.scheduler(), engine.worker(TASKS)):
        run = await flow.start(day="monday")
        with pytest.raises(TimeoutError, match="has not ended within"):
            await run.result(timeout=0.3)
        await run.signal("go", {"by": "ada"})
        ended = await run.result(timeout=120)
    assert {key: node.status for key, node in ended.nodes.items()} == dict.fromkeys(
        ("extract", "go", "double"), "success"
    )
    assert await run.result_of("double") == 40
    assert await flow.run_of(run.id).status() == "success"


async def test_refusals_have_the_errors_of_the_sdk(flow):
    with pytest.raises(BadInputError, match="required, but missing"):
        await flow.start()
    first = await flow.start(day="x", idempotency_key="k")
    assert (await flow.start(day="x", idempotency_key="k")).id == first.id
    with pytest.raises(rota.KeyReusedError):
        await flow.start(day="y", idempotency_key="k")
    with pytest.raises(ConflictError, match="generation"):
        await first.resume(generation=7)
    with pytest.raises(ConflictError, match="does not wait for a decision"):
        await first.approve("extract")


async def test_sync_code_does_the_same_and_cancels(engine, flow):
    def use():
        run = flow.sync.start(day="monday")
        run.cancel()
        with pytest.raises(rota.WorkflowFailedError, match="is cancelled"):
            run.result(timeout=120)
        return run.status()

    async with engine.running(engine.scheduler(), engine.worker(TASKS)):
        assert await asyncio.to_thread(use) == "cancelled"
