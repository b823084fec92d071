"""Transactional tasks where it gets narrow: stopped midway, ended by themselves, messy, abandoned, disconnected."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest
from psycopg.rows import dict_row

import rota
from support import eventually, in_time

AT_ONCE = {"strategy": "fixed", "baseSeconds": 0, "jitter": 0}


@pytest.fixture
def ended(engine):
    """Submits a run of the task and waits for its end."""

    async def wait(**fields):
        return await engine.until(await engine.submit(task="charge", **fields), "success", "failed", "cancelled")

    return wait


# Stopped midway


def late(context: rota.Context) -> str:
    context.connection.execute("INSERT INTO ledger VALUES (1)")
    context.connection.execute("SELECT pg_sleep(2)")
    return "late"


async def late_and_deaf(context: rota.Context) -> str:
    await context.connection.execute("INSERT INTO ledger VALUES (1)")
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return "late"


@pytest.mark.parametrize("function", [late, late_and_deaf])
async def test_a_task_that_returns_after_its_time_leaves_nothing_and_is_no_success(serving, ended, ledger, function):
    async with serving(function):
        run = await ended(timeoutSeconds=0.3, maxRetries=0)
    assert (run["status"], await ledger()) == ("failed", [])
    assert "timed out after 0.3 s" in run["error"]


async def test_a_task_that_stops_because_it_was_asked_to_leaves_nothing_and_is_no_success(engine, serving, ledger):
    begun = threading.Event()

    def until_cancelled(context: rota.Context) -> str:
        context.connection.execute("INSERT INTO ledger VALUES (1)")
        begun.set()
        while not context.cancelled:
            context.connection.execute("SELECT pg_sleep(0.02)")
        return "stopped early"

    async with serving(until_cancelled):
        run_id = await engine.submit(task="charge")
        await eventually(begun.is_set)
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        run = await engine.until(run_id, "cancelled", "success", "failed")
    assert (run["status"], await ledger()) == ("cancelled", [])


async def test_an_async_task_that_looks_why_it_was_stopped_and_returns_is_no_success(engine, serving, ledger):
    begun = asyncio.Event()

    async def look(context: rota.Context) -> str:
        await context.connection.execute("INSERT INTO ledger VALUES (1)")
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "cancelled" if context.cancelled else "who knows"

    async with serving(look):
        run_id = await engine.submit(task="charge")
        await in_time(begun.wait())
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        run = await engine.until(run_id, "cancelled", "success", "failed")
    assert (run["status"], await ledger()) == ("cancelled", [])


# Ended by the task itself


def by_autocommit(connection):
    connection.autocommit = True


def by_commit(connection):
    connection.commit()


def by_rollback(connection):
    connection.rollback()


def by_statement(connection):
    connection.execute("COMMIT")


def charging_then(end):
    """Charges once per attempt and then tries to end the transaction; without `end` it fails at first."""

    def charge(context: rota.Context, cents: int = 1, fail: bool = False) -> None:
        context.connection.execute("INSERT INTO ledger VALUES (%s)", (cents,))
        if fail and context.attempt == 1:
            raise ValueError("failed after the charge")
        if not fail and cents == 1:
            end(context.connection)

    return charge


@pytest.mark.parametrize(
    ("end", "left"), [(by_autocommit, []), (by_commit, []), (by_rollback, []), (by_statement, [1])]
)
async def test_whoever_ends_the_transaction_fails_for_good_and_charges_at_most_once(serving, ended, ledger, end, left):
    async with serving(charging_then(end)):
        run = await ended(maxRetries=2, retry=AT_ONCE)
        assert (run["status"], run["attempt"]) == ("failed", 1)
        assert "must neither commit nor roll back" in run["error"]
        assert await ledger() == left
        # Whoever comes next gets a connection on which nothing of that is left.
        after = await ended(payload={"cents": 5, "fail": True}, maxRetries=1, retry=AT_ONCE)
        assert (after["status"], after["attempt"]) == ("success", 2)
    assert await ledger() == [*left, 5]


async def test_who_is_refused_to_commit_and_goes_on_is_charged_with_its_success(serving, ended, ledger):
    def insist(connection):
        for end in (by_autocommit, by_commit, by_rollback):
            with pytest.raises(rota.RotaError, match="neither commit nor roll back"):
                end(connection)

    async with serving(charging_then(insist)):
        run = await ended(maxRetries=2, retry=AT_ONCE)
    assert (run["status"], run["attempt"], await ledger()) == ("success", 1, [1])


async def test_a_with_block_around_the_connection_ends_nothing(serving, ended, ledger):
    def charge(context: rota.Context) -> None:
        with context.connection as connection:
            connection.execute("INSERT INTO ledger VALUES (1)")
        if context.attempt == 1:
            raise ValueError("failed after the block")
        context.connection.execute("INSERT INTO ledger VALUES (2)")

    async with serving(charge):
        run = await ended(maxRetries=1, retry=AT_ONCE)
    assert (run["status"], run["attempt"], await ledger()) == ("success", 2, [1, 2])


async def test_a_commit_by_statement_in_an_async_task_fails_its_run_for_good(serving, ended, ledger):
    async def charge(context: rota.Context) -> None:
        await context.connection.execute("INSERT INTO ledger VALUES (1)")
        await context.connection.execute("COMMIT")

    async with serving(charge):
        run = await ended(maxRetries=2, retry=AT_ONCE)
    assert (run["status"], run["attempt"], await ledger()) == ("failed", 1, [1])
    assert "must neither commit nor roll back" in run["error"]


def commit_and_fail(context: rota.Context) -> None:
    context.connection.execute("INSERT INTO ledger VALUES (1)")
    context.connection.execute("COMMIT")
    raise ValueError("after the commit")


async def commit_and_fail_async(context: rota.Context) -> None:
    await context.connection.execute("INSERT INTO ledger VALUES (1)")
    await context.connection.execute("COMMIT")
    raise ValueError("after the commit")


@pytest.mark.parametrize("function", [commit_and_fail, commit_and_fail_async])
async def test_who_commits_by_statement_and_then_fails_is_not_tried_again_either(serving, ended, ledger, function):
    async with serving(function):
        run = await ended(maxRetries=2, retry=AT_ONCE)
    assert (run["status"], run["attempt"], await ledger()) == ("failed", 1, [1])


# What a session remembers


def make_a_mess(context: rota.Context) -> list:
    found = context.connection.execute(
        "SELECT current_setting('search_path'), to_regclass('pg_temp.scratch')::text, pg_try_advisory_xact_lock(7)"
    ).fetchone()
    context.connection.execute("SET search_path = elsewhere; CREATE TEMP TABLE scratch (i int)")
    context.connection.execute("SELECT pg_advisory_lock(7)")
    context.connection.row_factory = dict_row
    return list(found)


async def make_a_mess_async(context: rota.Context) -> list:
    found = await context.connection.fetchrow(
        "SELECT current_setting('search_path'), to_regclass('pg_temp.scratch')::text, pg_try_advisory_xact_lock(7)"
    )
    await context.connection.execute("SET search_path = elsewhere; CREATE TEMP TABLE scratch (i int)")
    await context.connection.execute("SELECT pg_advisory_lock(7)")
    return list(found)


@pytest.mark.parametrize("function", [make_a_mess, make_a_mess_async])
async def test_what_a_task_leaves_in_its_session_does_not_reach_the_next(serving, ended, function, sql):
    path = await sql.fetchval("SHOW search_path")
    async with serving(function):
        runs = [await ended(maxRetries=0) for _ in range(3)]
    assert [(run["status"], run.get("result")) for run in runs] == [
        ("success", [path, None, True]),
    ] * 3


async def test_a_task_that_is_given_up_lets_go_of_its_locks_so_that_its_retry_succeeds(serving, ended, sql):
    await sql.execute("CREATE TABLE accounts (id int, cents int); INSERT INTO accounts VALUES (1, 0)")

    def add(context: rota.Context) -> None:
        context.connection.execute("UPDATE accounts SET cents = cents + 1 WHERE id = 1")
        if context.attempt == 1:
            context.connection.execute("SELECT pg_sleep(60)")

    async with serving(add, grace_seconds=0.2, most_abandoned=3):
        run = await ended(timeoutSeconds=1, maxRetries=1, retry=AT_ONCE)
    assert (run["status"], run["attempt"]) == ("success", 2)
    assert await sql.fetchval("SELECT cents FROM accounts") == 1


async def test_a_repeatable_read_that_lasts_longer_than_a_beat_succeeds(engine, serving, ledger, sql):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def long(context: rota.Context) -> None:
        await context.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await context.connection.execute("INSERT INTO ledger VALUES (1)")
        begun.set()
        await go_on.wait()

    async with serving(long, broker=engine.broker(lease_seconds=3)):
        run_id = await engine.submit(task="charge", maxRetries=0)
        await in_time(begun.wait())
        beats = {await sql.fetchval("SELECT beat_at FROM rota.workers")}

        async def beaten():
            beats.add(await sql.fetchval("SELECT beat_at FROM rota.workers"))
            return len(beats) > 2

        await eventually(beaten)
        go_on.set()
        run = await engine.until(run_id, "success", "failed")
    assert (run["status"], await ledger()) == ("success", [1])


async def test_middleware_that_swallows_an_error_does_not_make_a_success_of_it(serving, ended, ledger):
    class Swallowing(rota.Middleware):
        @asynccontextmanager
        async def running(self, _context):
            with suppress(ValueError):
                yield

    async def fail(context: rota.Context) -> None:
        await context.connection.execute("INSERT INTO ledger VALUES (1)")
        raise ValueError("after the charge")

    async with serving(fail, around=[Swallowing()]):
        run = await ended(maxRetries=0)
    assert (run["status"], await ledger()) == ("failed", [])
    assert "a middleware swallowed the exception" in run["error"]


def charge(context: rota.Context) -> None:
    context.connection.execute("INSERT INTO ledger VALUES (1)")


async def charge_async(context: rota.Context) -> None:
    await context.connection.execute("INSERT INTO ledger VALUES (1)")


@pytest.mark.parametrize("function", [charge, charge_async])
async def test_a_connection_that_died_while_idle_costs_no_attempt(serving, ended, ledger, sql, function):
    of_tasks = "FROM pg_stat_activity WHERE application_name = 'rota-task' AND datname = current_database()"
    async with serving(function):
        assert (await ended())["status"] == "success"
        await sql.execute(f"SELECT pg_terminate_backend(pid) {of_tasks}")

        async def gone():
            return await sql.fetchval(f"SELECT count(*) = 0 {of_tasks}")

        await eventually(gone)
        run = await ended(maxRetries=0)
    assert (run["status"], await ledger()) == ("success", [1, 1])


# The commit

# A deferred trigger: the commit fails, or loses its connection, after the run's completion.
AT_COMMIT = """
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.cents = 13 THEN
        RAISE EXCEPTION 'not thirteen' USING ERRCODE = 'invalid_text_representation';
    ELSIF NEW.cents = 14 THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
   FOR EACH ROW EXECUTE FUNCTION at_commit();
"""


def charge_badly(context: rota.Context, cents: int) -> None:
    context.connection.execute("INSERT INTO ledger VALUES (%s)", (cents if context.attempt == 1 else 1,))


async def charge_badly_async(context: rota.Context, cents: int) -> None:
    await context.connection.execute("INSERT INTO ledger VALUES ($1)", cents if context.attempt == 1 else 1)


@pytest.mark.parametrize("function", [charge_badly, charge_badly_async])
@pytest.mark.parametrize(("cents", "why"), [(13, "not thirteen"), (14, "terminat|closed")])
async def test_a_commit_that_fails_or_is_cut_off_leaves_nothing_and_is_tried_again(
    serving, ended, ledger, sql, function, cents, why
):
    await sql.execute(AT_COMMIT)
    async with serving(function):
        run = await ended(payload={"cents": cents}, maxRetries=1, retry=AT_ONCE)
    assert (run["status"], run["attempt"], await ledger()) == ("success", 2, [1])
    (failed,) = run["attempts"]
    assert failed["outcome"] == "failed"
    assert re.search(why, failed["error"])


async def swallow_an_error(context: rota.Context) -> str:
    await context.connection.execute("INSERT INTO ledger VALUES (1)")
    with suppress(asyncpg.DivisionByZeroError):
        await context.connection.execute("SELECT 1 / 0")
    return "as if nothing had happened"


async def save_itself(context: rota.Context) -> str:
    await context.connection.execute("INSERT INTO ledger VALUES (1)")
    with suppress(asyncpg.DivisionByZeroError):
        async with context.connection.transaction():
            await context.connection.execute("SELECT 1 / 0")
    return "saved"


@pytest.mark.parametrize(
    ("function", "status", "left"), [(swallow_an_error, "failed", []), (save_itself, "success", [1])]
)
async def test_an_error_that_is_caught_fails_the_run_unless_a_savepoint_held_it(
    serving, ended, ledger, function, status, left
):
    async with serving(function):
        run = await ended(maxRetries=0)
        assert (run["status"], await ledger()) == (status, left)
        assert (await ended(maxRetries=0))["status"] == status, "the connection is as good as before"


ODD = ["it's", 'a "quote"', "back\\slash", "; DROP TABLE ledger; --", "$1 $$ %s", "\x00\x7f é 漢 \U0001f600", ""]


async def return_odd_text(context: rota.Context) -> list:
    await context.connection.execute("SET standard_conforming_strings = off; SET datestyle = 'SQL, DMY'")
    await context.connection.execute("INSERT INTO ledger VALUES (1)")
    return ODD


async def test_a_result_is_recorded_as_it_is_whatever_the_session_makes_of_text(serving, ended, ledger):
    async with serving(return_odd_text):
        run = await ended(maxRetries=0)
    assert (run["status"], run["result"], await ledger()) == ("success", ODD, [1])
