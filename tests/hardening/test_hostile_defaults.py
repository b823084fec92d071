"""Defaults that an administrator gave a database or a role for other programs: none of them changes what Rota does."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import asyncpg
import msgspec
import pytest

import rota
from engine import Engine, plain
from rota.contract.jobs import BatchJobIn
from rota.domain.rights import Caller
from rota.errors import DataRejectedError, LockTimeoutError
from rota.gateway.protocol import OutgoingJob
from rota.gateway.transaction import KnownFunctions, submit_within
from rota.store.postgres.database import Database
from rota.store.postgres.session import own_settings, task_settings
from rota.store.report.task_transactions import TaskTransactions
from rota.worker.runners.function import FunctionRunner
from serving import serving
from support import eventually

HOSTILE = {
    "lock_timeout": "'1ms'",
    "statement_timeout": "'150ms'",
    "idle_in_transaction_session_timeout": "'20ms'",
    "idle_session_timeout": "'200ms'",
    "default_transaction_isolation": "'serializable'",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "search_path": "evil, pg_catalog",
    "timezone": "'Pacific/Kiritimati'",
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "'sql_standard'",
    "row_security": "off",
    "standard_conforming_strings": "off",
    "jit": "on",
    "jit_above_cost": "0",
    "jit_inline_above_cost": "0",
    "jit_optimize_above_cost": "0",
    "enable_indexscan": "off",
    "enable_nestloop": "off",
    "enable_partition_pruning": "off",
    "plan_cache_mode": "force_custom_plan",
    "extra_float_digits": "-15",
}
BACKSLASH = msgspec.Raw(rb'{"back": "\\slash"}')
# Functions that are found first under the hostile search path; PostgreSQL's own have the same names.
EVIL = """
CREATE SCHEMA evil;
CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz '1999-01-01' $$;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT timestamptz '1999-01-01' $$;
CREATE FUNCTION evil.unnest(uuid[]) RETURNS SETOF uuid LANGUAGE sql AS $$ SELECT NULL::uuid $$;
"""


@pytest.fixture
def hostile(sql):
    """Gives the database, or our role in it, hostile defaults."""

    async def set_defaults(defaults: dict[str, str], *, role: bool = False) -> None:
        name = await sql.fetchval("SELECT current_database()")
        await sql.execute(EVIL)
        whose = f"ROLE rota IN DATABASE {name}" if role else f"DATABASE {name}"
        for setting, value in defaults.items():
            await sql.execute(f"ALTER {whose} SET {setting} = {value}")

    return set_defaults


@pytest.fixture(params=["direct", "pgbouncer"])
def reached(request, database_url):
    """The address of the database, itself or behind a pooler."""
    if request.param == "direct":
        return database_url
    return request.getfixturevalue("pgbouncer").url(database_url)


@pytest.fixture
async def connected(reached):
    """Connects after the defaults were set, as Rota and for tasks: database, transactions = await connected()."""
    async with AsyncExitStack() as stack:

        async def connect() -> tuple[Database, TaskTransactions]:
            database = await Database.connect(reached, size=8)
            stack.push_async_callback(database.close)
            transactions = TaskTransactions(reached, size=2, pooled=database.pooled, version=database.version)
            stack.push_async_callback(transactions.close)
            return database, transactions

        yield connect


async def charge(context: rota.Context) -> dict:
    await context.connection.execute("INSERT INTO public.ledger VALUES (1)")
    await asyncio.sleep(0.3)  # longer than the hostile time-outs
    await context.connection.execute("SELECT pg_sleep(0.3)")
    return {"charged": True}


def charge_in_thread(context: rota.Context) -> dict:
    context.connection.execute("INSERT INTO public.ledger VALUES (2)")
    context.connection.execute("SELECT pg_sleep(0.3)")
    return {"charged": True}


def fail_once(context: rota.Context) -> str:
    if context.attempt == 1:
        raise ValueError("once")
    return "then not"


# One job of each kind, by the path it takes: live at once, upcoming, each kind of gate, a retry, a transaction.
KINDS = {
    "immediate": {},
    "delayed": {"scheduleType": "future", "delaySeconds": 2},
    "unique": {"uniqueKey": "u", "onDuplicate": "replace"},
    "ordered": {"orderingKey": "o"},
    "limited": {"concurrencyKey": "c", "concurrencyLimit": 1},
    "rated": {"rateLimit": {"key": "r", "limit": 10, "perSeconds": 1}},
    "retried": {"task": "fail_once", "retry": {"strategy": "fixed", "baseSeconds": 1, "jitter": 0}},
    "large": {"payload": {"text": "x" * 10_000}},
    "charging": {"task": "charge"},
    "charging in a thread": {"task": "charge_in_thread"},
}


@pytest.mark.parametrize("role", [False, True], ids=["of the database", "of the role"])
async def test_a_job_of_each_kind_runs_under_hostile_defaults(hostile, connected, reached, sql, tmp_path, role):
    await sql.execute("CREATE TABLE public.ledger (n integer)")
    await hostile(HOSTILE, role=role)
    database, transactions = await connected()
    functions = {"charge": charge, "charge_in_thread": charge_in_thread, "fail_once": fail_once}
    runner = FunctionRunner(
        functions, threads=2, transactional=["charge", "charge_in_thread"], transactions=transactions
    )
    async with serving(database, tmp_path) as api:
        engine = Engine(database, reached, api)
        worker = engine.worker(runners=dict.fromkeys(functions, runner), blobs=engine.blobs)
        async with engine.running(engine.scheduler(), worker):
            runs = {kind: await engine.submit(name=kind, **fields) for kind, fields in KINDS.items()}
            job_id = await engine.recurring(scheduleType="interval", everySeconds=1)

            async def fired():
                return await sql.fetchval(
                    "SELECT count(*) FROM rota.finished_runs WHERE job_id = $1 AND status = 'success'", plain(job_id)
                )

            ended = {kind: await engine.until(run_id, "success", "failed") for kind, run_id in runs.items()}
            assert {kind: run.get("error") for kind, run in ended.items() if run["status"] != "success"} == {}
            assert await eventually(fired)
    assert sorted(row["n"] for row in await sql.fetch("SELECT n FROM public.ledger")) == [1, 2]


async def test_every_connection_names_its_settings(hostile, connected):
    await hostile(HOSTILE)
    database, transactions = await connected()

    async def shown(connection, settings):
        return {name: await connection.fetchval("SELECT pg_catalog.current_setting($1)", name) for name in settings}

    expected = own_settings(database.version)
    async with database.raw_transaction() as connection:
        assert await shown(connection, expected) == expected
        assert await shown(connection, ["transaction_isolation", "transaction_read_only"]) == {
            "transaction_isolation": "read committed",
            "transaction_read_only": "off",
        }
    claim = None
    async with transactions.begin(claim, plain=False) as transaction:
        expected = task_settings(database.version)
        assert await shown(transaction.connection, expected) == expected
        assert await shown(transaction.connection, ["transaction_isolation", "transaction_read_only"]) == {
            "transaction_isolation": "read committed",
            "transaction_read_only": "off",
        }
    async with transactions.begin(claim, plain=True) as transaction:
        for name, value in {**task_settings(database.version), "transaction_read_only": "off"}.items():
            assert transaction.connection.execute(f"SHOW {name}").fetchone() == (value,)


async def test_a_wait_for_a_row_is_waited_out_under_a_lock_timeout(hostile, connected, sql):
    """A report that waits for its run's row must not count as refused data: the run would be recorded as failed."""
    await hostile({"lock_timeout": "'1ms'"})
    database, _ = await connected()
    await sql.execute("INSERT INTO rota.pools (namespace, pool) VALUES ('n', 'p')")
    async with sql.transaction():
        await sql.execute("UPDATE rota.pools SET paused_at = now()")
        waiting = asyncio.create_task(database.fetch("pause_pool", namespace="n", pool="p", paused=False))

        async def waits():
            return await sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")

        await eventually(waits)
    await waiting


async def test_a_lock_that_is_not_to_be_had_is_no_fault_of_the_data(database, sql):
    await sql.execute("INSERT INTO rota.pools (namespace, pool) VALUES ('n', 'p')")

    async def impatient(statements):
        await statements.fetch("set_lock_timeout", longest="10ms")
        await statements.fetch("pause_pool", namespace="n", pool="p", paused=False)

    async with sql.transaction():
        await sql.execute("UPDATE rota.pools SET paused_at = now()")
        with pytest.raises(LockTimeoutError) as raised:
            await database.transact(impatient)
    assert not isinstance(raised.value, DataRejectedError)


async def test_submitting_inside_ones_own_transaction_works_under_hostile_defaults(hostile, database_url, sql):
    """Isolation, time-outs and whether it may write are the caller's own; everything else is the function's."""
    theirs = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
    await hostile({n: v for n, v in HOSTILE.items() if n not in theirs and not n.startswith("default_transaction")})
    connection = await asyncpg.connect(database_url)
    jobs = [
        BatchJobIn(name="plain", schedule_type="immediate", task="t", payload=BACKSLASH),
        BatchJobIn(name="unique", schedule_type="immediate", task="t", unique_key="u", on_duplicate="replace"),
        BatchJobIn(name="again", schedule_type="immediate", task="t", unique_key="u", on_duplicate="replace"),
        BatchJobIn(name="later", schedule_type="future", task="t", schedule_time=datetime(2031, 2, 3, tzinfo=UTC)),
        BatchJobIn(name="schedule", schedule_type="interval", task="t", every_seconds=60),
    ]
    async with connection.transaction():
        answers = await submit_within(
            connection,
            [OutgoingJob.of(job) for job in jobs],
            Caller("default", "tests"),
            datetime.now(UTC),
            KnownFunctions(),
        )
    await connection.close()
    assert [answer.status for answer in answers] == ["queued", "queued", "queued", "scheduled", "scheduled"]
    rows = await sql.fetch("SELECT name, status, run_at FROM rota.runs")
    found = {row["name"]: (row["status"], row["run_at"]) for row in rows}
    assert {name: status for name, (status, _) in found.items()} == {
        "plain": "queued",
        "unique": "cancelled",
        "again": "queued",
        "later": "scheduled",
    }
    assert found["later"][1] == datetime(2031, 2, 3, tzinfo=UTC)
    assert abs((found["plain"][1] - datetime.now(UTC)).total_seconds()) < 600
