"""Days whose retention is over go to object storage, are found there, and leave the database."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta
from uuid import uuid4

import pytest

from databases import pool_on
from past_days import TODAY, keep, period
from rota.archive import layout
from rota.blobs import BlobError, Blobs
from rota.domain.ids import new_id, show_job, show_run
from rota.errors import SetupError
from rota.scheduler.archivist import Archivist
from rota.store.archive import Archives
from support import eventually

STEPS = ("planned", "written", "verified", "detached", "dropped")


async def found(api, run_id, **headers):
    return await api.get(f"/v1/runs/{show_run(run_id)}", headers=headers)


async def test_a_day_whose_time_is_over_is_archived_dropped_and_found_by_id(api, past, archivist):
    job = uuid4()
    old = await past.add(40, 3, attempts=2)
    recurring = await past.add(40, 4, job_id=job)
    young = await past.add(3, 1)
    await keep(api)
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    assert not [name for name in await past.partitions() if period(40) in name]
    for run_id in (*old, *recurring):
        answer = await found(api, run_id)
        assert answer.status_code == 200, answer.text
        run = answer.json()
        assert run["archived"] is True
        assert run["result"] == "done"
        assert run["payload"] == {"a": 1}
        assert len(run["attempts"]) == (2 if run_id in old else 0)
    assert "archived" not in (await found(api, young[0])).json()


async def test_without_a_policy_nothing_is_archived(api, past, archivist):
    await past.add(400)
    await archivist.catch_up()
    assert await past.states() == {}


async def test_a_day_stays_while_one_namespace_with_runs_in_it_keeps_them(api, past, archivist):
    await past.add(40)
    await past.add(40, namespace="other")
    await past.add(41)
    await keep(api)
    await archivist.catch_up()
    assert await past.states() == {period(41): "dropped"}
    await keep(api, 35, namespace="other")
    await archivist.catch_up()
    assert await past.states() == {period(41): "dropped", period(40): "dropped"}


async def test_runs_are_found_by_job_and_by_owner_within_their_month(api, past, archivist):
    jobs = [uuid4(), uuid4()]
    wanted = [await past.add(day, 2, job_id=jobs[0], owner="ada") for day in (40, 45, 50)]
    for day in (40, 45, 50):
        await past.add(day, 3, job_id=jobs[1], owner="bob")
        await past.add(day, 3, owner="bob")
    await keep(api)
    await archivist.catch_up()
    ids = [show_run(run_id) for day in wanted for run_id in sorted(day, reverse=True)]
    of_job = (await api.get(f"/v1/jobs/{show_job(jobs[0])}/runs")).json()
    assert [run["runId"] for run in of_job["items"]] == ids
    assert of_job["archiveRead"] is True
    query = {"owner": "ada", "startTime": (TODAY - timedelta(days=60)).isoformat()}
    of_owner = (await api.get("/v1/runs", params=query)).json()
    assert [run["runId"] for run in of_owner["items"]] == ids
    assert all(run["archived"] for run in of_owner["items"])


async def test_pages_go_through_the_database_and_the_archive_once(api, past, archivist):
    ids = {run_id for day in (2, 40, 41, 43) for run_id in await past.add(day, 5)}
    ids |= {run_id for day in (2, 41) for run_id in await past.add(day, 5, job_id=uuid4())}
    await keep(api)
    await archivist.catch_up()
    seen, cursor = [], None
    while True:
        query = {"startTime": (TODAY - timedelta(days=90)).isoformat(), "limit": 4}
        page = (await api.get("/v1/runs", params=query | ({"cursor": cursor} if cursor else {}))).json()
        seen += [run["runId"] for run in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == [show_run(run_id) for run_id in sorted(ids, reverse=True)]


async def test_other_tenants_and_owners_do_not_find_an_archived_run(api, past, archivist, somebody):
    run_id = (await past.add(40, owner="ada"))[0]
    await keep(api)
    await archivist.catch_up()
    query = {"startTime": (TODAY - timedelta(days=60)).isoformat()}
    for client, sees in ((await somebody("viewer", owner="ada"), True), (await somebody("viewer", owner="bob"), False)):
        assert (await found(client, run_id)).status_code == (200 if sees else 404)
        assert (await client.get(f"/v1/jobs/{show_job(run_id)}")).status_code == (200 if sees else 404)
        assert len((await client.get("/v1/runs", params=query)).json()["items"]) == sees
        assert len((await client.get("/v1/runs", params=query | {"owner": "ada"})).json()["items"]) == sees
    assert (await found(api, run_id, **{"Rota-Namespace": "other"})).status_code == 404
    assert not (await api.get("/v1/runs", params=query, headers={"Rota-Namespace": "other"})).json()["items"]


async def test_what_can_be_done_with_an_archived_run_says_that_it_is_archived(api, past, archivist):
    run_id = show_run((await past.add(40, status="failed"))[0])
    await keep(api)
    await archivist.catch_up()
    for act in ("cancel", "retry"):
        answer = await api.post(f"/v1/runs/{run_id}/{act}")
        assert answer.status_code == 409
        assert "archived" in answer.json()["detail"]


async def test_outcomes_with_a_shorter_retention_are_hidden_and_left_out_of_the_archive(api, past, archivist, sql):
    job = uuid4()
    young = await past.add(5, 2, job_id=job)
    hidden = await past.add(20, 2, job_id=job)
    shown = await past.add(20, 2, status="failed", job_id=job)
    gone = await past.add(40)
    archived = await past.add(40, status="failed")
    await keep(api, 30, history={"success": 10})
    query = {"startTime": (TODAY - timedelta(days=60)).isoformat()}

    async def check(*visible):
        for run_id in (*young, *hidden, *shown, *gone, *archived):
            assert (await found(api, run_id)).status_code == (200 if run_id in visible else 404)
        expected = [show_run(run_id) for run_id in sorted(visible, reverse=True)]
        assert [run["runId"] for run in (await api.get("/v1/runs", params=query)).json()["items"]] == expected
        of_job = [show_run(run_id) for run_id in sorted({*visible} & {*young, *hidden, *shown}, reverse=True)]
        answer = await api.get(f"/v1/jobs/{show_job(job)}/runs")
        assert [run["runId"] for run in answer.json()["items"]] == of_job

    await check(*young, *shown, *archived)
    await archivist.catch_up()
    assert await sql.fetchrow("SELECT state, runs, left_out FROM rota.archives") == ("dropped", 1, 1)
    await check(*young, *shown, *archived)


async def test_a_namespace_that_wants_no_archive_drops_its_runs(api, past, archivist, sql, monkeypatch):
    def missing():
        raise SetupError("no pyarrow")

    monkeypatch.setattr(layout, "arrow", missing)
    run_id = (await past.add(40))[0]
    await keep(api, archive=False)
    assert (await found(api, run_id)).status_code == 404
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    assert await sql.fetchval("SELECT index_key FROM rota.archives") is None


async def test_without_the_library_a_day_that_shall_be_archived_stays(api, past, archivist, sql, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    layout.arrow.cache_clear()
    run_id = (await past.add(40))[0]
    await keep(api)
    await archivist.catch_up()
    assert "rota[archive]" in await sql.fetchval("SELECT error FROM rota.archives")
    assert "archived" not in (await found(api, run_id)).json()


@pytest.mark.parametrize("what", ["upcoming", "dead letter", "workflow", "operation", "log"])
async def test_a_day_that_something_still_needs_stays(api, past, archivist, sql, what):
    run_id = (await past.add(40, status="failed"))[0]
    other = new_id((TODAY - timedelta(days=40) + timedelta(hours=5)).timestamp())
    if what == "upcoming":
        answer = await api.post("/v1/jobs", json={"name": "n", "task": "t"})
        columns = "job_id, job_version, owner, name, task, pool, priority, tags, payload, options, cause, shard"
        await sql.execute(
            f"INSERT INTO rota.upcoming_runs (namespace, id, {columns}, nominal_at, run_at, created_at)"
            f" SELECT namespace, $1, {columns}, now(), now(), now() FROM rota.live_runs WHERE id = $2",
            other,
            layout.UUID(answer.json()["runId"][4:]),
        )
    elif what == "dead letter":
        await sql.execute("INSERT INTO rota.dead_letters VALUES ('default', $1, $1, 'n', 't', 'e')", run_id)
    elif what == "workflow":
        columns = "job_id, job_version, owner, name, task, pool, priority, tags, payload, options, cause, shard"
        await sql.execute(
            f"INSERT INTO rota.workflow_runs (namespace, id, {columns}, nominal_at, run_at, attempt, losses,"
            " created_at, snoozes, carrier_id, workflow_id, version, timezone, root)"
            f" SELECT namespace, $1, {columns}, now(), now(), 0, 0, now(), 0, $1, $1, 'v', 'UTC', $1"
            " FROM rota.finished_runs",
            other,
        )
    elif what == "operation":
        await sql.execute(
            "INSERT INTO rota.operations (namespace, id, kind, owner, shard, state, concurrency, filter)"
            " VALUES ('default', $1, 'replay', 'ada', 0, 'paused', 1, '{}')",
            other,
        )
    else:
        await sql.execute("INSERT INTO rota.log_chunks VALUES ('default', $1, 1, 0, 1, 1, true, 'x')", run_id)
    await keep(api)
    await archivist.catch_up()
    assert await past.states() == {}
    for table in ("upcoming_runs", "dead_letters", "workflow_runs", "operations", "log_chunks"):
        await sql.execute(f"DELETE FROM rota.{table}")
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}


class DiesError(Exception):
    """The process ended here."""


@pytest.mark.parametrize("call", ["note_written", "move", "detach", "drop", "watch"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_death_in_the_middle_of_a_step_loses_nothing_and_doubles_nothing(
    api, past, archivist, engine, monkeypatch, call, when
):
    ids = [*await past.add(40, 3, attempts=1), *await past.add(40, 3, job_id=uuid4())]
    await keep(api)
    real = getattr(Archives, call)

    async def dying(*args, **kwargs):
        if when == "after":
            await real(*args, **kwargs)
        raise DiesError

    with monkeypatch.context() as patch:
        patch.setattr(Archives, call, dying)
        with pytest.raises(DiesError):
            await archivist.catch_up()
        await check_shown_once(api, ids)
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    await check_shown_once(api, ids)


async def check_shown_once(api, ids):
    query = {"startTime": (TODAY - timedelta(days=60)).isoformat()}
    answer = (await api.get("/v1/runs", params=query)).json()
    assert [run["runId"] for run in answer["items"]] == [show_run(run_id) for run_id in sorted(ids, reverse=True)]
    for run_id in ids:
        assert (await found(api, run_id)).status_code == 200


async def test_an_upload_that_is_cut_off_is_made_again(api, past, archivist, monkeypatch):
    ids = await past.add(40, 3)
    await keep(api)
    real, left = Blobs.put, [1]

    async def failing(self, key, body):
        if left and key.endswith("index.msgpack"):
            left.pop()
            raise BlobError("cut off")
        await real(self, key, body)

    monkeypatch.setattr(Blobs, "put", failing)
    await archivist.tick()
    assert await past.states() == {period(40): "planned"}
    assert not left
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    await check_shown_once(api, ids)


@pytest.mark.parametrize("kind", ["once", "jobs", "ids", "attempts", "index"])
async def test_a_corrupted_upload_is_noticed_before_anything_is_dropped(api, past, archivist, sql, monkeypatch, kind):
    ids = [*await past.add(40, 3, attempts=1), *await past.add(40, 3, job_id=uuid4())]
    await keep(api)
    real = Blobs.put

    async def flipping(self, key, body):
        if key.startswith("archive/") and f"/{kind}" in key:
            body = body[:40] + bytes([body[40] ^ 1]) + body[41:]
        await real(self, key, body)

    with monkeypatch.context() as patch:
        patch.setattr(Blobs, "put", flipping)
        for _ in range(6):
            await archivist.tick()
        assert (await past.states())[period(40)] in ("planned", "written")
        assert "checksum differs" in (await sql.fetchval("SELECT error FROM rota.archives") or "checksum differs")
        assert f"finished_runs_{period(40)}" in await past.partitions()
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    await check_shown_once(api, ids)


async def test_a_run_that_ends_while_its_day_is_archived_is_not_lost(api, past, archivist, sql):
    ids = await past.add(40, 2)
    await keep(api)
    while (await past.states()).get(period(40)) != "verified":
        await archivist.tick()
        if (await past.states()).get(period(40)) == "dropped":
            pytest.fail("all steps were made at once")
    ids += await past.add(40, 1)
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    await check_shown_once(api, ids)
    assert await sql.fetchval("SELECT runs FROM rota.archives") == 3


async def test_a_run_that_ends_after_its_day_was_dropped_is_archived_as_well(api, past, archivist, sql):
    ids = await past.add(40, 2)
    await keep(api)
    await archivist.catch_up()
    ids += await past.add(40, 2, job_id=uuid4())
    await check_shown_once(api, ids)
    await archivist.catch_up()
    assert [tuple(row) for row in await sql.fetch("SELECT number, state FROM rota.archives ORDER BY 1")] == [
        (1, "dropped"),
        (2, "dropped"),
    ]
    await check_shown_once(api, ids)


async def test_two_schedulers_at_it_archive_a_day_once(api, past, engine, leader, sql):
    ids = [*await past.add(40, 20), *await past.add(40, 20, job_id=uuid4()), *await past.add(41, 5)]
    await keep(api)
    second = Archivist(database=engine.database, blobs=engine.blobs, leases=leader.leases, share=1.0)
    pair = (leader.archivist, second)
    await asyncio.gather(*(one.catch_up() for one in pair))
    for one in pair:
        await one.catch_up()
    assert await past.states() == {period(40): "dropped", period(41): "dropped"}
    assert [row["number"] for row in await sql.fetch("SELECT number FROM rota.archives")] == [1, 1]
    await check_shown_once(api, ids)


async def test_a_reader_of_history_makes_the_day_wait_and_is_not_disturbed(api, past, archivist, sql):
    await past.add(40)
    await keep(api)
    async with sql.transaction():
        await sql.fetch("SELECT FROM rota.finished_runs LIMIT 0")
        for _ in range(4):
            await archivist.tick()
        assert await past.states() == {period(40): "verified"}
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}


async def test_an_archive_in_s3_is_written_checked_and_read(api, past, archivist, bucket, make_api):
    ids = [*await past.add(40, 3), *await past.add(40, 3, job_id=uuid4())]
    await keep(api)
    store = Blobs.open(f"s3://{bucket}/deep")
    archivist._blobs = store
    await archivist.catch_up()
    assert await past.states() == {period(40): "dropped"}
    api.services.archive_lookup._blobs = store
    await check_shown_once(api, ids)


KILLED = """
import asyncio, os, signal, sys
from rota.blobs import Blobs
from rota.scheduler.scheduler import Scheduler
from rota.store.postgres.database import Database
real = Blobs.put
async def put(self, key, body):
    await real(self, key, body)
    if "/once-" in key:
        os.kill(os.getpid(), signal.SIGKILL)
Blobs.put = put
async def main():
    database = await Database.connect(sys.argv[1])
    scheduler = Scheduler(database=database, listen_url=None, lease_seconds=600, blobs=Blobs.open(sys.argv[2]))
    await scheduler.leases.tick()
    scheduler.archivist._share = 1.0
    await scheduler.archivist.catch_up()
asyncio.run(main())
"""


async def test_another_scheduler_goes_on_after_a_kill_in_the_middle_of_writing(api, past, database_url, engine):
    ids = await past.add(40, 5)
    await keep(api)
    where = str(engine.blobs._directory)
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, database_url, where], check=False, env=os.environ
    )
    assert killed.returncode == -signal.SIGKILL
    assert await past.states() == {period(40): "planned"}
    other = engine.scheduler(lease_seconds=1.0).archivist
    other._share = 1.0

    async def archived():
        await other._leases.tick()
        await other.catch_up()
        return await past.states() == {period(40): "dropped"}

    await eventually(archived, within=60)
    await check_shown_once(api, ids)


async def test_behind_a_pooler_a_day_is_archived_dropped_and_restored(api, past, leader, database_url, pgbouncer, sql):
    ids = [*await past.add(40, 3, attempts=1), *await past.add(40, 3, job_id=uuid4())]
    await keep(api)
    async with pool_on(pgbouncer.url(database_url)) as database:
        assert database.pooled
        blobs = api.services.blobs
        archivist = Archivist(database=database, blobs=blobs, leases=leader.leases, share=1.0)
        await archivist.catch_up()
        assert await past.states() == {period(40): "dropped"}
        await check_shown_once(api, ids)
        assert (await api.post(f"/v1/archive/{period(40)}/restore", json={})).status_code == 202
        await archivist.catch_up()
    assert await past.states() == {period(40): "restored"}
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == len(ids)
