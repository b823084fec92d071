"""Dependencies while everything moves: several schedulers, ends and cancels at the same moment."""

from __future__ import annotations

import asyncio
import random

import pytest

from rota.scheduler.scheduler import Scheduler
from support import eventually, examples, job

NIGHTLY = {"scheduleType": "cron", "cronExpression": "0 0 * * *"}


async def statuses(sql):
    return dict(await sql.fetch("SELECT name, status FROM rota.finished_runs"))


@pytest.mark.parametrize("listening", [True, False])
async def test_jobs_that_depend_on_each_other_at_random_end_as_they_must(engine, sql, listening):
    async def work(fails):
        if fails:
            raise ValueError("it was to fail")

    chance = random.Random(5)
    count = examples(60)
    expected = {}
    for number in range(count):
        needs = sorted(chance.sample(range(number), min(number, chance.choice((0, 1, 1, 2, 3)))))
        fails = chance.random() < 0.15
        await engine.submit(
            name=str(number),
            jobId=f"job-{number}",
            task="work",
            payload={"fails": fails},
            maxRetries=0,
            dependencies=[f"job-{need}" for need in needs],
        )
        met = all(expected[str(need)] == "success" for need in needs)
        expected[str(number)] = ("failed" if fails else "success") if met else "skipped"
    assert set(expected.values()) == {"success", "failed", "skipped"}
    where = engine.url if listening else None
    schedulers = [
        Scheduler(database=engine.database, listen_url=where, lease_seconds=3.0, blobs=engine.blobs) for _ in range(2)
    ]
    async with engine.running(*schedulers, engine.worker({"work": work})):

        async def all_ended():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == count

        await eventually(all_ended, within=60)
    assert await statuses(sql) == expected
    assert await sql.fetchval("SELECT count(*) FROM rota.dependencies") == 0


async def test_a_job_whose_end_comes_with_the_dependency_on_it_is_not_waited_for_in_vain(engine, sql):
    async def work():
        await asyncio.sleep(0.01)

    count = examples(30)
    async with engine.running(engine.scheduler(), engine.worker({"work": work})):
        for number in range(count):
            await engine.submit(name="first", jobId=f"first-{number}", task="work")
            await asyncio.sleep(random.random() * 0.04)
            await engine.submit(name="second", task="work", dependencies=[f"first-{number}"])

        async def all_ended():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'") == 2 * count

        await eventually(all_ended, within=60)


async def test_a_cancel_and_a_dependency_that_come_together_know_of_each_other(engine):
    api = engine.api
    for number in range(examples(20)):
        first = await engine.recurring(name="first", **NIGHTLY)
        cancelled, made = await asyncio.gather(
            api.delete(f"/v1/jobs/{first}"),
            api.post("/v1/jobs", json=job(name="second", **NIGHTLY, dependencies=[first])),
        )
        assert (cancelled.status_code, made.status_code) in ((200, 400), (409, 201)), number


async def test_many_that_begin_to_depend_on_the_same_jobs_at_once_do_not_stop_each_other(engine, sql):
    jobs = [await engine.recurring(name=f"first-{number}", **NIGHTLY) for number in range(6)]
    later = [await engine.recurring(name=f"later-{number}", **NIGHTLY) for number in range(6)]
    calls = [
        engine.api.post("/v1/jobs", json=job(**NIGHTLY, dependencies=random.sample(jobs, 4))) for _ in range(20)
    ] + [engine.api.put(f"/v1/jobs/{one}", json={"dependencies": random.sample(jobs, 4)}) for one in later]
    answers = await asyncio.gather(*calls)
    assert {answer.status_code for answer in answers} == {200, 201}
    assert await sql.fetchval("SELECT count(*) FROM rota.dependencies") == 4 * len(calls)
