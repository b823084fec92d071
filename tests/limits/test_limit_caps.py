"""Caps on what is submitted, by the API and by tasks alike."""

from __future__ import annotations

import asyncio

import fanning
import pytest

from rota.clock import DatabaseClock
from rota.compose import worker_gateway
from rota.domain.limits import Limits
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.worker.runners.registry import Runners
from support import eventually, job


@pytest.fixture(autouse=True)
def counted_by_hand(monkeypatch):
    """A count in the background may have twice what comes in meanwhile; here it is counted when a test says so."""
    monkeypatch.setattr("rota.access.limits.backlog.Backlog.interval_seconds", 3600.0)


async def count(api):
    backlog = api.services.gateway.backlog
    await eventually(lambda: not backlog._woken.is_set())
    await backlog.tick()


async def limit(engine, subject="", **limits):
    path = f"/v1/limits/{subject}" if subject else "/v1/limits"
    assert (await engine.api.put(path, json=limits)).status_code == 200
    await count(engine.api)


async def submit(engine, **fields):
    return await engine.api.post("/v1/jobs", json=job(**fields))


# What may wait


async def test_a_namespace_takes_no_more_than_may_wait_in_it(engine):
    await limit(engine, mostWaiting=3)
    for pool in ("default", "mail", "reports"):
        await engine.submit(pool=pool)
    refused = await submit(engine)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "5"
    assert refused.json()["detail"] == "backlog limit reached: 3 runs wait in namespace 'default'"
    later = job(scheduleType="future", scheduleTime="2090-01-01T00:00:00Z")
    assert (await engine.api.post("/v1/jobs", json=later)).status_code == 201, "what comes later does not wait yet"
    broker = engine.broker()
    await engine.join(broker)
    await broker.claim(1)
    await count(engine.api)
    await engine.submit()
    assert (await submit(engine)).status_code == 429
    await limit(engine, mostWaiting=None)
    await engine.submit()


async def test_runs_at_gates_wait_too_and_other_namespaces_do_not_count(engine, sql):
    await sql.execute("INSERT INTO rota.pools (namespace, pool) VALUES ('elsewhere', 'default')")
    for _ in range(2):
        await engine.submit(orderingKey="a")
    await sql.execute(
        "UPDATE rota.held_runs SET namespace = 'elsewhere' WHERE ctid = (SELECT min(ctid) FROM rota.held_runs)"
    )
    await limit(engine, mostWaiting=2)
    await engine.submit()
    assert (await submit(engine)).status_code == 429
    await count(engine.api)
    (shown,) = (await engine.api.get("/v1/limits")).json()["items"]
    assert shown["waiting"] == 2


@pytest.mark.parametrize("whole", [None, 3])
async def test_an_owner_may_have_another_cap_than_the_others(make_api, whole):
    async with make_api(defaults=Limits(most_waiting=1)) as api:
        await api.put("/v1/limits/admin", json={"mostWaiting": 2})
        if whole:
            await api.put("/v1/limits", json={"mostWaiting": whole})
        await count(api)
        statuses = [(await api.post("/v1/jobs", json=job())).status_code for _ in range(3)]
        assert statuses == [201, 201, 429]
        await api.put("/v1/limits/admin", json={"mostWaiting": None})
        await count(api)
        statuses = [(await api.post("/v1/jobs", json=job())).status_code for _ in range(3)]
        assert statuses == ([201, 429, 429] if whole else [201, 201, 201])


async def test_what_is_accepted_while_a_count_begins_is_not_forgotten(engine, sql):
    """Accepted before the count and committed after it: neither has it, but it is known to be under way."""
    await limit(engine, mostWaiting=1)
    backlog = engine.api.services.gateway.backlog
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("LOCK TABLE rota.live_runs IN SHARE MODE")  # can be counted, not written
    accepted = asyncio.create_task(submit(engine))
    await eventually(lambda: backlog.waiting("default", ""))
    await backlog.tick()
    refused = await submit(engine)
    await transaction.rollback()
    assert ((await accepted).status_code, refused.status_code) == (201, 429)
    assert not backlog._under_way


# How large


async def test_a_namespace_may_take_smaller_payloads_than_the_server(engine):
    await limit(engine, largestPayloadBytes=20)
    assert (await submit(engine, payload={"a": "1234567890"})).status_code == 201
    refused = await submit(engine, payload={"a": "12345678901234"})
    assert refused.status_code == 400
    assert refused.json()["errors"] == [{"field": "payload", "message": "is 22 bytes; the limit is 20"}]
    umlauts = '{"name": "n", "scheduleType": "immediate", "task": "rota.echo", "payload": {"a": "äöüäöüä"}}'
    assert (await engine.api.post("/v1/jobs", content=umlauts.encode())).status_code == 400, "bytes, not characters"
    batch = [job(), job(payload={"a": "x" * 100}), job()]
    results = (await engine.api.post("/v1/jobs/batch", json=batch)).json()["results"]
    assert [result.get("error", {}).get("status") for result in results] == [None, 400, None]


async def test_a_change_brings_no_larger_payload_either(engine):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600)
    await limit(engine, "admin", largestPayloadBytes=20)
    changed = await engine.api.put(f"/v1/jobs/{job_id}", json={"payload": {"a": "x" * 100}})
    assert (changed.status_code, changed.json()["errors"][0]["field"]) == (400, "payload")
    assert (await engine.api.put(f"/v1/jobs/{job_id}", json={"payload": {"a": 1}})).status_code == 200


async def test_a_batch_is_no_larger_than_the_tighter_of_two_limits(engine):
    await limit(engine, largestBatch=3)
    assert (await engine.api.post("/v1/jobs/batch", json=[job()] * 3)).status_code == 200
    refused = await engine.api.post("/v1/jobs/batch", json=[job()] * 4)
    assert (refused.status_code, refused.json()["title"]) == (413, "Too large")
    assert refused.json()["detail"] == "4 jobs in one request; the limit is 3"
    await limit(engine, "admin", largestBatch=2)
    assert (await engine.api.post("/v1/jobs/batch", json=[job()] * 3)).status_code == 413


# Fan-out


@pytest.fixture
async def fan_out(engine, tmp_path):
    """A worker wired as in production; runs one of its tasks and gives the run."""
    settings = Settings(home=tmp_path, processes=1, threads=2, most_fan_out=10)
    gateway = worker_gateway(settings, engine.database, shards=64, clock=DatabaseClock())
    runners = Runners(settings, fanning.app)
    parents = {name: runner for name, runner in runners.by_task.items() if name.startswith("fan")}

    async def run(task, *counts, max_retries=3, **payload):
        await gateway.limits.read()
        run_id = await engine.submit(task=task, payload={"counts": counts, **payload}, maxRetries=max_retries)
        return await engine.until(run_id, "success", "failed", within=60)

    async with ServiceGroup(gateway.services), engine.running(engine.worker(runners=parents, gateways=gateway.for_run)):
        yield run
    await runners.close()


@pytest.mark.parametrize("task", ["fan", "fan_in_thread", "fan_in_process"])
async def test_a_run_submits_only_so_many_and_then_fails_for_good(fan_out, sql, task):
    assert (await fan_out(task, 4, 6))["status"] == "success"
    run = await fan_out(task, 4, 5, 2)
    assert (run["status"], len(run["attempts"])) == ("failed", 1), "three retries are left, and none is made"
    words = "a run may submit 10 jobs in all; this one has submitted 9 and tries to submit 2 more"
    assert words in run["error"]
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE task = 'leaf'") == 19


async def test_each_run_counts_for_itself_and_submissions_at_once_count_together(fan_out, sql):
    runs = await asyncio.gather(*(fan_out("fan", 10) for _ in range(3)))
    assert [run["status"] for run in runs] == ["success"] * 3
    assert (await fan_out("fan_at_once", 6, 6))["status"] == "failed"
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE task = 'leaf'") == 36


async def test_only_jobs_that_are_new_count(fan_out, sql):
    run = await fan_out("fan", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, key="the same")
    assert run["status"] == "success"
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE task = 'leaf'") == 1


async def test_a_namespace_and_an_owner_may_have_less(fan_out, engine):
    await limit(engine, mostFanOut=5)
    assert "a run may submit 5 jobs in all" in (await fan_out("fan", 6))["error"]
    await limit(engine, "admin", mostFanOut=0)
    assert "a run may submit 0 jobs in all" in (await fan_out("fan", 1))["error"]


async def test_a_task_may_go_on_after_it_was_refused(fan_out):
    assert (await fan_out("fan_and_bear_it", 8, 8, 2))["result"] == [8, 0, 2]


async def test_caps_hold_for_what_tasks_submit(fan_out, engine):
    await limit(engine, largestBatch=2)
    assert "3 jobs in one request; the limit is 2" in (await fan_out("fan", 3, max_retries=0))["error"]
