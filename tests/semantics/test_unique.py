"""Unique jobs: one with a key, while it waits or for a while; another is refused, replaces it, or leaves it."""

from __future__ import annotations

import asyncio

import pytest

from engine import report
from support import eventually, job


async def submit(engine, on_duplicate=None, **fields):
    wanted = {"uniqueKey": "k"} | ({"onDuplicate": on_duplicate} if on_duplicate else {}) | fields
    return await engine.api.post("/v1/jobs", json=job(**wanted))


async def test_a_second_job_with_the_key_is_refused_while_the_first_waits(engine, sql):
    first = (await submit(engine)).json()
    answer = await submit(engine)
    assert answer.status_code == 409
    assert answer.json()["detail"] == f"{first['jobId']} has this uniqueKey already (it is queued)"
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1


async def test_keep_answers_with_the_job_that_waits(engine, sql):
    first = (await submit(engine)).json()
    answer = await submit(engine, "keep")
    assert answer.status_code == 200
    assert answer.json() == {**first, "duplicate": True}
    assert answer.headers["location"] == f"/v1/jobs/{first['jobId']}"
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1


@pytest.mark.parametrize(
    "waits_as", [{}, {"orderingKey": "a"}, {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"}]
)
async def test_replace_takes_the_place_of_the_job_that_waits(engine, sql, waits_as):
    first = (await submit(engine, **waits_as)).json()
    second = (await submit(engine, "replace", payload={"new": True})).json()
    old = await engine.run(first["runId"])
    assert (old["status"], old["reason"]) == (
        "cancelled",
        f"replaced by {second['jobId']}, which has the same unique key",
    )
    assert (await engine.run(second["runId"]))["status"] == "queued"
    third = await submit(engine)
    assert third.status_code == 409
    assert second["jobId"] in third.json()["detail"]


@pytest.mark.parametrize("on_duplicate", ["reject", "replace", "keep"])
async def test_a_job_that_runs_does_not_wait_any_more(engine, on_duplicate):
    first = (await submit(engine)).json()
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    second = await submit(engine, on_duplicate)
    assert second.status_code == 201
    await broker.report([report(claim)])
    assert (await engine.run(first["runId"]))["status"] == "success", "what runs is left alone"


@pytest.mark.parametrize(("on_duplicate", "status"), [("reject", 409), ("keep", 200), ("replace", 201)])
async def test_within_a_window_the_key_is_taken_even_when_the_job_has_ended(engine, sql, on_duplicate, status):
    await submit(engine, uniqueSeconds=3600)
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    await broker.report([report(claim)])
    assert (await submit(engine, on_duplicate, uniqueSeconds=3600)).status_code == status
    await sql.execute("UPDATE rota.submission_keys SET expires_at = now() - interval '1 second'")
    if status != 201:
        assert (await submit(engine, on_duplicate, uniqueSeconds=3600)).status_code == 201


async def test_of_many_at_once_one_gets_in(engine, sql):
    answers = await asyncio.gather(*(submit(engine, "keep") for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["jobId"] for answer in answers}) == 1
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1


async def test_in_a_batch_each_item_meets_the_ones_before_it(engine, sql):
    items = [
        job(uniqueKey="k"),
        job(uniqueKey="k"),
        job(uniqueKey="k", onDuplicate="replace"),
        job(),
        job(uniqueKey="l"),
    ]
    results = (await engine.api.post("/v1/jobs/batch", json=items)).json()["results"]
    assert ["error" in result for result in results] == [False, True, False, False, False]
    assert (await engine.run(results[0]["runId"]))["status"] == "cancelled"
    assert (await engine.run(results[2]["runId"]))["status"] == "queued"


async def test_recurring_jobs_are_unique_as_long_as_they_are_there(engine):
    schedule = {"scheduleType": "cron", "cronExpression": "0 0 1 1 *"}
    first = (await submit(engine, **schedule)).json()
    assert (await submit(engine, **schedule)).status_code == 409
    kept = (await submit(engine, "keep", **schedule)).json()
    assert kept == {"jobId": first["jobId"], "status": "scheduled", "duplicate": True}
    await engine.api.delete(f"/v1/jobs/{first['jobId']}")
    assert (await submit(engine, **schedule)).status_code == 201


async def test_namespaces_and_idempotency_keys_go_with_it(engine):
    headers = {"Idempotency-Key": "once"}
    first = await engine.api.post("/v1/jobs", json=job(uniqueKey="k"), headers=headers)
    again = await engine.api.post("/v1/jobs", json=job(uniqueKey="k"), headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json(), "a repeat of the request is no duplicate of the job"


async def test_a_key_goes_when_its_job_does_not_wait_any_more(engine, sql):
    await submit(engine)
    scheduler = await engine.leading()
    await sql.execute("UPDATE rota.submission_keys SET expires_at = now() - interval '1 second'")
    await scheduler.sweeper.tick()
    assert (await submit(engine)).status_code == 409, "it still waits, so its key stays"
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    await broker.report([report(claim)])
    await sql.execute("UPDATE rota.submission_keys SET expires_at = now() - interval '1 second'")

    async def gone():
        await scheduler.sweeper.tick()
        return await sql.fetchval("SELECT count(*) FROM rota.submission_keys") == 0

    await eventually(gone)
