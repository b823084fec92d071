"""The runs of nodes among all runs: what they say of themselves, and what can be done to them."""

from __future__ import annotations

import pytest

from support import eventually


@pytest.fixture
def world():
    return {"bad": {2}, "seen": [], "joined": 0}


@pytest.fixture
async def failed(api, engine, world):
    """A workflow run with a failed member and a failed node; services go on."""

    def act(n):
        world["seen"].append(n)
        if n in world["bad"]:
            raise ValueError(f"item {n}")

    def join():
        world["joined"] += 1

    nodes = {
        "each": {
            "task": "act",
            "maxRetries": 0,
            "payload": {"n": {"$item": ""}},
            "map": {"items": [1, 2, 3], "tolerateFailures": 1},
        },
        "join": {"task": "join", "after": ["each"]},
    }
    assert (await api.post("/v1/workflows", json={"name": "nightly", "nodes": nodes})).status_code == 201
    async with engine.running(engine.scheduler(), engine.worker({"act": act, "join": join})):
        started = (await api.post("/v1/workflows/nightly/run")).json()["workflowRunId"]
        yield await over(api, started, 1)


async def over(api, run_id, generation):
    async def look():
        run = (await api.get(f"/v1/workflow-runs/{run_id}")).json()
        return run if run["status"] == "success" and run["generation"] == generation else None

    return await eventually(look)


async def member(api, run):
    listed = (await api.get(f"/v1/workflow-runs/{run['workflowRunId']}/nodes/each/members")).json()
    return listed["items"][0]["runId"]


async def test_they_say_what_they_belong_to(api, failed):
    run = (await api.get(f"/v1/runs/{await member(api, failed)}")).json()
    assert (run["workflowRunId"], run["node"], run["index"]) == (failed["workflowRunId"], "each", 1)
    assert run["jobId"] == run["runId"].replace("run_", "job_")
    jobs = (await api.get("/v1/jobs")).json()["items"]
    assert not [job for job in jobs if job["name"].startswith("nightly/")]


async def test_they_are_changed_and_paused_with_their_workflow(api, failed):
    job_id = (await member(api, failed)).replace("run_", "job_")
    for method, path, body in (("POST", "/pause", None), ("PUT", "", {"maxRetries": 5})):
        answer = await api.request(method, f"/v1/jobs/{job_id}{path}", json=body)
        assert (answer.status_code, "workflow" in answer.text) == (409, True), answer.text


@pytest.mark.parametrize("how", ["retry", "redrive", "redrive all"])
async def test_running_one_again_is_a_resume_and_the_join_runs_again(api, failed, world, how, sql):
    world["bad"].clear()
    run_id = await member(api, failed)
    if how == "retry":
        answer = await api.post(f"/v1/runs/{run_id}/retry")
        assert answer.status_code == 202, answer.text
    else:
        body = {"runIds": [run_id]} if how == "redrive" else {"all": True}
        answer = await api.post("/v1/dead-letters/redrive", json=body)
        assert answer.json() == {"count": 1}
    again = await over(api, failed["workflowRunId"], 2)
    assert sorted(world["seen"]) == [1, 2, 2, 3]
    assert world["joined"] == 2
    assert again["nodes"]["each"]["members"]["success"] == 3
    assert await sql.fetchval("SELECT count(*) FROM rota.dead_letters") == 0


async def test_run_now_makes_a_job_of_its_own(api, failed, world):
    world["bad"].clear()
    job_id = (await member(api, failed)).replace("run_", "job_")
    answer = await api.post(f"/v1/jobs/{job_id}/run")
    assert answer.status_code == 202, answer.text
    made = answer.json()["runId"]

    async def ended():
        run = (await api.get(f"/v1/runs/{made}")).json()
        return run if run["status"] == "success" else None

    run = await eventually(ended)
    assert (run["cause"], "workflowRunId" in run) == ("manual", False)
    assert (await api.get(f"/v1/workflow-runs/{failed['workflowRunId']}")).json()["generation"] == 1


async def test_the_run_of_a_workflow_is_resumed_by_a_retry(api, engine, sql, world):
    def act():
        if world["bad"]:
            raise ValueError("no")

    await api.post("/v1/workflows", json={"name": "one", "nodes": {"act": {"task": "act", "maxRetries": 0}}})
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        started = (await api.post("/v1/workflows/one/run")).json()["workflowRunId"]

        async def failed_once():
            return await sql.fetchval("SELECT id FROM rota.finished_runs WHERE task = 'workflow'")

        carrier = await eventually(failed_once)
        world["bad"].clear()
        answer = await api.post(f"/v1/runs/run_{carrier.hex}/retry")
        assert answer.status_code == 202, answer.text
        await over(api, started, 2)
