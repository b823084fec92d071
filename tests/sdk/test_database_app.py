"""`rota.App(database=…)`: submissions straight into the database, without a server."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import asyncpg
import pytest

import rota
from rota.client import retries
from rota.errors import DatabaseUnavailableError, SetupError
from rota.gateway import database as gateway_database
from support import eventually, in_time

WAITING = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@pytest.fixture
def quick(monkeypatch):
    """Pauses that a test can afford."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(retries, "REFUSED_SECONDS", 0.001)


@pytest.fixture
async def shop(database_url):
    async with rota.App("shop", database=database_url, owner="ada", namespace="default") as app:

        @app.task(name="double")
        async def double(number: int) -> int:
            return 2 * number

        app.double = double
        yield app


async def rows(sql):
    return await sql.fetch("SELECT id, owner, task, payload FROM rota.runs ORDER BY id")


async def test_jobs_are_submitted_without_a_server(shop, sql):
    run = await shop.double.submit(21)
    many = await shop.double.submit_many(shop.double.call(number) for number in range(2500))
    later = await shop.double.after("1h").submit(1)
    job = await shop.double.cron("0 9 * * *").submit(1)
    found = {f"run_{row['id'].hex}": row for row in await rows(sql)}
    assert {run.id, later.id, *(one.id for one in many)} == found.keys()
    assert (found[run.id]["owner"], found[run.id]["task"], found[run.id]["payload"]) == (
        "ada",
        "double",
        '{"number":21}',
    )
    assert [found[one.id]["payload"] for one in many] == [f'{{"number":{number}}}' for number in range(2500)]
    assert await sql.fetchval("SELECT 'job_' || replace(id::text, '-', '') FROM rota.jobs") == job.id


async def test_what_is_submitted_at_once_goes_together(shop, sql):
    runs = await asyncio.gather(*(shop.double.submit(number) for number in range(64)))
    assert len({run.id for run in runs}) == 64
    keys = await sql.fetchval("SELECT count(*) FROM rota.submission_keys")
    assert keys < 32, "each travelled by itself"


async def test_keys_and_refusals_are_as_over_http(shop, sql):
    keyed = shop.double.with_options(idempotency_key="k")
    assert (await keyed.submit(1)).id == (await keyed.submit(1)).id
    with pytest.raises(rota.KeyReusedError):
        await keyed.submit(2)
    unique = shop.double.with_options(unique_key="u")
    await unique.submit(1)
    with pytest.raises(rota.DuplicateError):
        await unique.submit(1)
    with pytest.raises(rota.BadInputError, match="in the past") as refused:
        await shop.double.at(shop.now() - timedelta(hours=1)).submit(1)
    assert refused.value.fields[0][0] == "scheduleTime"


async def test_threads_submit_too(shop, sql):
    ids = []

    def submit():
        ids.extend(shop.double.sync.submit(number).id for number in range(10))

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await in_time(asyncio.to_thread(thread.join))
    assert len({*ids}) == 80 == len(await rows(sql))


async def test_a_run_is_looked_at_and_cancelled(shop, sql):
    run = await shop.double.after("1h").submit(1)
    assert await run.status() == "scheduled"
    await run.cancel()
    assert await run.status() == "cancelled"
    with pytest.raises(rota.RunFailedError):
        await run.result(timeout=5)


async def test_a_submission_whose_connection_is_lost_is_repeated_and_made_once(shop, sql, quick):
    await shop.double.submit(0)
    locked = sql.transaction()
    await locked.start()
    await sql.execute("LOCK TABLE rota.live_runs")
    submitting = asyncio.gather(*(shop.double.submit(number) for number in range(1, 4)))
    await eventually(lambda: ended(sql))
    await locked.rollback()
    await in_time(submitting)
    assert len(await rows(sql)) == 4


async def ended(sql):
    return len(await sql.fetch(WAITING))


async def test_what_was_given_up_can_be_repeated(shop, sql, quick):
    await shop.double.submit(0)
    locked = sql.transaction()
    await locked.start()
    await sql.execute("LOCK TABLE rota.live_runs")
    submitting = asyncio.create_task(shop.double.with_options(patience=0).submit(1))
    await eventually(lambda: ended(sql))
    await locked.rollback()
    with pytest.raises(rota.RotaError) as lost:
        await in_time(submitting)
    (run,) = await shop.double.submit_many(lost.value.to_repeat)
    assert (await shop.double.submit_many(lost.value.to_repeat))[0].id == run.id
    assert len(await rows(sql)) == 2


async def test_a_large_payload_without_shared_object_storage_is_refused(shop):
    text = shop.task(name="text")(_text)
    with pytest.raises(rota.BadInputError, match="the limit is 65536"):
        await text.submit("x" * 100_000)


async def _text(text: str) -> None: ...


async def test_an_address_where_no_database_is_says_so():
    app = rota.App(database="postgresql://nobody@127.0.0.1:9/none", patience=0)
    double = app.task(name="double")(_text)
    with pytest.raises(rota.RotaError, match=r"127\.0\.0\.1"):
        await double.submit("x")
    await app.close()


async def test_a_database_without_rota_says_what_to_do(postgres, database_url):
    admin = await asyncpg.connect(postgres.url("postgres"))
    name = f"empty_{id(admin)}"
    await admin.execute(f"CREATE DATABASE {name}")
    try:
        app = rota.App(database=postgres.url(name))
        double = app.task(name="double")(_text)
        with pytest.raises(SetupError, match="has no Rota"):
            await double.submit("x")
        await app.close()
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


async def test_an_older_schema_is_left_as_it_is(shop, sql):
    await sql.execute("DELETE FROM rota.migrations WHERE number = (SELECT max(number) FROM rota.migrations)")
    with pytest.raises(SetupError, match="older than this library"):
        await shop.double.submit(1)


async def test_a_connection_that_is_lost_while_the_schema_is_looked_at_is_tried_again(shop, sql, quick, monkeypatch):
    look, asked = gateway_database.missing_steps, []

    async def lose_the_first(database):
        asked.append(database)
        if len(asked) == 1:
            raise DatabaseUnavailableError("connection was closed")
        return await look(database)

    monkeypatch.setattr(gateway_database, "missing_steps", lose_the_first)
    await shop.double.submit(1)
    assert len(asked) == 2
    assert len(await rows(sql)) == 1


async def test_a_server_and_a_database_are_one_too_many(database_url):
    with pytest.raises(SetupError, match="not both"):
        rota.App(database=database_url, url="http://127.0.0.1:1")


async def test_threads_that_submit_while_the_application_is_closed_wait_for_nothing(shop, sql):
    ended = []

    def submit():
        number = 0
        try:
            while number < 100_000:
                shop.double.sync.submit(number)
                number += 1
        except rota.RotaError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=submit, daemon=True) for _ in range(8)]
    await asyncio.to_thread(shop.double.sync.submit, -1)
    closed = shop.gateways._by_process.copy()
    for thread in threads:
        thread.start()
    await eventually(lambda: sql.fetchval("SELECT count(*) > 50 FROM rota.runs"))
    (gateway,) = closed.values()
    await in_time(asyncio.to_thread(gateway.close))  # as App.close() does
    for thread in threads:
        await in_time(asyncio.to_thread(thread.join))
    assert len(ended) == 8
