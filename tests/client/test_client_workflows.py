"""The workflow calls of the client against the real API."""

from __future__ import annotations

import asyncio

import pytest
from scripted import answer, answering, scripted

from rota.client import AnswerError, AsyncClient
from rota.contract.workflows import InputIn, NodeIn, WorkflowIn
from support import eventually

DOUBLE = WorkflowIn(
    name="double",
    inputs={"n": InputIn(type="integer", default=1)},
    nodes={
        "first": NodeIn(task="double", payload={"n": {"$input": "n"}}),
        "second": NodeIn(task="double", payload={"n": {"$from": "first"}}, after=["first"]),
    },
)
TASKS = {"double": lambda n: 2 * n}


async def test_a_workflow_from_its_creation_to_its_deletion(client, engine):
    made = await client.create_workflow(DOUBLE)
    assert (made.name, made.nodes.keys(), made.revision) == ("double", DOUBLE.nodes.keys(), 1)
    with pytest.raises(AnswerError) as refused:
        await client.create_workflow(DOUBLE)
    assert refused.value.status == 409
    as_json = {"name": "double", "failFast": True, "nodes": {"only": {"task": "double", "payload": {"n": 1}}}}
    changed = await client.change_workflow("double", as_json, if_match=1)
    assert (changed.revision, changed.fail_fast, list(changed.nodes)) == (2, True, ["only"])
    with pytest.raises(AnswerError) as refused:
        await client.change_workflow("double", DOUBLE, if_match=1)
    assert refused.value.status == 412
    assert [one.number for one in await client.workflow_versions(made.workflow_id)] == [2, 1]
    assert [one.name async for one in client.workflows()] == ["double"]
    assert (await client.delete_workflow("double")).status == "deleted"
    with pytest.raises(AnswerError) as refused:
        await client.workflow("double")
    assert refused.value.status == 404


async def test_a_run_is_started_waited_for_and_listed(client, engine):
    await client.create_workflow(DOUBLE)
    async with engine.running(engine.scheduler(), engine.worker(TASKS)):
        started = await client.run_workflow("double", {"n": 21}, idempotency_key="k")
        again = await client.run_workflow("double", {"n": 21}, idempotency_key="k")
        assert again.workflow_run_id == started.workflow_run_id
        run = await client.wait_for_workflow_run(started.workflow_run_id, timeout=120)
    assert run.status == "success"
    assert (await client.run(run.nodes["second"].run_id)).result == 84
    listed = [one.workflow_run_id async for one in client.workflow_runs(workflow="double", status="success")]
    assert listed == [started.workflow_run_id]


async def test_a_wait_that_takes_too_long_is_given_up(client):
    await client.create_workflow(DOUBLE)
    started = await client.run_workflow("double")
    with pytest.raises(TimeoutError, match="has not ended"):
        await client.wait_for_workflow_run(started.workflow_run_id, timeout=0.2)


async def test_a_failed_run_is_resumed_and_a_cancelled_one_stays_so(client, engine):
    fails = [True]

    def double(n):
        if fails:
            fails.clear()
            raise ValueError("once")
        return 2 * n

    nodes = {"first": NodeIn(task="double", payload={"n": 1}, max_retries=0)}
    await client.create_workflow(WorkflowIn(name="double", nodes=nodes))
    run_id = (await client.run_workflow("double")).workflow_run_id
    async with engine.running(engine.scheduler(), engine.worker({"double": double})):
        failed = await client.wait_for_workflow_run(run_id, timeout=120)
        assert (failed.status, failed.culprit) == ("failed", "first")
        assert (await client.resume_workflow_run(run_id, generation=1)).generation == 2
        assert (await client.wait_for_workflow_run(run_id, timeout=120)).status == "success"
        again = await client.resume_workflow_run(run_id, nodes=["first"])
        assert again.generation == 3
        await client.wait_for_workflow_run(run_id, timeout=120)
        with pytest.raises(AnswerError) as refused:
            await client.cancel_workflow_run(run_id)
    assert refused.value.status == 409
    other = (await client.run_workflow("double")).workflow_run_id
    assert (await client.cancel_workflow_run(other)).status == "cancelling"


async def test_the_synchronous_face_does_the_same(synchronous, engine):
    def use(client):
        client.create_workflow(DOUBLE)
        run_id = client.run_workflow("double", {"n": 2}).workflow_run_id
        run = client.wait_for_workflow_run(run_id, timeout=120)
        return run.status, client.run(run.nodes["second"].run_id).result, [one.name for one in client.workflows()]

    async with engine.running(engine.scheduler(), engine.worker(TASKS)):
        assert await asyncio.to_thread(use, synchronous) == ("success", 8, ["double"])


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.run_workflow("x"),
        lambda client: client.signal_workflow_run("wfr_1", "go"),
        lambda client: client.change_workflow("x", DOUBLE),
        lambda client: client.pause_workflow("x"),
    ],
    ids=["run", "signal", "change", "pause"],
)
async def test_a_request_that_a_server_can_not_take_now_is_sent_again_with_its_key(call):
    with scripted(answering(answer(503, b'{"status": 503}'), answer(404, b'{"status": 404}'))) as server:
        async with AsyncClient(server.url, "", retries=2) as client:
            with pytest.raises(AnswerError) as refused:
                await call(client)
    assert refused.value.status == 404
    first, second = server.heard
    assert first.headers.get("idempotency-key") == second.headers.get("idempotency-key")


@pytest.mark.parametrize(
    "call",
    [lambda client: client.create_workflow(DOUBLE), lambda client: client.resume_workflow_run("wfr_1")],
    ids=["create", "resume"],
)
async def test_what_could_act_twice_is_not_sent_again_after_a_lost_answer(call):
    with scripted(answering(answer(502, b'{"status": 502}'), answer(200, b"{}"))) as server:
        async with AsyncClient(server.url, "", retries=2) as client:
            with pytest.raises(AnswerError):
                await call(client)
    assert len(server.heard) == 1


async def test_signals_decisions_and_members(client, engine):
    def act(n):
        if n == 2:
            raise ValueError("two")
        return n

    await client.create_workflow(
        {
            "name": "all",
            "nodes": {
                "go": {"wait": {"signal": "go"}},
                "approval": {"wait": {"approval": True}, "after": ["go"]},
                "each": {
                    "task": "act",
                    "payload": {"n": {"$item": ""}},
                    "map": {"items": [1, 2, 3], "tolerateFailures": 1},
                    "after": ["approval"],
                    "maxRetries": 0,
                },
            },
        }
    )
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        run_id = (await client.run_workflow("all")).workflow_run_id
        assert (await client.signal_workflow_run(run_id, "go", {"by": "ada"})).signal == "go"

        async def asked():
            return (await client.workflow_run(run_id)).nodes["approval"].start_time

        await eventually(asked)
        assert (await client.approve_node(run_id, "approval", comment="fine")).workflow_run_id == run_id
        ended = await client.wait_for_workflow_run(run_id, timeout=120)
    assert (ended.status, ended.nodes["each"].members.failed) == ("success", 1)
    assert [(one.index, one.status) async for one in client.members(run_id, "each")] == [(1, "failed")]
    assert sorted([(one.index, one.result) async for one in client.member_results(run_id, "each")]) == [(0, 1), (2, 3)]
    with pytest.raises(AnswerError) as refused:
        await client.reject_node(run_id, "approval")
    assert refused.value.status == 409
    assert (await client.pause_workflow("all")).status == "paused"
    assert (await client.resume_workflow("all")).status == "active"
