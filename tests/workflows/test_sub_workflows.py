"""Workflows in workflows, and nodes that nodes add."""

from __future__ import annotations

import pytest
from conducted import ME, ended, node_is

from rota.contract.workflows import InputIn, MapIn, NodeIn, ResumeIn, WaitIn, WorkflowIn
from rota.domain.rights import Caller
from rota.errors import BadInputError, ConflictError


async def make(workflows, name, nodes, **fields):
    return await workflows.create(WorkflowIn(name=name, nodes=nodes, **fields), ME)


def child_nodes(**options):
    return {"double": NodeIn(task="double", payload={"n": {"$input": "n"}}, **options)}


async def test_a_node_can_be_a_workflow(engine, workflows, sql):
    seen = []
    await make(workflows, "child", child_nodes(), inputs={"n": InputIn(type="integer")})
    nodes = {
        "part": NodeIn(workflow="child", payload={"n": 21}),
        "after": NodeIn(task="after", after=["part"], payload={"got": {"$from": "part", "path": "double"}}),
    }
    made = await make(workflows, "parent", nodes)
    tasks = {"double": lambda n: 2 * n, "after": lambda got: seen.append(got) or None}
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        started = await workflows.run(made.workflow_id, {}, ME)
        run = await ended(workflows, started)
    assert run.status == "success"
    assert seen == [42]
    part = await workflows.show_run(run.nodes["part"].workflow_run_id, ME)
    assert (part.status, part.parent, part.name) == ("success", started.workflow_run_id, "child")
    listed = await workflows.show_runs(ME, None, workflow=None, status=None, cursor="", limit=10)
    assert [one.workflow_run_id for one in listed.items] == [started.workflow_run_id]
    assert await sql.fetchval("SELECT count(*) FROM rota.flow_notes") == 0


async def test_a_change_meanwhile_does_not_reach_what_began(engine, workflows):
    seen = []
    child = {"act": NodeIn(task="act", payload={"version": 1})}
    await make(workflows, "child", child)
    nodes = {"wait": NodeIn(wait=WaitIn(signal="go")), "part": NodeIn(workflow="child", after=["wait"])}
    made = await make(workflows, "parent", nodes)
    async with engine.running(engine.scheduler(), engine.worker({"act": lambda version: seen.append(version) or None})):
        started = await workflows.run(made.workflow_id, {}, ME)
        await node_is(workflows, started, "wait", "waiting")
        after = {"act": NodeIn(task="act", payload={"version": 2})}
        await workflows.change("child", WorkflowIn(name="child", nodes=after), ME)
        later = {"wait": nodes["wait"], "part": NodeIn(task="act", after=["wait"], payload={"version": 3})}
        await workflows.change("parent", WorkflowIn(name="parent", nodes=later), ME)
        await workflows.signal(started.workflow_run_id, "go", None, ME)
        assert (await ended(workflows, started)).status == "success"
    assert seen == [1]


async def test_a_resume_of_the_root_runs_what_failed_in_its_parts(engine, workflows):
    ran, fails = [], [True]

    def act(key):
        ran.append(key)
        if key == "b" and fails:
            raise ValueError("once")

    inner = {
        "a": NodeIn(task="act", payload={"key": "a"}),
        "b": NodeIn(task="act", payload={"key": "b"}, after=["a"], max_retries=0),
    }
    await make(workflows, "inner", inner)
    await make(workflows, "middle", {"inner": NodeIn(workflow="inner")})
    nodes = {"middle": NodeIn(workflow="middle"), "c": NodeIn(task="act", payload={"key": "c"}, after=["middle"])}
    made = await make(workflows, "outer", nodes)
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        started = await workflows.run(made.workflow_id, {}, ME)
        first = await ended(workflows, started)
        assert (first.status, first.culprit, first.nodes["c"].status) == ("failed", "middle", "skipped")
        fails.clear()
        middle = await workflows.show_run(first.nodes["middle"].workflow_run_id, ME)
        with pytest.raises(ConflictError, match="part of"):
            await workflows.resume(middle.workflow_run_id, ME, asked=ResumeIn(nodes=["inner"]))
        resumed = await workflows.resume(middle.nodes["inner"].workflow_run_id, ME)
        assert resumed.workflow_run_id == started.workflow_run_id
        again = await ended(workflows, started)
    assert again.status == "success"
    assert ran == ["a", "b", "b", "c"]
    assert again.nodes["middle"].workflow_run_id == middle.workflow_run_id


async def test_a_cancel_reaches_all_levels(engine, workflows):
    await make(workflows, "inner", {"wait": NodeIn(wait=WaitIn(signal="never"))})
    await make(workflows, "middle", {"inner": NodeIn(workflow="inner")})
    made = await make(workflows, "outer", {"middle": NodeIn(workflow="middle")})
    async with engine.running(engine.scheduler(), engine.worker()):
        started = await workflows.run(made.workflow_id, {}, ME)
        run = await node_is(workflows, started, "middle", "running")
        await workflows.cancel(started.workflow_run_id, ME)
        assert (await ended(workflows, started)).status == "cancelled"
        middle = await ended(workflows, run.nodes["middle"].workflow_run_id)
    assert middle.status == "cancelled"
    assert {node.status for node in middle.nodes.values()} == {"stopped"}


async def test_a_deadline_holds_for_what_is_below(engine, workflows):
    await make(workflows, "inner", {"wait": NodeIn(wait=WaitIn(signal="never"))})
    made = await make(workflows, "outer", {"inner": NodeIn(workflow="inner")}, deadline_seconds=1)
    async with engine.running(engine.scheduler(), engine.worker()):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
        inner = await ended(workflows, run.nodes["inner"].workflow_run_id)
    assert (run.status, inner.status) == ("failed", "failed")
    assert inner.deadline <= run.deadline


async def test_a_map_can_run_a_workflow_for_each_item(engine, workflows):
    seen, fails = [], {2}

    def act(n):
        if n in fails:
            raise ValueError(n)
        seen.append(n)

    await make(
        workflows,
        "each",
        {"act": NodeIn(task="act", payload={"n": {"$input": "n"}}, max_retries=0)},
        inputs={"n": InputIn()},
    )
    nodes = {"all": NodeIn(workflow="each", payload={"n": {"$item": ""}}, map=MapIn(items=[1, 2, 3]))}
    made = await make(workflows, "mapped", nodes)
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        started = await workflows.run(made.workflow_id, {}, ME)
        first = await ended(workflows, started)
        assert (first.status, sorted(seen)) == ("failed", [1, 3])
        fails.clear()
        await workflows.resume(started.workflow_run_id, ME)
        again = await ended(workflows, started)
    assert (again.status, sorted(seen)) == ("success", [1, 2, 3])
    assert again.nodes["all"].members.success == 3


async def test_what_a_node_adds_runs_before_what_follows_it(engine, workflows):
    ran = []
    added = {
        "one": {"task": "act", "payload": {"key": "one"}},
        "two": {"task": "act", "payload": {"key": {"$input": "word"}}, "after": ["one"]},
    }
    nodes = {
        "plan": NodeIn(task="plan"),
        "after": NodeIn(task="act", after=["plan"], payload={"key": {"$from": "plan", "path": "found"}}),
    }
    made = await make(workflows, "dynamic", nodes, inputs={"word": InputIn(default="two")})
    tasks = {"plan": lambda: {"$add": added, "$result": {"found": "three"}}, "act": lambda key: ran.append(key) or None}
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert run.status == "success"
    assert ran == ["one", "two", "three"]
    part = await workflows.show_run(run.nodes["plan"].workflow_run_id, ME)
    assert {*part.nodes} == {"one", "two"}
    assert len((await workflows.versions("dynamic", ME)).items) == 1


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        ({"a": {"task": "act", "after": ["b"]}}, "names 'b', which is no node"),
        ("nothing", "Expected `object`"),
        ({"a": {"workflow": "other"}}, "not among those"),
    ],
)
async def test_additions_that_can_not_run_fail_the_node(engine, workflows, added, reason):
    made = await make(workflows, "dynamic", {"plan": NodeIn(task="plan", max_retries=0)})
    async with engine.running(engine.scheduler(), engine.worker({"plan": lambda: {"$add": added}})):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert run.status == "failed"
    assert reason in run.nodes["plan"].reason


async def test_the_failure_of_an_addition_is_the_node_s(engine, workflows):
    def fail():
        raise ValueError("no")

    tasks = {"plan": lambda: {"$add": {"a": {"task": "fail", "maxRetries": 0}}}, "fail": fail}
    nodes = {"plan": NodeIn(task="plan"), "alarm": NodeIn(task="rota.echo", after=["plan"], trigger="any_failed")}
    made = await make(workflows, "dynamic", nodes)
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert (run.status, run.nodes["plan"].status, run.nodes["alarm"].status) == ("failed", "failed", "success")


async def test_workflows_that_are_not_there_or_run_themselves_are_refused(workflows):
    with pytest.raises(BadInputError, match="there is no workflow named 'child'"):
        await make(workflows, "parent", {"part": NodeIn(workflow="child")})
    await make(workflows, "child", {"act": NodeIn(task="act")})
    await make(workflows, "parent", {"part": NodeIn(workflow="child")})
    with pytest.raises(BadInputError, match="runs this workflow itself"):
        await workflows.change("child", WorkflowIn(name="child", nodes={"part": NodeIn(workflow="parent")}), ME)


async def test_a_workflow_runs_those_of_its_owner_alone(engine, workflows):
    bob = Caller(namespace="default", owner="bob")
    await make(workflows, "child", {"act": NodeIn(task="rota.echo")})
    made = await make(workflows, "parent", {"part": NodeIn(workflow="child")})
    with pytest.raises(BadInputError, match="of the same owner"):
        await workflows.create(WorkflowIn(name="of bob", nodes={"part": NodeIn(workflow="child")}), bob)
    await workflows.delete("child", ME)
    await workflows.create(WorkflowIn(name="child", nodes={"act": NodeIn(task="rota.echo")}), bob)
    async with engine.running(engine.scheduler(), engine.worker()):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert (run.status, run.nodes["part"].reason) == ("failed", "there is no workflow named 'child'")
