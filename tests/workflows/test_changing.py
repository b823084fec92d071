"""Workflows that are changed, paused or deleted while they run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from conducted import ME, ended, node_is

from rota.contract.workflows import InputIn, MapIn, NodeIn, ResumeIn, WaitIn, WorkflowIn, WorkflowScheduleIn
from rota.errors import BadInputError, ConflictError, NotFoundError
from support import eventually

EVERY_SECOND = "* * * * * *"


def nightly(cron=None, name="nightly", **fields):
    nodes = {"act": NodeIn(task="rota.echo", payload={"day": {"$nominal": "date"}})}
    schedule = None if cron is None else WorkflowScheduleIn(cron_expression=cron, **fields)
    return WorkflowIn(name=name, nodes=nodes, schedule=schedule)


async def opened(sql):
    return await sql.fetchval("SELECT count(*) FROM rota.workflow_runs")


async def test_a_schedule_can_come_change_and_go(engine, workflows, sql):
    await workflows.create(nightly(), ME)
    async with engine.running(engine.scheduler(), engine.worker()):
        _, after = await workflows.change("nightly", nightly(EVERY_SECOND), ME)
        assert after.schedule.cron_expression == EVERY_SECOND

        async def some():
            return await opened(sql) >= 2

        await eventually(some)
        _, after = await workflows.change("nightly", nightly("0 2 * * *", timezone="Europe/Berlin"), ME)
        states = await sql.fetch("SELECT state, cron_expression, timezone FROM rota.jobs")
        assert [tuple(row) for row in states] == [("scheduled", "0 2 * * *", "Europe/Berlin")]
        _, after = await workflows.change("nightly", nightly(), ME)
        assert after.schedule is None
        assert await sql.fetchval("SELECT state FROM rota.jobs") == "cancelled"
        await workflows.change("nightly", nightly("0 3 * * *"), ME)
    states = await sql.fetch("SELECT state FROM rota.jobs ORDER BY created_at")
    assert [row["state"] for row in states] == ["cancelled", "scheduled"]


async def test_the_same_definition_makes_no_version(workflows):
    made = await workflows.create(nightly("0 2 * * *"), ME)
    _, after = await workflows.change("nightly", nightly("0 2 * * *"), ME)
    assert (after.version, after.revision) == (made.version, made.revision)
    _, after = await workflows.change("nightly", nightly("0 3 * * *"), ME)
    assert (after.version, after.revision) == (made.version, made.revision + 1)
    assert len((await workflows.versions("nightly", ME)).items) == 1


async def test_a_schedule_needs_a_value_for_each_input(workflows):
    wanted = nightly("0 2 * * *")
    wanted.inputs["day"] = InputIn(type="string")
    with pytest.raises(BadInputError, match="missing"):
        await workflows.create(wanted, ME)
    wanted.schedule.inputs["day"] = "x" * 5000
    await workflows.create(wanted, ME)


async def test_inputs_of_a_schedule_reach_its_runs_however_large(engine, workflows, sql):
    wanted = nightly(EVERY_SECOND)
    wanted.inputs["text"] = InputIn(type="string")
    wanted.schedule.inputs["text"] = "x" * 5000
    wanted.nodes["act"].payload["text"] = {"$input": "text"}
    await workflows.create(wanted, ME)
    async with engine.running(engine.scheduler(), engine.worker()):

        async def one_ended():
            return await sql.fetchval("SELECT result FROM rota.finished_runs WHERE cause = 'node' LIMIT 1")

        assert "x" * 5000 in await eventually(one_ended)


async def test_the_nominal_date_is_that_of_the_schedules_zone(engine, workflows, sql):
    await workflows.create(nightly(EVERY_SECOND, timezone="Pacific/Kiritimati"), ME)
    async with engine.running(engine.scheduler(), engine.worker()):

        async def one_ended():
            return await sql.fetchrow("SELECT result, nominal_at FROM rota.finished_runs WHERE cause = 'node' LIMIT 1")

        row = await eventually(one_ended)
    assert (row["nominal_at"] + timedelta(hours=14)).date().isoformat() in row["result"]


async def test_a_paused_workflow_starts_nothing_and_goes_on_afterwards(engine, workflows, sql):
    nodes = {
        "first": NodeIn(wait=WaitIn(signal="go")),
        "second": NodeIn(task="rota.echo", after=["first"]),
        "each": NodeIn(task="rota.echo", map=MapIn(items=[1, 2, 3])),
    }
    schedule = WorkflowScheduleIn(cron_expression="0 2 * * *")
    made = await workflows.create(WorkflowIn(name="paused", nodes=nodes, schedule=schedule), ME)
    async with engine.running(engine.scheduler(), engine.worker()):
        started = await workflows.run(made.workflow_id, {}, ME)
        await node_is(workflows, started, "each", "success")
        shown = await workflows.pause("paused", ME, only=None, paused=True)
        assert shown.status == "paused"
        assert await sql.fetchval("SELECT state FROM rota.jobs") == "paused"
        await workflows.signal(started.workflow_run_id, "go", None, ME)
        run = await node_is(workflows, started, "first", "success")
        assert run.paused
        assert run.nodes["second"].status == "waiting"
        await workflows.pause("paused", ME, only=None, paused=False)
        assert (await ended(workflows, started)).status == "success"
    assert await sql.fetchval("SELECT state FROM rota.jobs") == "scheduled"


async def test_a_resume_can_go_on_with_another_version(engine, workflows):
    ran = []

    def act(key):
        ran.append(key)
        if key == "broken":
            raise ValueError(key)
        return key

    def version(**keys):
        before, nodes = None, {}
        for name, key in keys.items():
            nodes[name] = NodeIn(task="act", payload={"key": key}, after=[before] if before else [], max_retries=0)
            before = name
        return WorkflowIn(name="versions", nodes=nodes)

    made = await workflows.create(version(z="one", m="broken", k="three"), ME)
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        started = await workflows.run(made.workflow_id, {}, ME)
        first = await ended(workflows, started)
        assert first.culprit == "m"
        await workflows.change("versions", version(z="one", a="new", m="two", k="three"), ME)
        with pytest.raises(BadInputError):
            await workflows.resume(started.workflow_run_id, ME, asked=ResumeIn(version="nothing"))
        await workflows.resume(started.workflow_run_id, ME, asked=ResumeIn(version="latest"))
        again = await ended(workflows, started)
    assert again.status == "success"
    assert ran == ["one", "broken", "new", "two", "three"]
    assert again.version != first.version
    assert {key: node.generation for key, node in again.nodes.items()} == {"z": 1, "a": 2, "m": 2, "k": 2}


async def test_a_deleted_workflow_ends_with_its_schedule_and_runs(engine, workflows, sql):
    wanted = nightly("0 2 * * *")
    wanted.nodes["wait"] = NodeIn(wait=WaitIn(signal="never"))
    made = await workflows.create(wanted, ME)
    async with engine.running(engine.scheduler(), engine.worker()):
        started = await workflows.run(made.workflow_id, {}, ME)
        await node_is(workflows, started, "wait", "waiting")
        await workflows.delete("nightly", ME)
        assert (await ended(workflows, started)).status == "cancelled"
        with pytest.raises(ConflictError, match="deleted"):
            await workflows.resume(started.workflow_run_id, ME)
    with pytest.raises(NotFoundError):
        await workflows.show("nightly", ME)
    assert await sql.fetchval("SELECT state FROM rota.jobs") == "cancelled"
    await workflows.create(nightly(), ME)


async def test_the_first_end_names_what_started_a_node(engine, workflows, sql):
    nodes = {
        "slow": NodeIn(wait=WaitIn(seconds=2)),
        "quick": NodeIn(task="rota.echo", payload={"n": 7}),
        "after": NodeIn(
            task="rota.echo",
            after=["slow", "quick"],
            trigger="any_succeeded",
            payload={"by": {"$trigger": "key"}, "got": {"$trigger": "result", "path": "n"}},
        ),
    }
    made = await workflows.create(WorkflowIn(name="triggered", nodes=nodes), ME)
    async with engine.running(engine.scheduler(), engine.worker()):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
        after = await engine.run(run.nodes["after"].run_id)
    assert after["result"] == {"by": "quick", "got": 7}
    assert run.nodes["after"].end_time < run.nodes["slow"].end_time


async def test_schedulers_that_know_no_workflows_pass_over_their_runs(engine, workflows, sql):
    await workflows.create(nightly(EVERY_SECOND), ME)
    scheduler = await engine.leading()

    async def came_to_their_gate():
        await scheduler.firer.catch_up()
        await scheduler.promoter.catch_up()
        return await sql.fetch("SELECT DISTINCT gate FROM rota.held_runs")

    rows = await eventually(came_to_their_gate)
    assert [row["gate"] for row in rows] == ["dependent"]
