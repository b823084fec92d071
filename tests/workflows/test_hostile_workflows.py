"""What one user does, on purpose or not, keeps no other workflow from going on."""

from __future__ import annotations

import pytest
from conducted import ME, ended, node_is

from rota.contract.workflows import InputIn, MapIn, NodeIn, WaitIn, WorkflowIn
from rota.domain.workflows.graph import Graph, GraphNode
from rota.domain.workflows.progress import FlowProgress, NodeState, Start
from rota.errors import BadInputError
from support import eventually

ECHO = {"a": NodeIn(task="rota.echo")}


async def create(workflows, name, nodes, **more):
    return await workflows.create(WorkflowIn(name=name, nodes=nodes, **more), ME)


def test_of_many_wrong_edges_some_are_told():
    with pytest.raises(BadInputError) as refused:
        Graph([GraphNode(f"node_{number}", after=(f"nodes_{number}",)) for number in range(100)])
    assert len(refused.value.fields) == 20


def test_a_long_cycle_is_told_in_short():
    with pytest.raises(BadInputError, match=r"is a cycle: n0 → 9981 more → n9982 → .* → n9999 → n0") as refused:
        Graph([GraphNode(f"n{number}", after=(f"n{(number - 1) % 10_000}",)) for number in range(10_000)])
    assert len(str(refused.value)) < 500


def test_a_node_after_many_is_looked_at_once_for_all_that_ended():
    many = 1000
    asked = []

    class Counted(Graph):
        """A graph that notes whose nodes before are asked for."""

        def __init__(self, nodes):
            super().__init__(nodes)
            before = self.before

            class Before:
                def __getitem__(self, number):
                    asked.append(number)
                    return before[number]

            self.before = Before()

    graph = Counted(
        [
            *(GraphNode(f"n{number}") for number in range(many)),
            GraphNode("z", after=tuple(f"n{n}" for n in range(many))),
        ]
    )
    progress = FlowProgress(graph, {number: NodeState() for number in range(many)}, start=lambda _: Start(), now=1.0)
    for number in range(many - 1):
        progress.hear(number, "success")
    assert not progress.go_on(2 * many)
    assert many not in progress.nodes
    assert asked.count(many) == 1


def test_a_node_may_read_a_thousand_results_and_no_more():
    before = [GraphNode(f"n{number}") for number in range(1001)]
    keys = tuple(node.key for node in before)
    Graph([*before, GraphNode("z", after=keys, reads=keys[:1000])])
    with pytest.raises(BadInputError, match="more than 1000"):
        Graph([*before, GraphNode("z", after=keys, reads=keys)])


@pytest.mark.parametrize("key", ["a/b", "", "a\0", "x" * 101])
async def test_a_key_that_no_workflow_may_have_can_not_be_added(engine, workflows, key):
    made = await create(workflows, "adds", {"plan": NodeIn(task="plan", max_retries=0)})
    tasks = {"plan": lambda: {"$add": {key: {"task": "act"}}}}
    async with engine.running(engine.scheduler(), engine.worker(tasks)):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert run.status == "failed"
    assert "what it added can't be run" in run.nodes["plan"].reason


@pytest.mark.parametrize(
    "payload", [{"x": {"$from": "a", "path": "a\0b"}}, {"x\0y": [{"$from": "a"}]}, {"x": {"$input": "i.\0"}}]
)
async def test_a_name_with_a_zero_character_is_refused(workflows, payload):
    nodes = {**ECHO, "b": NodeIn(task="rota.echo", after=["a"], payload=payload)}
    with pytest.raises(BadInputError, match="zero character"):
        await create(workflows, "zero", nodes, inputs={"i": InputIn()})
    nodes["b"] = NodeIn(task="rota.echo", payload={"x": {"$literal": {"$from": "a", "path": "\0"}}, "y": "\0"})
    await create(workflows, "zero", nodes)


@pytest.mark.parametrize(
    ("until", "status"),
    [("9999-12-31T23:59:59-12:00", "failed"), ("0001-01-01T00:00:00+14:00", "success"), ("0001-01-01", "success")],
)
async def test_a_wait_until_the_end_of_time_can_be_shown(engine, workflows, until, status):
    nodes = {
        "a": NodeIn(task="when"),
        "wait": NodeIn(wait=WaitIn(until={"$from": "a"}), after=["a"]),
    }
    made = await create(workflows, "until", nodes)
    async with engine.running(engine.scheduler(), engine.worker({"when": lambda: until})):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert run.status == status


async def test_a_line_with_zero_characters_is_a_failed_member(engine, workflows):
    await engine.blobs.put("inputs/default/zeros.ndjson", b"1\n\0\0\n2\r\n")
    nodes = {
        "each": NodeIn(
            task="act", payload={"n": {"$item": ""}}, map=MapIn(items={"$object": "zeros.ndjson"}, tolerate_failures=1)
        )
    }
    made = await create(workflows, "zeros", nodes)
    async with engine.running(engine.scheduler(), engine.worker({"act": lambda n: n})):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert (run.status, run.nodes["each"].members.failed, run.nodes["each"].members.success) == ("success", 1, 2)


async def test_maps_that_can_not_be_made_keep_no_other_from_its_turn(engine, workflows, sql):
    nodes = {"each": NodeIn(task="act", payload={"n": {"$item": ""}}, map=MapIn(items=[1, 2]))}
    bad, good = await create(workflows, "bad", nodes), await create(workflows, "good", nodes)
    scheduler = engine.scheduler()
    async with engine.running(scheduler):
        runs = [await workflows.run(bad.workflow_id, {}, ME) for _ in range(25)]
        # Nothing can be made of these any more, whatever is tried.
        await sql.execute("ALTER TABLE rota.live_runs ADD CHECK (name <> 'bad/each') NOT VALID")
        for run in runs:
            await node_is(workflows, run, "each", "running")
    await sql.execute("UPDATE rota.workflow_maps SET shard = 0")  # they come first in the index
    async with engine.running(engine.scheduler(), engine.worker({"act": lambda n: n})):
        run = await ended(workflows, await workflows.run(good.workflow_id, {}, ME))
    assert run.status == "success"


async def test_a_workflow_run_whose_definition_can_not_be_read_keeps_no_other_from_stopping(engine, workflows, sql):
    nodes = {"a": NodeIn(task="nobody"), "b": NodeIn(task="rota.echo", after=["a"])}
    bad, good = await create(workflows, "bad", nodes), await create(workflows, "good", nodes)
    async with engine.running(engine.scheduler()):
        runs = [await workflows.run(made.workflow_id, {}, ME) for made in (bad, good)]
        for run in runs:
            await node_is(workflows, run, "a", "queued")
    await sql.execute("UPDATE rota.workflow_versions SET definition = '{}' WHERE definition LIKE '%\"bad\"%'")
    for run in runs:
        await sql.execute(
            "UPDATE rota.workflow_runs SET stop = 'cancel' WHERE id = $1::uuid",
            run.workflow_run_id.removeprefix("wfr_"),
        )
    async with engine.running(engine.scheduler()):

        async def told():
            return await sql.fetchval("SELECT count(*) FROM rota.workflow_runs WHERE is_swept") == len(runs)

        await eventually(told)
        assert (await ended(workflows, runs[1])).status == "cancelled"
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0


async def test_results_that_nodes_read_come_from_earlier_rounds_too(engine, workflows):
    seen = []
    nodes = {f"n{number}": NodeIn(task="number", payload={"n": number}) for number in range(700)}
    reads = [{"$from": key} for key in nodes]
    nodes["z"] = NodeIn(task="take", after=[*nodes], payload={"found": reads})
    nodes["y"] = NodeIn(task="take", after=["z"], payload={"found": [{"$from": "n7"}, {"$from": "n699"}]})
    made = await create(workflows, "gathers", nodes)
    async with engine.running(
        engine.scheduler(), engine.worker({"number": lambda n: n, "take": lambda found: seen.append(found) or None})
    ):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert (run.status, seen) == ("success", [list(range(700)), [7, 699]])


async def test_a_key_belongs_to_one_workflow_and_one_signal(api):
    nodes = {"wait": {"wait": {"signal": "go"}}}
    for name in ("one", "two"):
        assert (await api.post("/v1/workflows", json={"name": name, "nodes": nodes})).status_code == 201
    headers = {"Idempotency-Key": "k"}
    run = (await api.post("/v1/workflows/one/run", json={}, headers=headers)).json()["workflowRunId"]
    assert (await api.post("/v1/workflows/two/run", json={}, headers=headers)).status_code == 422
    assert (await api.post(f"/v1/workflow-runs/{run}/signals/go", json={}, headers=headers)).status_code == 422
    headers = {"Idempotency-Key": "l"}
    answers = [
        await api.post(f"/v1/workflow-runs/{run}/signals/{name}", json={}, headers=headers) for name in ("x", "y")
    ]
    assert [answer.status_code for answer in answers] == [202, 422]


async def test_nothing_is_made_of_a_map_between_a_resume_and_its_start(engine, workflows, sql):
    nodes = {"each": NodeIn(task="act", payload={"n": {"$item": ""}}, map=MapIn(items=[*range(9)], max_concurrency=3))}
    made = await create(workflows, "between", nodes)
    scheduler = await engine.leading()
    started = await workflows.run(made.workflow_id, {}, ME)
    over = "SELECT ended_at IS NOT NULL FROM rota.workflow_runs"

    async def until(services, query):
        async def served():
            for service in services:
                await service.tick()
            return await sql.fetchval(query)

        await eventually(served)

    conductor, maker = scheduler.conductor, scheduler.member_maker
    await until([conductor, maker], "SELECT made = 3 FROM rota.workflow_maps")
    for _ in range(2):  # the second time, what is to be made again was not made yet
        await workflows.cancel(started.workflow_run_id, ME)
        await until([conductor], over)
        await workflows.resume(started.workflow_run_id, ME)
        await maker.tick()
        assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0
        await until([conductor], "SELECT is_redone FROM rota.workflow_maps")
        assert tuple(await sql.fetchrow("SELECT made, ended FROM rota.workflow_maps")) == (0, 0)
    seen = []
    async with engine.running(engine.worker({"act": lambda n: seen.append(n) or None})):
        await until([conductor, maker], over)
    run = await workflows.show_run(started.workflow_run_id, ME)
    assert (run.status, sorted(seen), run.nodes["each"].members.success) == ("success", [*range(9)], 9)


async def test_a_page_has_no_more_definitions_than_fit_in_memory(workflows):
    nodes = {f"n{number}": NodeIn(task="act", payload={"x": "y" * 60_000}) for number in range(80)}
    made = [await create(workflows, f"large{number}", nodes) for number in range(4)]
    pages, cursor = [], ""
    while cursor is not None:
        page = await workflows.show_all(ME, None, cursor, 100)
        pages.append([one.workflow_id for one in page.items])
        cursor = page.next_cursor
    assert pages == [[one.workflow_id for one in made[:2]], [one.workflow_id for one in made[2:]]]
    for number in range(3):
        await workflows.change("large0", WorkflowIn(name="large0", nodes=nodes, deadline_seconds=number + 1), ME)
    assert [one.number for one in (await workflows.versions("large0", ME)).items] == [4, 3]
