"""Workflow runs on the real database: nodes start by their rules, once each, and the run ends as they did."""

from __future__ import annotations

import random
import threading

import pytest
from conducted import ME, ended
from graphs import expected, random_graph

from rota.contract.workflows import InputIn, MapIn, NodeIn, ResumeIn, WorkflowIn, WorkflowScheduleIn
from rota.errors import ConflictError
from support import eventually


def diamond(**more):
    nodes = {
        "extract": NodeIn(task="extract", payload={"day": {"$input": "day"}}),
        "left": NodeIn(task="double", after=["extract"], payload={"n": {"$from": "extract", "path": "rows"}}),
        "right": NodeIn(task="double", after=["extract"], payload={"n": 5}),
        "join": NodeIn(
            task="total", after=["left", "right"], payload={"parts": [{"$from": "left"}, {"$from": "right"}]}
        ),
    }
    return WorkflowIn(name="diamond", nodes=nodes, inputs={"day": InputIn(type="string")}, **more)


async def test_results_travel_along_the_edges(engine, workflows):
    seen = []
    tasks = {
        "extract": lambda day: seen.append(day) or {"rows": 21},
        "double": lambda n: 2 * n,
        "total": lambda parts: seen.append(sum(parts)) or sum(parts),
    }
    wanted = diamond()
    made = await workflows.create(wanted, ME)
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        run = await ended(workflows, await workflows.run(made.workflow_id, {"day": "2027-01-01"}, ME))
    assert run.status == "success"
    assert seen == ["2027-01-01", 52]
    assert {node.status for node in run.nodes.values()} == {"success"}


@pytest.mark.parametrize("seed", range(12))
async def test_random_graphs_end_by_their_rules(engine, workflows, sql, seed):
    chance = random.Random(seed)
    graph = random_graph(chance, most=30)
    fails = {number for number in range(len(graph)) if chance.random() < 0.25}
    wanted = [chance.random() > 0.15 for _ in range(len(graph))]

    def act(key, fail):
        if fail:
            raise ValueError(key)
        return key

    nodes = {
        node.key: NodeIn(
            task="act",
            payload={"key": node.key, "fail": number in fails},
            after=list(node.after),
            trigger=node.trigger,
            allow_failure=node.allow_failure,
            max_retries=0,
            when=None if wanted[number] else {"$input": "no", "eq": True},
        )
        for number, node in enumerate(graph.nodes)
    }
    made = await workflows.create(WorkflowIn(name="random", nodes=nodes, inputs={"no": InputIn(default=False)}), ME)
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    by_rule = expected(graph, {number: number in fails for number in range(len(graph))}, dict(enumerate(wanted)))
    shown = {
        key: f"skipped_by_{node.skipped_by}" if node.skipped_by else node.status for key, node in run.nodes.items()
    }
    assert shown == {graph.nodes[number].key: end for number, end in by_rule.items()}
    counted = await sql.fetch("SELECT job_version, count(*) FROM rota.finished_runs WHERE cause = 'node' GROUP BY 1")
    assert all(row["count"] == 1 for row in counted)
    assert await sql.fetchval("SELECT count(*) FROM rota.flow_notes") == 0


async def test_a_cancel_stops_what_runs_and_starts_nothing_more(engine, workflows):

    held = threading.Event()
    started = []
    tasks = {"wait": lambda: started.append(1) or held.wait(20), "after": lambda: started.append("after")}
    nodes = {
        "wait": NodeIn(task="wait", max_retries=0),
        "after": NodeIn(task="after", after=["wait"], trigger="all_ended"),
    }
    made = await workflows.create(WorkflowIn(name="cancelled", nodes=nodes), ME)
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        going = await workflows.run(made.workflow_id, {}, ME)
        await eventually(lambda: bool(started))
        shown = await workflows.cancel(going.workflow_run_id, ME)
        assert shown.status == "cancelling"
        held.set()
        run = await ended(workflows, going)
    assert run.status == "cancelled"
    assert run.nodes["after"].status == "stopped"
    assert started == [1]


async def test_a_resume_runs_what_failed_and_all_after_it_with_the_key_of_the_first_try(engine, workflows, sql):
    fails = [True]
    ran = []

    def act(key):
        ran.append(key)
        if key == "b" and fails:
            fails.clear()
            raise ValueError("once")

    nodes = {
        "a": NodeIn(task="act", payload={"key": "a"}),
        "b": NodeIn(task="act", payload={"key": "b"}, after=["a"], max_retries=0),
        "c": NodeIn(task="act", payload={"key": "c"}, after=["b"]),
        "notify": NodeIn(task="act", payload={"key": "notify"}, after=["c"], trigger="all_ended"),
    }
    made = await workflows.create(WorkflowIn(name="resumed", nodes=nodes), ME)
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        going = await workflows.run(made.workflow_id, {}, ME)
        first = await ended(workflows, going)
        assert first.status == "failed"
        assert first.culprit == "b"
        with pytest.raises(ConflictError):
            await workflows.resume(going.workflow_run_id, ME, asked=ResumeIn(generation=7))
        await workflows.resume(going.workflow_run_id, ME, asked=ResumeIn(generation=1))
        second = await ended(workflows, going)
    assert second.status == "success"
    assert second.generation == 2
    assert ran == ["a", "b", "notify", "b", "c", "notify"]
    keys = await sql.fetch(
        "SELECT name, count(*), count(DISTINCT root_id) AS keys FROM rota.finished_runs GROUP BY name"
    )
    assert {row["name"]: (row["count"], row["keys"]) for row in keys if row["keys"]} == {
        "resumed/a": (1, 1),
        "resumed/b": (2, 1),
        "resumed/c": (1, 1),
        "resumed/notify": (2, 2),
    }
    carriers = await sql.fetch(
        "SELECT id, retry_of, status FROM rota.finished_runs WHERE task = 'workflow' ORDER BY id"
    )
    assert [row["status"] for row in carriers] == ["failed", "success"]
    assert carriers[1]["retry_of"] == carriers[0]["id"]


async def test_a_map_runs_once_per_item_and_the_join_gets_its_counts(engine, workflows):
    seen = []
    tasks = {"list": lambda: list(range(25)), "clean": lambda n: seen.append(n) or None, "join": lambda counts: counts}
    nodes = {
        "list": NodeIn(task="list"),
        "clean": NodeIn(
            task="clean",
            after=["list"],
            payload={"n": {"$item": ""}},
            map=MapIn(items={"$from": "list"}, max_concurrency=4),
            max_retries=0,
        ),
        "join": NodeIn(task="join", after=["clean"], payload={"counts": {"$from": "clean"}}),
    }
    made = await workflows.create(WorkflowIn(name="mapped", nodes=nodes), ME)
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
        joined = await engine.run(run.nodes["join"].run_id)
    assert run.status == "success"
    assert sorted(seen) == list(range(25))
    assert joined["result"] == {"total": 25, "success": 25, "failed": 0, "skipped": 0}


async def test_one_workflow_run_that_can_not_be_written_stops_no_other(engine, workflows, sql):
    nodes = {"a": NodeIn(task="act"), "b": NodeIn(task="act", after=["a"])}
    made = [await workflows.create(WorkflowIn(name=name, nodes=nodes), ME) for name in ("good", "bad")]
    await sql.execute("ALTER TABLE rota.workflow_runs ADD CHECK (name <> 'bad' OR revision = 0) NOT VALID")
    async with engine.running(engine.scheduler(), engine.worker({"act": lambda: None})):
        bad = await workflows.run(made[1].workflow_id, {}, ME)
        runs = [await ended(workflows, await workflows.run(made[0].workflow_id, {}, ME)) for _ in range(3)]
        assert {run.status for run in runs} == {"success"}
        assert (await workflows.show_run(bad.workflow_run_id, ME)).status == "running"
        await sql.execute("ALTER TABLE rota.workflow_runs DROP CONSTRAINT workflow_runs_check1")
        assert (await ended(workflows, bad)).status == "success"


async def test_a_schedule_opens_a_run_for_each_time_and_overlap_sees_open_ones(engine, workflows, sql):
    held = threading.Event()
    seen = []
    tasks = {"act": lambda day: seen.append(day) or held.wait(20)}
    nodes = {"act": NodeIn(task="act", payload={"day": {"$nominal": "timestamp"}})}
    schedule = WorkflowScheduleIn(cron_expression="* * * * * *", overlap="skip")
    await workflows.create(WorkflowIn(name="each second", nodes=nodes, schedule=schedule), ME)
    skipped = "SELECT count(*) FROM rota.finished_runs WHERE task = 'workflow' AND status = 'skipped'"
    async with engine.running(engine.scheduler(), engine.worker(tasks)):

        async def two_were_skipped():
            return await sql.fetchval(skipped) >= 2

        await eventually(two_were_skipped)
        assert len(seen) == 1
        held.set()
        await eventually(lambda: len(set(seen)) >= 2)
    assert len(set(seen)) == len(seen)
    assert await sql.fetchval("SELECT count(*) FROM rota.workflow_runs") == len(seen)
