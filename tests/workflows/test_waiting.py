"""Nodes that wait: for a time, a signal or a person. The first end of a wait counts."""

from __future__ import annotations

import pytest
from conducted import ME, ended, node_is

from rota.contract.workflows import NodeIn, WaitIn, WorkflowIn
from rota.domain.rights import Caller
from rota.errors import ConflictError, ForbiddenError, NotFoundError


def waiting(name, **wait):
    nodes = {
        "wait": NodeIn(wait=WaitIn(**wait)),
        "after": NodeIn(task="after", after=["wait"], payload={"got": {"$from": "wait"}}),
    }
    return WorkflowIn(name=name, nodes=nodes)


@pytest.fixture
def seen():
    return []


@pytest.fixture
async def running(engine, seen):
    async with engine.running(engine.scheduler(), engine.worker({"after": lambda got: seen.append(got) or None})):
        yield


@pytest.mark.usefixtures("running")
async def test_a_time_ends_a_wait(workflows, seen):
    made = await workflows.create(waiting("short", seconds=0.2), ME)
    assert (await ended(workflows, await workflows.run(made.workflow_id, {}, ME))).status == "success"
    made = await workflows.create(waiting("past", until="2020-01-01T00:00:00Z"), ME)
    assert (await ended(workflows, await workflows.run(made.workflow_id, {}, ME))).status == "success"
    assert seen == [None, None]


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("early", [True, False], ids=["before its wait", "after its wait began"])
async def test_a_signal_is_kept_until_a_wait_takes_it(workflows, seen, sql, early):
    wanted = waiting("signalled", signal="go")
    wanted.nodes["wait"].after.append("first")
    wanted.nodes["first"] = NodeIn(wait=WaitIn(signal="begin" if early else "go"))
    made = await workflows.create(wanted, ME)
    started = await workflows.run(made.workflow_id, {}, ME)
    run = await node_is(workflows, started, "first", "waiting")
    assert run.nodes["first"].waiting_for == {"signal": "begin" if early else "go"}
    assert run.nodes["wait"].waiting_for == {"first": "running"}
    for number in range(2):
        await workflows.signal(started.workflow_run_id, "go", {"number": number}, ME)
    if early:
        await workflows.signal(started.workflow_run_id, "begin", None, ME)
    assert (await ended(workflows, started)).status == "success"
    assert seen == [{"number": 0 if early else 1}]
    assert await sql.fetchval("SELECT count(*) FROM rota.flow_signals") == 0
    with pytest.raises(ConflictError, match="has ended"):
        await workflows.signal(started.workflow_run_id, "go", None, ME)


@pytest.mark.usefixtures("running")
async def test_a_repeated_signal_with_its_key_is_one(workflows, seen):
    wanted = waiting("once", signal="go")
    wanted.nodes["wait"].after.append("first")
    wanted.nodes["first"] = NodeIn(wait=WaitIn(signal="go", timeout_seconds=1, on_timeout="fail"), after=["zero"])
    wanted.nodes["zero"] = NodeIn(wait=WaitIn(signal="go"))
    made = await workflows.create(wanted, ME)
    started = await workflows.run(made.workflow_id, {}, ME)
    answers = [
        await workflows.signal(started.workflow_run_id, "go", 1, ME, key="mine", request_hash=b"x") for _ in range(3)
    ]
    assert len({answer.signal for answer in answers}) == 1
    run = await ended(workflows, started)
    assert run.nodes["zero"].status == "success"
    assert run.nodes["first"].reason == "no signal go came in time"
    assert seen == []


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    ("on_timeout", "status", "after"),
    [("fail", "failed", "skipped"), ("skip", "skipped", "skipped"), ("succeed", "success", "success")],
)
async def test_a_wait_that_takes_too_long_ends_as_it_says(workflows, on_timeout, status, after):
    made = await workflows.create(waiting("late", signal="never", timeout_seconds=0.1, on_timeout=on_timeout), ME)
    run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert (run.nodes["wait"].status, run.nodes["after"].status) == (status, after)
    assert run.status == ("failed" if status == "failed" else "success")


@pytest.mark.usefixtures("running")
async def test_a_person_approves_once(workflows, seen):
    made = await workflows.create(waiting("asked", approval=True), ME)
    started = await workflows.run(made.workflow_id, {}, ME)
    await node_is(workflows, started, "wait", "waiting")
    with pytest.raises(ForbiddenError):  # who may act on their own jobs only
        await workflows.decide(started.workflow_run_id, "wait", ME, only="me", approve=True, comment=None)
    await workflows.decide(started.workflow_run_id, "wait", ME, only=None, approve=True, comment="fine")
    with pytest.raises(ConflictError):
        await workflows.decide(started.workflow_run_id, "wait", ME, only=None, approve=False, comment=None)
    run = await ended(workflows, started)
    assert run.status == "success"
    assert run.nodes["wait"].run_id is None  # nothing ran
    assert seen == [{"approved": True, "by": "me", "comment": "fine"}]


@pytest.mark.usefixtures("running")
async def test_those_who_are_named_decide(workflows):
    made = await workflows.create(waiting("named", approval=True, approvers=["alice"]), ME)
    started = await workflows.run(made.workflow_id, {}, ME)
    await node_is(workflows, started, "wait", "waiting")
    with pytest.raises(ForbiddenError):
        await workflows.decide(started.workflow_run_id, "wait", ME, only=None, approve=True, comment=None)
    bob = Caller(namespace="default", owner="bob")
    for node in ("wait", "nothing"):  # others learn nothing of its nodes
        with pytest.raises(NotFoundError, match="there is no such workflow run"):
            await workflows.decide(started.workflow_run_id, node, bob, only="bob", approve=True, comment=None)
    alice = Caller(namespace="default", owner="alice")
    await workflows.decide(started.workflow_run_id, "wait", alice, only="alice", approve=False, comment="no")
    run = await ended(workflows, started)
    assert run.status == "failed"
    assert run.nodes["wait"].reason == "rejected by alice: no"


@pytest.mark.usefixtures("running")
async def test_a_cancel_ends_waits(workflows, sql):
    made = await workflows.create(waiting("cancelled", signal="never"), ME)
    started = await workflows.run(made.workflow_id, {}, ME)
    await node_is(workflows, started, "wait", "waiting")
    await workflows.cancel(started.workflow_run_id, ME)
    run = await ended(workflows, started)
    assert run.status == "cancelled"
    assert {node.status for node in run.nodes.values()} == {"stopped"}
    assert await sql.fetchval("SELECT count(*) FROM rota.flow_waits") == 0


@pytest.mark.usefixtures("running")
async def test_how_long_it_waits_can_be_a_result(workflows, seen):
    wanted = waiting("reckoned", seconds={"$from": "first", "path": "pause"})
    wanted.nodes["wait"].after.append("first")
    wanted.nodes["first"] = NodeIn(task="rota.echo", payload={"pause": 0.1})
    made = await workflows.create(wanted, ME)
    assert (await ended(workflows, await workflows.run(made.workflow_id, {}, ME))).status == "success"
    wanted.nodes["first"] = NodeIn(task="rota.echo", payload={"pause": "soon"})
    await workflows.change(made.workflow_id, wanted, ME)
    run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert run.nodes["wait"].reason == "it can't wait for 'soon' seconds"
