"""A program's open transaction delays what it holds, and nothing else."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import asyncpg
import pytest

from engine import plain, report
from gatekeeping import ids_of, time_of_schedule
from rota.domain.gates import MOST_AT_A_GATE
from rota.domain.run import Outcome
from support import DEADLINE_SECONDS, eventually, in_time, job, patience


@pytest.fixture
async def program(database_url):
    """A connection of a program's own."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@asynccontextmanager
async def holding(program, *runs):
    """The program replaces runs that wait and does not commit: these are deleted, as long as it does not roll back."""
    transaction = program.transaction()
    await transaction.start()
    deleted = await program.fetch(
        "WITH h AS (DELETE FROM rota.held_runs WHERE id = ANY ($1::uuid[]) RETURNING id),"
        " l AS (DELETE FROM rota.live_runs WHERE id = ANY ($1::uuid[]) RETURNING id),"
        " u AS (DELETE FROM rota.upcoming_runs WHERE id = ANY ($1::uuid[]) RETURNING id)"
        " SELECT id FROM h UNION ALL SELECT id FROM l UNION ALL SELECT id FROM u",
        [plain(run) for run in runs],
    )
    assert len(deleted) == len(runs)
    try:
        yield
    finally:
        await transaction.rollback()


async def test_admission_passes_over_a_new_run_that_a_program_holds(gates, program):
    held = await gates.engine.submit(orderingKey="a")
    behind = await gates.engine.submit(orderingKey="a")
    other = await gates.engine.submit(orderingKey="b")
    async with holding(program, held):
        assert await ids_of(await in_time(gates.claim(), 5)) == [other]
        assert (await gates.engine.run(behind))["status"] == "blocked", "it must not overtake"
    assert await ids_of(await gates.claim()) == [held]


async def test_admission_passes_over_a_waiting_run_that_a_program_holds_and_comes_back(gates, program):
    fields = {"orderingKey": "a", "concurrencyKey": "c", "concurrencyLimit": 2}
    first = await gates.engine.submit(**fields)
    (claim,) = await gates.claim()
    held = await gates.engine.submit(**fields)
    await gates.engine.submit(orderingKey="b")
    (other,) = await gates.claim()
    behind_other = await gates.engine.submit(orderingKey="b")
    await gates.admit()
    async with holding(program, held):
        await gates.broker.report([report(claim), report(other)])
        assert await ids_of(await in_time(gates.claim(), 5)) == [behind_other]
        assert await gates.claim() == []

    assert await ids_of(await eventually(gates.claim)) == [held]
    assert first != held


async def test_a_token_is_not_lost_on_a_run_that_a_program_holds(gates, program, sql):
    rate = {"rateLimit": {"limit": 1, "perSeconds": 3600, "key": "r"}}
    await gates.engine.submit(**rate)
    assert len(await gates.claim()) == 1
    held = await gates.engine.submit(**rate)
    await gates.admit()
    async with holding(program, held):
        await sql.execute("UPDATE rota.gates SET counted_at = now() - interval '1 day', wakes_at = now()")
        assert await in_time(gates.claim(), 5) == []

    assert await ids_of(await eventually(gates.claim)) == [held]


async def test_many_held_runs_at_the_head_of_a_shard_hide_none_behind_them(gates, program, sql):
    keys = [f"k{number}" for number in range(30)]
    answers = (await gates.engine.api.post("/v1/jobs/batch", json=[job(orderingKey=key) for key in keys])).json()
    last = await gates.engine.submit(orderingKey="last")
    await sql.execute("UPDATE rota.held_runs SET shard = 7")
    async with holding(program, *(answer["runId"] for answer in answers["results"])):
        assert await ids_of(await in_time(gates.claim(), 5)) == [last]


@pytest.mark.parametrize(
    "fields",
    [
        {"concurrencyKey": "c", "concurrencyLimit": 1},
        {"rateLimit": {"limit": 1, "perSeconds": 0.5, "burst": 1, "key": "r"}},
        {"breaker": {"failures": 1, "cooldownSeconds": 0.5, "key": "b"}},
    ],
    ids=["limit", "rate", "breaker"],
)
async def test_many_held_runs_at_the_head_of_a_gate_hide_none_behind_them(gates, program, fields):
    await gates.engine.submit(**fields, maxRetries=0)
    (claim,) = await gates.claim()
    if "breaker" in fields:
        await gates.broker.report([report(claim, Outcome.failed, error="it failed")])
        await gates.admit()
    jobs = [job(**fields) for _ in range(MOST_AT_A_GATE + 2)]
    answers = (await gates.engine.api.post("/v1/jobs/batch", json=jobs)).json()["results"]
    last = await gates.engine.submit(**fields)
    await gates.admit()
    async with holding(program, *(answer["runId"] for answer in answers)):
        if "concurrencyKey" in fields:
            await gates.broker.report([report(claim)])
        assert await ids_of(await eventually(gates.claim)) == [last]


async def test_admission_rests_while_all_there_is_to_do_is_held(gates, program):
    held = await gates.engine.submit(orderingKey="a")
    async with holding(program, held):
        await gates.admit()
        admitter = gates.scheduler.admitter
        admitter._hinted = False
        await admitter.tick()
        assert not admitter._woken.is_set()
        assert admitter.pause_seconds > 0.1


async def test_a_later_fire_time_does_not_wait_for_the_row_of_the_one_it_replaces(gates, program, sql):
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, overlap="replace")
    runs = []
    for ago in (100, 0):
        runs.append(await time_of_schedule(gates, sql, job_id, ago))
        if ago:
            await gates.admit()
    other = await gates.engine.submit(orderingKey="b")
    async with holding(program, runs[0]):
        await in_time(gates.admit(), 5)
        assert (await gates.engine.run(other))["status"] == "queued"
        assert (await gates.engine.run(runs[0]))["status"] == "queued"

    async def replaced():
        await gates.admit()
        return (await gates.engine.run(runs[0]))["status"] == "cancelled"

    await eventually(replaced)


@pytest.mark.parametrize("action", ["pause", "cancel", "change"])
async def test_what_is_asked_of_another_run_is_done_at_once(gates, program, action):
    """A round that waited for the row of the one would hold that of the other, which comes first."""
    other = await gates.engine.submit(orderingKey="b", name="other")
    held = await gates.engine.submit(orderingKey="a")
    async with holding(program, held):
        admitting = asyncio.create_task(gates.admit())
        await asyncio.wait([admitting], timeout=1)
        assert (await in_time(ask(gates.engine.api, other, action), 5)).is_success
        await admitting


@pytest.mark.parametrize("action", ["pause", "cancel", "change"])
async def test_what_is_asked_of_the_very_run_that_a_program_holds_is_answered_soon(gates, program, action):
    held = await gates.engine.submit(orderingKey="a")
    async with holding(program, held):
        began = time.monotonic()
        answer = await ask(gates.engine.api, held, action)
        assert time.monotonic() - began < DEADLINE_SECONDS / 2 * patience()
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "try again when it has ended" in answer.json()["detail"]
    assert (await ask(gates.engine.api, held, action)).is_success


async def ask(api, run_id, action):
    job_id = run_id.replace("run_", "job_")
    if action == "change":
        return await api.put(f"/v1/jobs/{job_id}", json={"name": "other"})
    return await api.post(f"/v1/runs/{run_id}/cancel" if action == "cancel" else f"/v1/jobs/{job_id}/pause")


async def test_a_run_that_a_program_holds_stops_no_promotion_beside_one_that_is_refused(gates, program, sql):
    refused, held, other = [await gates.engine.submit(scheduleType="future", delaySeconds=60) for _ in range(3)]
    await sql.execute(f"ALTER TABLE rota.live_runs ADD CONSTRAINT refusing CHECK (id <> '{plain(refused)}')")
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now()")
    async with holding(program, held):
        await in_time(gates.scheduler.promoter.tick(), 5)
        assert (await gates.engine.run(other))["status"] == "queued"
    assert (await gates.engine.run(refused))["status"] == "failed"
    await gates.scheduler.promoter.tick()
    assert (await gates.engine.run(held))["status"] == "queued"
