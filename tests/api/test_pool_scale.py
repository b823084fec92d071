"""What an autoscaler is told about a pool."""

from __future__ import annotations

import pytest

from rota.store.measure import FigureWriter


async def scale(engine, pool="default", **query):
    answer = await engine.api.get(f"/v1/pools/{pool}/scale", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def fill(engine, sql, count, *, pool="default", waited=1):
    for _ in range(count):
        await engine.submit(pool=pool)
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() - $1 * interval '1 second'", waited)


async def test_an_unknown_pool_needs_no_workers(engine):
    assert await scale(engine, "nothing", min=2) == {
        "wantedWorkers": 0,
        "wantedSlots": 0,
        "queued": 0,
        "running": 0,
        "slots": 0,
        "workers": 0,
        "oldestQueuedSeconds": 0,
        "meanRunSeconds": None,
    }


async def test_a_backlog_needs_workers_for_the_target_lag(engine, sql):
    await fill(engine, sql, 12)
    await sql.execute(
        "INSERT INTO rota.tallies SELECT date_bin('5 s', now() - interval '2 minutes', '2000-01-01Z'), 'default',"
        " 'default', gen_random_uuid(), 10, 8, 1, 1, array_fill(0, ARRAY[32]), array_fill(0, ARRAY[32]), 25"
    )
    found = await scale(engine, targetLagSeconds=5, slotsPerWorker=2)
    assert (found["queued"], found["meanRunSeconds"], found["wantedSlots"]) == (12, 2.5, 6)
    assert found["wantedWorkers"] == 3
    assert found["oldestQueuedSeconds"] >= 1
    assert (await scale(engine, targetLagSeconds=5, slotsPerWorker=2, max=2))["wantedWorkers"] == 2
    assert (await scale(engine, targetLagSeconds=5, slotsPerWorker=2, min=9))["wantedWorkers"] == 9


async def test_the_backlog_of_another_pool_or_namespace_does_not_count(engine, sql):
    await fill(engine, sql, 3, pool="mail")
    assert (await scale(engine))["wantedWorkers"] == 0
    await sql.execute(
        "UPDATE rota.live_runs SET namespace = 'other', lane = rota.lane_of('other', pool, task, priority)"
    )
    assert (await scale(engine, "mail"))["queued"] == 0


async def test_what_runs_counts_and_not_on_workers_that_drain(engine, sql):
    broker = engine.broker()
    worker = await engine.join(broker, slots=2)
    await fill(engine, sql, 2)
    assert len(await broker.claim(2)) == 2
    found = await scale(engine)
    assert (found["running"], found["slots"], found["workers"], found["wantedWorkers"]) == (2, 2, 1, 1)
    await sql.execute("UPDATE rota.workers SET draining = true WHERE id = $1", worker)
    found = await scale(engine, holdSeconds=1)
    assert (found["running"], found["slots"], found["workers"], found["wantedWorkers"]) == (2, 0, 0, 0)


async def test_a_need_is_remembered_by_samples_and_never_for_more_workers_than_there_are(engine, sql):
    broker = engine.broker()
    await engine.join(broker, slots=2)
    await fill(engine, sql, 6)
    await FigureWriter(engine.database).sample()
    await sql.execute("DELETE FROM rota.live_runs")
    assert (await scale(engine, holdSeconds=60))["wantedWorkers"] == 1
    assert (await scale(engine, holdSeconds=0))["wantedWorkers"] == 0


async def test_a_paused_pool_needs_workers_for_what_runs_alone(engine, sql):
    await engine.api.post("/v1/pools/default/pause")
    await fill(engine, sql, 6)
    found = await scale(engine)
    assert (found["queued"], found["wantedWorkers"]) == (6, 0)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"targetLagSeconds": "0"}, "targetLagSeconds"),
        ({"targetLagSeconds": "nan"}, "targetLagSeconds"),
        ({"targetLagSeconds": "inf"}, "targetLagSeconds"),
        ({"slotsPerWorker": "0"}, "slotsPerWorker"),
        ({"slotsPerWorker": "1.5"}, "slotsPerWorker"),
        ({"min": "-1"}, "min"),
        ({"min": "3", "max": "2"}, "min"),
        ({"max": "ten"}, "max"),
        ({"holdSeconds": "601"}, "holdSeconds"),
    ],
)
async def test_what_can_be_no_answer_to_is_refused(engine, query, field):
    answer = await engine.api.get("/v1/pools/default/scale", params=query)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["field"] == field
