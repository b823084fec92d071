"""Objects that no run needs are collected, and never one that is needed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

from past_days import TODAY, keep, period
from rota.blobs import BlobMissingError
from rota.domain.ids import day_of, new_id, show_job, show_run


async def exists(blobs, key):
    try:
        await blobs.get(key)
    except BlobMissingError:
        return False
    return True


def result_key(run_id, claim=1, namespace="default"):
    return f"results/{day_of(run_id)}/{namespace}/{show_run(run_id)}-{claim}.json"


def payload_key(job_id):
    return f"payloads/{day_of(job_id)}/{show_job(job_id)}-00000000.json"


async def test_a_result_that_no_run_has_is_collected_at_the_second_look(past, engine, collector, sql):
    run_id = (await past.add(3))[0]
    fenced, kept = result_key(run_id, 1), result_key(run_id, 2)
    for key in (fenced, kept):
        await engine.blobs.put(key, b"1")
    await sql.execute("UPDATE rota.finished_runs SET result_blob = $1", kept)
    assert await collector.tick() == 0
    assert await exists(engine.blobs, fenced)
    assert await collector.tick() == 1
    assert not await exists(engine.blobs, fenced)
    assert await exists(engine.blobs, kept)


async def test_the_result_of_a_run_that_has_not_reported_yet_stays(engine, collector):
    run_id = await engine.submit()
    key = f"results/2026-01-01/default/{run_id}-1.json"
    await engine.blobs.put(key, b"1")
    for _ in range(3):
        assert await collector.tick() == 0
    assert await exists(engine.blobs, key)


async def test_a_submission_between_its_object_and_its_commit_is_waited_for(past, engine, collector, sql):
    job_id = new_id((TODAY - timedelta(days=3)).timestamp())
    key = payload_key(job_id)
    await engine.blobs.put(key, b"{}")
    async with sql.transaction():
        await sql.execute("INSERT INTO rota.payloads (namespace, id, blob) VALUES ('default', $1, $2)", job_id, key)
        for _ in range(3):
            assert await collector.tick() == 0
    for _ in range(3):
        assert await collector.tick() == 0
    assert await exists(engine.blobs, key)


async def test_a_submission_that_was_given_up_leaves_an_object_that_is_collected(engine, collector, sql):
    job_id = new_id((TODAY - timedelta(days=3)).timestamp())
    key = payload_key(job_id)
    await engine.blobs.put(key, b"{}")
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("INSERT INTO rota.payloads (namespace, id, blob) VALUES ('default', $1, $2)", job_id, key)
    assert await collector.tick() == 0
    await transaction.rollback()
    assert await collector.tick() == 1
    assert not await exists(engine.blobs, key)


async def test_an_object_that_was_written_again_is_suspected_anew(engine, collector):
    key = payload_key(new_id((TODAY - timedelta(days=3)).timestamp()))
    await engine.blobs.put(key, b"{}")
    assert await collector.tick() == 0
    await asyncio.sleep(0.01)
    await engine.blobs.put(key, b"{}")
    assert await collector.tick() == 0
    assert await collector.tick() == 1


async def test_logs_without_a_record_are_collected_and_recorded_ones_stay(past, engine, collector, sql):
    run_id = (await past.add(3))[0]
    day = day_of(run_id)
    lost, kept = f"logs/{day}/default/{show_run(run_id)}-7.log", f"logs/{day}/default/{show_run(run_id)}-8.log"
    shared, unshared = f"logs/{day}/together/{uuid4().hex}.log", f"logs/{day}/together/{uuid4().hex}.log"
    for key in (lost, kept, shared, unshared):
        await engine.blobs.put(key, b"x")
    for claim, key in ((8, kept), (9, shared)):
        await sql.execute("INSERT INTO rota.kept_logs VALUES ('default', $1, $2, 1, 1, $3, 0, 1)", run_id, claim, key)
    await collector.tick()
    await collector.tick()
    assert [await exists(engine.blobs, key) for key in (lost, kept, shared, unshared)] == [False, True, True, False]


async def test_objects_of_archived_runs_stay_until_their_own_retention_is_over(
    api, past, engine, archivist, collector, sql
):
    run_id = (await past.add(40))[0]
    key, log = result_key(run_id), f"logs/{day_of(run_id)}/default/{show_run(run_id)}-1.log"
    await sql.execute("UPDATE rota.finished_runs SET result = NULL, result_blob = $1", key)
    for one in (key, log):
        await engine.blobs.put(one, b'"large"')
    await keep(api)
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    for _ in range(2):
        await collector.tick()
    assert (await api.get(f"/v1/runs/{show_run(run_id)}")).json()["result"] == "large"
    await keep(api, results=39, logs=41)
    await collector.tick()
    assert not await exists(engine.blobs, key)
    assert await exists(engine.blobs, log)


async def test_objects_of_an_archive_that_was_written_in_vain_are_collected_and_the_others_stay(
    api, past, engine, archivist, collector
):
    run_id = (await past.add(40))[0]
    await keep(api)
    await archivist.catch_up()
    first = f"{TODAY - timedelta(days=40):archive/year=%Y/month=%m/day=%d}"
    await engine.blobs.put(f"{first}/1-ffff/once-0001.parquet", b"x")
    assert await collector.tick() == 0
    assert await collector.tick() == 1
    assert (await api.get(f"/v1/runs/{show_run(run_id)}")).status_code == 200


async def test_a_payload_goes_with_the_last_run_that_has_it(api, past, archivist, sql):
    payload, shared, job = uuid4(), uuid4(), uuid4()
    for one in (payload, shared):
        await sql.execute("INSERT INTO rota.payloads (namespace, id, body) VALUES ('default', $1, '[1]')", one)
    alone = (await past.add(40, job_id=uuid4(), payload_id=payload))[0]
    await past.add(40, job_id=job, payload_id=shared)
    await past.add(3, job_id=job, payload_id=shared)  # a redrive
    await keep(api)
    await archivist.catch_up()
    assert [row["id"] for row in await sql.fetch("SELECT id FROM rota.payloads")] == [shared]
    assert (await api.get(f"/v1/runs/{show_run(alone)}")).json()["payload"] == [1]
