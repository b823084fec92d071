"""Submitting in the caller's own transaction, with each library for real."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Literal

import asyncpg
import msgspec
import psycopg
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from psycopg.rows import dict_row

import rota
from rota.errors import BadInputError, DuplicateError, KeyReusedError, SetupError
from rota.sdk.declared_schedules import describe_app

COUNT = "SELECT count(*) FROM rota.runs"


class UndoneError(Exception):
    """Rolls back."""


def to_sqlalchemy(url, driver):
    host = url.partition("host=")[2]
    return f"postgresql+{driver}://rota@/{url.partition('?')[0].rpartition('/')[2]}?host={host}"


@asynccontextmanager
async def asyncpg_transaction(url):
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool_transaction(url):
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def psycopg_transaction(url):
    async with await psycopg.AsyncConnection.connect(url) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def psycopg_dict_rows(url):
    connection = await psycopg.AsyncConnection.connect(url, row_factory=dict_row)
    async with connection, connection.transaction():
        yield connection


def sqlalchemy_session(driver):
    @asynccontextmanager
    async def transaction(url):
        engine = sqlalchemy.ext.asyncio.create_async_engine(to_sqlalchemy(url, driver))
        try:
            async with sqlalchemy.ext.asyncio.AsyncSession(engine) as session, session.begin():
                yield session
        finally:
            await engine.dispose()

    return transaction


@asynccontextmanager
async def sqlalchemy_connection(url):
    engine = sqlalchemy.ext.asyncio.create_async_engine(to_sqlalchemy(url, "asyncpg"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


ASYNC = {
    "asyncpg": asyncpg_transaction,
    "asyncpg pool": asyncpg_pool_transaction,
    "psycopg": psycopg_transaction,
    "psycopg with rows as dicts": psycopg_dict_rows,
    "SQLAlchemy session on asyncpg": sqlalchemy_session("asyncpg"),
    "SQLAlchemy session on psycopg": sqlalchemy_session("psycopg"),
    "SQLAlchemy connection": sqlalchemy_connection,
}


def in_psycopg(url, work, **options):
    with psycopg.connect(url, **options) as connection, connection.transaction():
        work(connection)


def in_psycopg_with_dict_rows(url, work):
    in_psycopg(url, work, row_factory=dict_row)


def in_sqlalchemy_session(url, work):
    engine = sqlalchemy.create_engine(to_sqlalchemy(url, "psycopg"))
    try:
        with sqlalchemy.orm.Session(engine) as session, session.begin():
            work(session)
    finally:
        engine.dispose()


def in_sqlalchemy_connection(url, work):
    engine = sqlalchemy.create_engine(to_sqlalchemy(url, "psycopg"))
    try:
        with engine.begin() as connection:
            work(connection)
    finally:
        engine.dispose()


SYNC = {
    "psycopg": in_psycopg,
    "psycopg with rows as dicts": in_psycopg_with_dict_rows,
    "SQLAlchemy session": in_sqlalchemy_session,
    "SQLAlchemy connection": in_sqlalchemy_connection,
}


@pytest.fixture
def send(app):
    @app.task(name="send", retries=2, pool="mail")
    async def send(to: str) -> str:
        return to

    return send


@pytest.mark.parametrize("transaction", ASYNC.values(), ids=ASYNC)
async def test_commit_shows_the_job_and_rollback_leaves_nothing(transaction, send, engine, sql, database_url):
    async with transaction(database_url) as connection:
        run = await send.within(connection).submit(to="Ada")
        await send.within(connection).after("1h").submit(to="Grace")
        await send.cron("@daily").submit(to="everybody")
        assert await sql.fetchval(COUNT) == 0
    shown = await engine.run(run.id)
    assert (shown["status"], shown["payload"], shown["pool"], shown["maxRetries"]) == (
        "queued",
        {"to": "Ada"},
        "mail",
        2,
    )
    assert await sql.fetchval(COUNT) == 2

    async def give_up():
        async with transaction(database_url) as connection:
            await send.within(connection).submit(to="nobody")
            raise UndoneError

    with pytest.raises(UndoneError):
        await give_up()
    assert await sql.fetchval(COUNT) == 2


@pytest.mark.parametrize("transaction", SYNC.values(), ids=SYNC)
async def test_the_same_for_code_that_can_not_await(transaction, send, engine, sql, database_url):
    runs = []

    def submit(connection):
        runs.append(send.sync.within(connection).submit(to="Ada"))
        runs.extend(send.sync.within(connection).submit_many([send.call("Grace"), send.call("Alan")]))

    def give_up(connection):
        submit(connection)
        raise UndoneError

    await asyncio.to_thread(transaction, database_url, submit)
    assert [(await engine.run(run.id))["payload"]["to"] for run in runs] == ["Ada", "Grace", "Alan"]
    with pytest.raises(UndoneError):
        await asyncio.to_thread(transaction, database_url, give_up)
    assert await sql.fetchval(COUNT) == 3


async def test_what_was_committed_is_run(send, engine, database_url):
    async with engine.running(engine.worker({"send": send.function}, pools=("mail",)), engine.scheduler()):
        async with asyncpg_transaction(database_url) as connection:
            run = await send.within(connection).submit(to="Ada")
            late = await send.within(connection).with_options(ordering_key="k").after(1.5).submit(to="Grace")
        assert await run.result(timeout=120) == "Ada"
        assert await late.result(timeout=120) == "Grace"


async def test_a_transaction_that_stays_open_past_the_time_of_its_run_only_makes_it_late(send, engine, database_url):
    async with engine.running(engine.worker({"send": send.function}, pools=("mail",)), engine.scheduler()):
        async with asyncpg_transaction(database_url) as connection:
            run = await send.within(connection).after(1.2).submit(to="Ada")
            others = [await send.submit(to="other") for _ in range(20)]
            for other in others:
                await other.result(timeout=120)
            await connection.execute("SELECT pg_sleep(2)")
        assert await run.result(timeout=120) == "Ada"


async def test_keys_hold_within_transactions_as_outside(send, sql, database_url):
    keyed = send.with_options(idempotency_key="once")
    only = send.with_options(unique_key="one")
    first = await keyed.submit(to="Ada")
    holder = await only.at(datetime.now(UTC) + timedelta(days=30)).submit(to="Ada")
    async with asyncpg_transaction(database_url) as connection:
        again = await keyed.within(connection).submit(to="Ada")
        assert again.id == first.id
        with pytest.raises(KeyReusedError):
            await keyed.within(connection).submit(to="Grace")
        with pytest.raises(DuplicateError, match=holder.job_id):
            await only.within(connection).submit(to="Grace")
        kept = await only.within(connection).with_options(on_duplicate="keep").submit(to="Grace")
        assert (kept.id, kept.is_duplicate) == (holder.id, True)
        await only.within(connection).with_options(on_duplicate="replace").submit(to="Grace")
    assert await holder.status() == "cancelled"
    statuses = await sql.fetch("SELECT payload, status FROM rota.runs ORDER BY id")
    assert [tuple(row) for row in statuses] == [
        ('{"to":"Ada"}', "queued"),
        ('{"to":"Grace"}', "queued"),
        ('{"to":"Ada"}', "cancelled"),
    ]


async def test_two_transactions_with_one_key_make_one_job(send, sql, database_url):
    keyed = send.with_options(idempotency_key="once")

    async def submit():
        async with asyncpg_transaction(database_url) as connection:
            run = await keyed.within(connection).submit(to="Ada")
            await connection.execute("SELECT pg_sleep(0.1)")
            return run.id

    assert len(set(await asyncio.gather(*(submit() for _ in range(5))))) == 1
    assert await sql.fetchval(COUNT) == 1


async def test_what_is_refused_does_not_spoil_the_transaction(send, app, sql, database_url):
    @app.task
    async def store(text: str) -> None: ...

    async with asyncpg_transaction(database_url) as connection:
        with pytest.raises(BadInputError, match="the limit is 1048576"):
            await store.within(connection).submit("x" * 1024 * 1024)
        with pytest.raises(BadInputError, match="in the past"):
            await send.within(connection).at(datetime(2001, 1, 1, tzinfo=UTC)).submit(to="Ada")
        await store.within(connection).submit("x" * 500_000)
    assert await sql.fetchval("SELECT octet_length(body) FROM rota.payloads") > 500_000


@pytest.mark.parametrize("transaction", ASYNC.values(), ids=ASYNC)
async def test_a_repeat_gets_its_first_answer_when_its_time_has_passed(transaction, send, app, sql, database_url):
    soon = send.at(app.now() + timedelta(seconds=30)).with_options(idempotency_key="k")
    async with transaction(database_url) as connection:
        first = await soon.within(connection).submit(to="Ada")
    app.now = lambda: datetime.now(UTC) + timedelta(hours=1)
    async with transaction(database_url) as connection:
        assert (await soon.within(connection).submit(to="Ada")).id == first.id
        with pytest.raises(KeyReusedError):
            await soon.within(connection).submit(to="Grace")
        with pytest.raises(BadInputError, match="in the past"):
            await soon.with_options(idempotency_key="other").within(connection).submit(to="Ada")
    assert await sql.fetchval(COUNT) == 1


@pytest.mark.parametrize("transaction", SYNC.values(), ids=SYNC)
async def test_the_same_repeat_from_code_that_can_not_await(transaction, send, app, sql, database_url):
    soon = send.sync.at(app.now() + timedelta(seconds=30)).with_options(idempotency_key="k")
    runs = []

    def submit(connection):
        runs.append(soon.within(connection).submit(to="Ada"))

    await asyncio.to_thread(transaction, database_url, submit)
    app.now = lambda: datetime.now(UTC) + timedelta(hours=1)
    await asyncio.to_thread(transaction, database_url, submit)
    assert runs[0].id == runs[1].id
    assert await sql.fetchval(COUNT) == 1


@pytest.mark.parametrize("missing", ["DROP FUNCTION rota.find_submissions_v1", "SELECT"], ids=["older", "not granted"])
async def test_where_repeats_can_not_be_found_a_refusal_does_not_spoil_the_transaction(
    missing, send, sql, database_url
):
    await sql.execute("DROP ROLE IF EXISTS shop")
    await sql.execute(f"CREATE ROLE shop LOGIN; {missing}")
    await sql.execute("GRANT USAGE ON SCHEMA rota TO shop; GRANT EXECUTE ON FUNCTION rota.submit_v1 TO shop")
    late = send.at(datetime(2001, 1, 1, tzinfo=UTC)).with_options(idempotency_key="k")
    try:
        async with asyncpg_transaction(database_url) as connection:
            await connection.execute("SET LOCAL ROLE shop")
            with pytest.raises(BadInputError, match="in the past"):
                await late.within(connection).submit(to="Ada")
            await send.within(connection).submit(to="Ada")
    finally:
        await sql.execute("DROP OWNED BY shop; DROP ROLE shop")
    assert await sql.fetchval(COUNT) == 1


async def test_without_a_transaction_nothing_is_submitted(send, sql, database_url):
    connection = await asyncpg.connect(database_url)
    with pytest.raises(SetupError, match="has no transaction open"):
        await send.within(connection).submit(to="Ada")
    with pytest.raises(SetupError, match="leave out `.sync`"):  # noqa: RUF043 - any character will do
        await asyncio.to_thread(send.sync.within(connection).submit, to="Ada")
    await connection.close()
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        with pytest.raises(SetupError, match="autocommit"):
            await send.within(connection).submit(to="Ada")
    engine = sqlalchemy.ext.asyncio.create_async_engine(
        to_sqlalchemy(database_url, "asyncpg"), isolation_level="AUTOCOMMIT"
    )
    async with engine.connect() as connection:
        with pytest.raises(SetupError, match="AUTOCOMMIT"):
            await send.within(connection).submit(to="Ada")
    await engine.dispose()
    with pytest.raises(SetupError, match="is not a supported connection"):
        await send.within("postgresql://").submit(to="Ada")
    assert await sql.fetchval(COUNT) == 0


async def test_a_role_needs_nothing_but_the_right_to_call_the_function(send, sql, database_url, postgres):
    await sql.execute("DROP ROLE IF EXISTS shop")
    await sql.execute("CREATE ROLE shop LOGIN")
    try:
        async with asyncpg_transaction(database_url) as connection:
            await connection.execute("SET LOCAL ROLE shop")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with connection.transaction():
                    await send.within(connection).submit(to="Ada")
        await sql.execute("GRANT USAGE ON SCHEMA rota TO shop; GRANT EXECUTE ON FUNCTION rota.submit_v1 TO shop")
        async with asyncpg_transaction(database_url) as connection:
            await connection.execute("SET LOCAL ROLE shop")
            await send.within(connection).submit(to="Ada")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch("SELECT * FROM rota.live_runs")
    except asyncpg.InsufficientPrivilegeError:
        pass  # what was asked last leaves its transaction in ruins
    finally:
        await sql.execute("DROP OWNED BY shop; DROP ROLE shop")


async def test_a_submission_from_within_reaches_schedules_as_well(send, engine, database_url):
    async with asyncpg_transaction(database_url) as connection:
        job = await send.within(connection).cron("0 9 * * MON", timezone="Europe/Berlin", jitter=5).submit(to="Ada")
    shown = (await engine.api.get(f"/v1/jobs/{job.id}")).json()
    assert (shown["cronExpression"], shown["timezone"], shown["jitterSeconds"]) == ("0 9 * * MON", "Europe/Berlin", 5.0)
    assert (shown["payload"], shown["status"], len(shown["nextFireTimes"])) == ({"to": "Ada"}, "scheduled", 5)
    assert isinstance(job, rota.Job)


def deployed(**options):
    """What a worker of another release says of the task `send`."""
    app = rota.App("tests")

    @app.task(name="send", **options)
    async def send(to: str) -> str:
        return to

    return describe_app(app, ("default",))


@pytest.mark.parametrize("count", [1, 3])
async def test_a_job_in_a_transaction_gets_what_workers_announce(app, engine, sql, database_url, count):
    await engine.join(
        engine.broker(), "send", application=deployed(retries=0, pool="mail", tags=["a"], concurrency_limit=2)
    )

    @app.task(name="send", tags=["b"])
    async def send(to: str) -> str:
        return to

    async with asyncpg_transaction(database_url) as connection:
        await send.within(connection).submit_many([send.call(f"user {number}") for number in range(count)])
    async with asyncpg_transaction(database_url) as connection:
        await send.with_options(retries=3, concurrency_limit=None).within(connection).submit("explicit")
    with psycopg.connect(database_url) as connection:
        send.sync.within(connection).submit("sync")
    rows = await sql.fetch(
        "SELECT payload::json ->> 'to' AS to, pool, tags, options, policies FROM rota.runs ORDER BY id"
    )
    assert len(rows) == count + 2
    for row in rows:
        explicit = row["to"] == "explicit"
        assert (row["pool"], row["tags"]) == ("mail", ["b"])
        assert msgspec.json.decode(row["options"]) == ({} if explicit else {"maxRetries": 0})
        assert (row["policies"] is None) == explicit


async def test_a_database_of_the_release_before_has_no_defaults_to_tell(app, send, sql, database_url):
    await sql.execute("DROP FUNCTION rota.task_defaults_v1(text, text)")
    async with asyncpg_transaction(database_url) as connection:
        await send.within(connection).submit("somebody")
        await send.within(connection).submit("somebody else")
    assert await sql.fetchval(COUNT) == 2


@pytest.mark.parametrize(
    "said", ["5", '"x"', "[]", '{"defaults": 5}', '{"defaults": {"maxRetries": []}}', '{"computed": [{}]}'], ids=str
)
async def test_an_announcement_that_makes_no_sense_stops_no_submission(app, send, engine, sql, database_url, said):
    await engine.join(engine.broker(), "send", application=deployed(timeout=9))
    await sql.execute("UPDATE rota.announced_tasks SET tasks = json_build_object('send', $1::text::json)", said)
    async with asyncpg_transaction(database_url) as connection:
        await send.within(connection).submit("somebody")
    assert "timeoutSeconds" not in msgspec.json.decode(await sql.fetchval("SELECT options FROM rota.runs"))


async def test_no_words_of_a_worker_stop_submissions_in_transactions(app, send, engine, sql, database_url):
    other = rota.App("other")

    @other.task(name="odd")
    async def odd(separator: Literal["\x00", ","] = ",") -> None:
        """Splits at \x00."""

    @other.task(name="send", timeout=9)
    async def described(to: str) -> None: ...

    await engine.join(engine.broker(), "odd", "send", application=describe_app(other, ("default",)))
    async with asyncpg_transaction(database_url) as connection:
        await send.within(connection).submit("somebody")
    assert msgspec.json.decode(await sql.fetchval("SELECT options FROM rota.runs"))["timeoutSeconds"] == 9


async def test_a_job_in_a_transaction_depends_on_no_other(send, database_url):
    async with ASYNC["asyncpg"](database_url) as connection:
        with pytest.raises(rota.BadInputError, match="can't be used in a transaction of your own"):
            await send.within(connection).with_options(dependencies=["load"]).submit(to="Ada")
