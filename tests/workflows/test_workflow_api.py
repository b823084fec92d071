"""Workflows over REST: what is refused, who sees what, and a run from its start to its end."""

from __future__ import annotations

import asyncio

import pytest

from support import eventually

NIGHTLY = {
    "name": "nightly",
    "inputs": {"day": {"type": "string", "default": "2027-01-01"}},
    "nodes": {
        "extract": {"task": "rota.echo", "payload": {"day": {"$input": "day"}}},
        "load": {"task": "rota.echo", "after": ["extract"], "payload": {"from": {"$from": "extract"}}},
    },
}


async def create(api, **fields):
    answer = await api.post("/v1/workflows", json=NIGHTLY | fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_run_from_its_start_to_its_end(api, engine):
    made = await create(api)
    async with engine.running(engine.scheduler(), engine.worker()):
        started = await api.post("/v1/workflows/nightly/run", json={"inputs": {"day": "2027-02-03"}})
        assert started.status_code == 202
        run_id = started.json()["workflowRunId"]

        async def over():
            run = (await api.get(f"/v1/workflow-runs/{run_id}")).json()
            return run if run["status"] == "success" else None

        run = await eventually(over)
    assert run["version"] == made["version"]
    node = (await api.get(f"/v1/runs/{run['nodes']['load']['runId']}")).json()
    assert node["payload"] == {"from": {"day": "2027-02-03"}}
    listed = (await api.get("/v1/workflow-runs?workflow=nightly&status=success")).json()["items"]
    assert [one["workflowRunId"] for one in listed] == [run_id]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nodes": {}}, "nodes"),
        ({"nodes": {"a": {"task": "t", "after": ["a"]}}}, "nodes.a.after"),
        ({"nodes": {"a": {"task": "t", "after": ["b"]}, "b": {"task": "t", "after": ["a"]}}}, "nodes"),
        ({"nodes": {"a": {}}}, "nodes.a.task"),
        ({"nodes": {"a": {"task": "t", "payload": {"x": {"$from": "b"}}}}}, "nodes.a"),
        ({"nodes": {"a": {"task": "t", "payload": {"x": {"$input": "y"}}}}}, "nodes.a.payload"),
        ({"nodes": {"a": {"task": "t", "when": {"$input": "day"}}}}, "nodes.a.when"),
        ({"nodes": {"a": {"task": "t", "concurrencyKey": "k"}}}, "nodes.a.concurrencyLimit"),
        ({"nodes": {"a/b": {"task": "t"}}}, None),
        ({"inputs": {"day": {"type": "integer", "default": "x"}}}, "inputs.day"),
    ],
)
async def test_what_can_not_work_is_refused_by_name_and_nothing_is_created(api, change, field):
    answer = await api.post("/v1/workflows", json=NIGHTLY | change)
    assert answer.status_code in (400, 422), answer.text
    if field:
        assert answer.json()["errors"][0]["field"] == field
    assert (await api.get("/v1/workflows")).json()["items"] == []


async def test_a_repeated_node_is_refused(api):
    text = '{"name": "twice", "nodes": {"a": {"task": "t"}, "a": {"task": "u"}}}'
    answer = await api.post("/v1/workflows", content=text)
    assert answer.status_code in (400, 422)


async def test_a_change_makes_a_version_and_the_same_definition_makes_none(api):
    made = await create(api)
    same = (await api.put("/v1/workflows/nightly", json=NIGHTLY)).json()
    assert (same["version"], same["revision"]) == (made["version"], 1)
    changed = NIGHTLY | {"failFast": True}
    answer = await api.put("/v1/workflows/nightly", json=changed, headers={"If-Match": "7"})
    assert answer.status_code == 412
    after = (await api.put("/v1/workflows/nightly", json=changed, headers={"If-Match": "1"})).json()
    assert after["version"] != made["version"]
    versions = (await api.get("/v1/workflows/nightly/versions")).json()["items"]
    assert [one["number"] for one in versions] == [2, 1]


async def test_a_repeat_with_its_key_starts_one_run(api):
    await create(api)
    headers = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(api.post("/v1/workflows/nightly/run", json={}, headers=headers) for _ in range(5)))
    assert len({answer.json()["workflowRunId"] for answer in answers}) == 1
    other = await api.post("/v1/workflows/nightly/run", json={"inputs": {"day": "x"}}, headers=headers)
    assert other.status_code == 422
    assert len((await api.get("/v1/workflow-runs")).json()["items"]) == 1


async def test_another_owner_sees_nothing_of_it(api, somebody):
    await create(api)
    run = (await api.post("/v1/workflows/nightly/run", json={})).json()["workflowRunId"]
    alice = await somebody("submitter", owner="alice")
    assert (await alice.get("/v1/workflows/nightly")).status_code == 404
    assert (await alice.post("/v1/workflows/nightly/run", json={})).status_code == 404
    assert (await alice.get(f"/v1/workflow-runs/{run}")).status_code == 404
    assert (await alice.post(f"/v1/workflow-runs/{run}/cancel")).status_code == 404
    assert (await alice.get("/v1/workflow-runs")).json()["items"] == []


async def test_a_deleted_workflow_stops_its_runs_and_frees_its_name(api, engine):
    await create(api)
    run = (await api.post("/v1/workflows/nightly/run", json={})).json()["workflowRunId"]
    assert (await api.delete("/v1/workflows/nightly")).status_code == 200
    assert (await api.post("/v1/workflows/nightly/run", json={})).status_code == 404
    async with engine.running(engine.scheduler()):

        async def over():
            return (await api.get(f"/v1/workflow-runs/{run}")).json()["status"] == "cancelled"

        await eventually(over)
    await create(api)
