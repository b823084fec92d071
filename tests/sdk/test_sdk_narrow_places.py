"""Submitting where it gets narrow: unreadable rows, keys that are held, clocks that differ, refusals."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from remote import remote
from test_transactions import COUNT, asyncpg_transaction

import rota
from engine import plain
from listening import listening
from rota.clock import DatabaseClock
from rota.compose import worker_gateway
from rota.domain.fleet import WorkerProfile
from rota.domain.rights import Caller
from rota.gateway.thread import ThreadGateway
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.store import submit
from rota.store.report.task_transactions import TaskTransactions
from rota.worker.runners.function import FunctionRunner
from rota.worker.worker import Worker
from support import eventually, in_time, job, patience

PATIENCE_SECONDS = 60
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def queueing(sql):
    """Waits until so many sessions of this test's database wait for a lock."""

    async def until(number):
        async def there():
            return await sql.fetchval(WAITING) >= number

        await eventually(there)

    return until


class Numbering(rota.Middleware):
    """Gives every submission a header that is no text."""

    @contextmanager
    def submitting(self, call):
        call.headers["tenant"] = 5
        yield


async def test_a_header_that_is_no_text_is_refused_within_a_transaction(app, send, sql, database_url):
    app.add_middleware(Numbering())
    async with asyncpg_transaction(database_url) as connection:
        with pytest.raises(rota.BadInputError, match="headers: Expected `str`, got `int`"):
            await send.within(connection).submit(to="Ada")
    assert await sql.fetchval(COUNT) == 0


async def test_a_header_that_is_no_text_is_refused_inside_a_task(app, send, engine, sql):
    @app.task(name="parent", retries=0)
    async def parent() -> None:
        await send.submit(to="Ada")

    run = await parent.submit()
    app.add_middleware(Numbering())
    async with engine.running(engine.worker({"parent": parent.function})):
        with pytest.raises(rota.RunFailedError, match="headers: Expected `str`, got `int`"):
            await run.result(timeout=120)
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE task = 'send'") == 0


@pytest.mark.parametrize(
    ("table", "unreadable"),
    [
        ("live_runs", "options = 'no json'"),
        ("live_runs", """options = '{"timeoutSeconds": "long"}'"""),
        ("held_runs", """policies = '{"order": "one", "limit": "k", "most": 0}'"""),
        ("held_runs", """policies = '["order"]'"""),
    ],
)
async def test_a_row_that_can_not_be_read_stops_nobody(engine, sql, table, unreadable):
    async def fail() -> None:
        raise ValueError("it was run")

    # Where its options can't be read it has no retries left; at a gate it waits with what it was given.
    keyed = {"orderingKey": "one"} if table == "held_runs" else {}
    broken = await engine.submit(task="fail", maxRetries=0 if keyed else 5, **keyed)
    assert await sql.execute(f"UPDATE rota.{table} SET {unreadable} WHERE id = $1", plain(broken)) == "UPDATE 1"
    async with engine.running(engine.worker({"fail": fail}, slots=2), engine.scheduler()):
        for key in ({}, {"orderingKey": "one"}, {"orderingKey": "two"}):
            await engine.until(await engine.submit(**key), "success")
        run = await engine.until(broken, "failed")
        assert (run["attempt"], "it was run" in run["error"]) == (1, True)
        await engine.until(await engine.submit(**keyed), "success")
    listed = await engine.api.get("/v1/runs")
    assert (listed.status_code, len(listed.json()["items"])) == (200, 5)


async def test_headers_that_are_no_text_but_stand_in_a_row_stop_nobody(send, engine, sql):
    unreadable = """'{"headers": {"tenant": 5}}'"""
    now, later = await send.submit(to="Ada"), await send.after("1h").submit(to="Grace")
    await sql.execute(f"UPDATE rota.live_runs SET options = {unreadable}")
    await sql.execute(f"UPDATE rota.upcoming_runs SET options = {unreadable}")

    async def show(context: rota.Context, to: str) -> str:
        return f"{to} {dict(context.headers)}"

    async with engine.running(engine.worker({"send": show}), engine.scheduler()):
        assert await now.result(timeout=120) == "Ada {}"
        assert await (await send.submit(to="Alan")).result(timeout=120) == "Alan {}"
    for status, expected in (("success", 2), ("scheduled", 1)):
        listed = await engine.api.get("/v1/runs", params={"status": status})
        assert (listed.status_code, len(listed.json()["items"])) == (200, expected)
    assert (await engine.run(later.id))["payload"] == {"to": "Grace"}


@pytest.mark.parametrize("kind", ["idempotency_key", "unique_key"])
async def test_a_key_that_an_open_transaction_holds_is_answered_and_nobody_else_waits(
    send, engine, database_url, queueing, kind, somebody, monkeypatch
):
    monkeypatch.setattr(submit, "LONGEST_WAIT", f"{2000 * patience():.0f}ms")
    tester = await somebody("submitter", owner="tester")  # keys are each owner's own

    def post(key):
        if kind == "unique_key":
            return tester.post("/v1/jobs", json=job(uniqueKey=key))
        return tester.post("/v1/jobs", json=job(), headers={"Idempotency-Key": key})

    async with asyncpg_transaction(database_url) as connection:
        waiting = []
        for key in ("one", "two"):
            await send.within(connection).with_options(**{kind: key}).submit(to="Ada")
        for number, key in enumerate(("one", "two"), start=1):
            waiting.append(asyncio.create_task(post(key)))
            await queueing(number)
        free = await in_time(engine.api.post("/v1/jobs", json=job()))
        assert free.status_code == 201
        assert not any(task.done() for task in waiting)
        answers = await in_time(asyncio.gather(*waiting))
        assert [(answer.status_code, answer.json()["type"]) for answer in answers] == [(503, "urn:rota:key-held")] * 2
    assert (await post("three")).status_code == 201


async def test_two_open_transactions_that_replace_other_keys_do_not_wait_for_each_other(send, sql, database_url):
    holders = [await send.with_options(unique_key=key).after("5m").submit(to="first") for key in ("one", "two")]
    async with (
        asyncio.timeout(PATIENCE_SECONDS * patience()),
        asyncpg_transaction(database_url) as one,
        asyncpg_transaction(database_url) as two,
    ):
        for connection, key in ((one, "one"), (two, "two")):
            replacing = send.within(connection).with_options(unique_key=key, on_duplicate="replace")
            await replacing.submit(to="second")
    assert [await holder.status() for holder in holders] == ["cancelled", "cancelled"]


async def test_the_same_unique_keys_in_another_order_do_not_deadlock(send, database_url, queueing):
    """One starts at each end, and both wait for the middle: who gets it then wants what the other has."""
    keys = [f"key {number}" for number in range(9)]

    def only(key, **options):
        return send.with_options(unique_key=key, on_duplicate="keep", **options).call(to=key)

    async def submit(calls):
        async with asyncpg_transaction(database_url) as connection:
            return await send.within(connection).submit_many(calls)

    async with asyncpg_transaction(database_url) as connection:
        await send.within(connection).submit_many([only(keys[4])])
        forwards = asyncio.create_task(submit([only(key) for key in keys]))
        await queueing(1)
        by_idempotency = [only(key, idempotency_key=f"{9 - place}") for place, key in enumerate(keys)]
        backwards = asyncio.create_task(submit(by_idempotency))
        await queueing(2)
    first, second = await in_time(asyncio.gather(forwards, backwards))
    assert [run.id for run in first] == [run.id for run in second]


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(hours=-1)], ids=["ahead", "behind"])
async def test_after_within_a_transaction_is_by_the_clock_of_the_database(gateway, send, app, sql, database_url, ahead):
    def now():
        return datetime.now(UTC) + ahead

    with app.using(gateway, ThreadGateway(gateway, asyncio.get_running_loop()), now):
        async with asyncpg_transaction(database_url) as connection:
            await send.within(connection).after("10m").submit(to="Ada")
    left = await sql.fetchval("SELECT run_at - now() FROM rota.runs")
    assert timedelta(minutes=5) < left <= timedelta(minutes=10)


@pytest.fixture
async def team(engine, database_url, tmp_path):
    """Runs transactional tasks of the namespace `team`, wired as in production; gives a gateway for its Ada."""
    transactions = TaskTransactions(database_url, size=2)
    gateway = worker_gateway(Settings(home=tmp_path), engine.database, shards=64, clock=DatabaseClock())

    @asynccontextmanager
    async def serve(**tasks):
        functions = FunctionRunner(tasks, threads=2, transactional=list(tasks), transactions=transactions)
        worker = Worker(
            broker=engine.broker(),
            runners=dict.fromkeys(tasks, functions),
            profile=WorkerProfile("test", os.getpid(), ("team",), ("default",), tuple(tasks), 4),
            drain_seconds=5.0,
            gateways=gateway.for_run,
            leave_process=pytest.fail,
        )
        async with engine.running(worker):
            yield engine.api.services.gateway.for_caller(Caller("team", "ada"))

    async with ServiceGroup(gateway.services):
        yield serve
    await transactions.close()


async def test_what_a_run_submits_within_its_transaction_belongs_where_the_run_does(team, sql):
    app = rota.App("children")

    @app.task(name="child")
    async def child() -> None: ...

    @app.task(name="parent", transactional=True)
    async def parent(context: rota.Context) -> None:
        await child.within(context.connection).submit()

    @app.task(name="parent_sync", transactional=True)
    def parent_sync(context: rota.Context) -> None:
        child.sync.within(context.connection).submit()

    async with team(parent=parent.function, parent_sync=parent_sync.function) as gateway:
        for task in (parent, parent_sync):
            # Only this submission goes through this gateway: what the tasks submit goes through their worker's.
            with app.using(gateway, ThreadGateway(gateway, asyncio.get_running_loop())):
                run = await task.submit()
            assert (await gateway.look(run.id, PATIENCE_SECONDS)).status == "success"
    rows = await sql.fetch("SELECT namespace, owner FROM rota.runs WHERE task = 'child'")
    assert [tuple(row) for row in rows] == [("team", "ada")] * 2


async def test_a_refusal_has_the_same_type_in_a_worker(app, send, engine):
    await send.with_options(unique_key="taken").after("1h").submit(to="holder")
    refused, refused_sync = send.with_options(unique_key="taken"), send.sync.with_options(unique_key="taken")

    @app.task(name="parent", retries=0)
    async def parent() -> None:
        with pytest.raises(rota.DuplicateError):
            await refused.submit(to="Ada")

    @app.task(name="parent_sync", retries=0)
    def parent_sync() -> None:
        with pytest.raises(rota.DuplicateError):
            refused_sync.submit(to="Ada")

    tasks = {task.name: task.function for task in (parent, parent_sync)}
    async with engine.running(engine.worker(tasks)):
        for task in (parent, parent_sync):
            await (await task.submit()).result(timeout=120)


async def test_a_refusal_has_the_same_type_within_a_transaction(send, database_url):
    await send.with_options(unique_key="taken").after("1h").submit(to="holder")
    refused, refused_sync = send.with_options(unique_key="taken"), send.sync.with_options(unique_key="taken")
    async with asyncpg_transaction(database_url) as connection:
        with pytest.raises(rota.DuplicateError):
            await refused.within(connection).submit(to="Ada")

    def submit():
        with psycopg.connect(database_url) as connection, pytest.raises(rota.DuplicateError):
            refused_sync.within(connection).submit(to="Ada")

    await asyncio.to_thread(submit)


async def test_refusals_have_the_same_types_over_http(api):
    async with listening(api.services) as server, remote(server.url) as send:
        await send.with_options(unique_key="taken").after("1h").submit(to="holder")
        refused, refused_sync = send.with_options(unique_key="taken"), send.sync.with_options(unique_key="taken")
        with pytest.raises(rota.DuplicateError, match="has this uniqueKey already"):
            await refused.submit(to="Ada")
        with pytest.raises(rota.DuplicateError):
            await asyncio.to_thread(refused_sync.submit, to="Ada")
        once = send.with_options(idempotency_key="once")
        await once.submit(to="Ada")
        with pytest.raises(rota.KeyReusedError):
            await once.submit(to="Grace")
        with pytest.raises(rota.BadInputError) as caught:
            await send.at(datetime(2001, 1, 1, tzinfo=UTC)).submit(to="Ada")
        assert [field for field, _ in caught.value.fields] == ["scheduleTime"]
