"""Backfills of workflows: a workflow run for each time, and nodes are no business of bulk acts."""

from __future__ import annotations

import threading

from backfilling import create, times_of, until

NODES = {
    "extract": {"task": "act", "payload": {"day": {"$nominal": "date"}, "what": {"$input": "what"}}},
    "load": {"task": "act", "after": ["extract"], "payload": {"day": {"$nominal": "date"}, "what": "loaded"}},
}
NIGHTLY = {
    "name": "nightly",
    "inputs": {"what": {"type": "string"}},
    "schedule": {"cronExpression": "0 2 * * *", "timezone": "UTC", "inputs": {"what": "extracted"}},
    "nodes": NODES,
}
RANGE = {"from": "2026-03-27T00:00:00Z", "to": "2026-03-29T12:00:00Z"}


async def test_a_workflow_run_for_each_time_with_the_inputs_of_the_schedule(api, engine, sql):
    seen, busy, most, lock = [], set(), [0], threading.Lock()

    def act(day, what):
        with lock:
            seen.append((day, what))
            busy.add(day)
            most[0] = max(most[0], len(busy))
            if what == "loaded":
                busy.discard(day)

    assert (await api.post("/v1/workflows", json=NIGHTLY)).status_code == 201
    made = await create(api, workflow="nightly", **RANGE, concurrency=1)
    assert made["workflowId"].startswith("wf_")
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        done = await until(api, made)
        days = ["2026-03-27", "2026-03-28", "2026-03-29"]
        assert seen == [(day, what) for day in days for what in ("extracted", "loaded")]
        assert most == [1]  # one workflow run at a time
        assert done["counts"]["success"] == 3
        assert len(await times_of(sql)) == 3
        assert await sql.fetchval("SELECT count(*) FROM rota.workflow_runs WHERE cause = 'backfill'") == 3
        # A replay of all that ran makes whole workflow runs again, never nodes by themselves.
        again = await until(api, (await api.post("/v1/replays", json={"owner": "admin"})).json())
        assert again["counts"]["made"] == 3
        assert len(seen) == 12


async def test_the_end_of_a_resumed_workflow_run_is_not_counted_again(api, engine, sql):
    fails = {"2026-03-28"}

    def act(day, what):
        if day in fails:
            raise ValueError(day)

    nodes = {key: {**node, "maxRetries": 0} for key, node in NODES.items()}
    await api.post("/v1/workflows", json={**NIGHTLY, "nodes": nodes})
    made = await create(api, workflow="nightly", **RANGE, concurrency=2)
    async with engine.running(engine.scheduler(), engine.worker({"act": act})):
        done = await until(api, made)
        assert (done["counts"]["success"], done["counts"]["failed"]) == (2, 1)
        fails.clear()
        failed = (await api.get("/v1/workflow-runs?status=failed")).json()["items"][0]["workflowRunId"]
        assert (await api.post(f"/v1/workflow-runs/{failed}/resume")).status_code == 202
        again = await until(api, await create(api, workflow="nightly", **RANGE, existing="skip"))
        assert again["counts"]["made"] == 0
    assert (await until(api, made))["counts"] == done["counts"]


async def test_a_workflow_that_is_deleted_ends_its_backfill(api, engine):
    await api.post("/v1/workflows", json=NIGHTLY)
    made = await create(api, workflow="nightly", **RANGE, concurrency=1)
    await api.delete("/v1/workflows/nightly")
    async with engine.running(engine.scheduler(), engine.worker()):
        done = await until(api, made)
    assert (done["status"], done["counts"]["made"]) == ("aborted", 0)


async def test_without_a_schedule_there_is_no_calendar(api):
    await api.post("/v1/workflows", json={"name": "loose", "nodes": {"a": {"task": "act"}}})
    assert (await api.post("/v1/backfills", json={"workflow": "loose", **RANGE})).status_code == 409
    assert (await api.post("/v1/backfills", json={"workflow": "nothing", **RANGE})).status_code == 404
