"""The partitions of history and logs: made before they are needed or when they are, dropped when they are over."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from structlog.testing import capture_logs

from rota.contract.jobs import BatchJobIn
from rota.domain.ids import new_id
from rota.domain.rights import Caller
from rota.gateway.protocol import OutgoingJob
from rota.gateway.transaction import KnownFunctions, submit_within
from rota.store.logs import Logs
from rota.store.postgres.database import MissingDayError
from rota.store.schema.partitions import with_days
from support import eventually, log_chunk

LONG_AGO = datetime(2020, 3, 14, tzinfo=UTC)


async def partitions_of(sql, parent):
    rows = await sql.fetch("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = $1::regclass", parent)
    return {row[0] for row in rows}


async def make_month(sql, day):
    """A partition of a whole month, as made when the month was far ahead."""
    await sql.execute("CREATE TABLE rota.log_chunks_202003 (LIKE rota.log_chunks INCLUDING ALL)")
    await sql.execute(
        "ALTER TABLE rota.log_chunks ATTACH PARTITION rota.log_chunks_202003"
        f" FOR VALUES FROM ('{await id_floor(sql, day.replace(day=1))}')"
        f" TO ('{await id_floor(sql, (day.replace(day=1) + timedelta(days=31)).replace(day=1))}')"
    )


async def id_floor(sql, moment):
    return await sql.fetchval("SELECT rota.id_floor($1)", moment)


async def test_a_month_of_logs_goes_when_all_of_it_is_kept_and_not_before(database, sql):
    await make_month(sql, LONG_AGO)
    logs = Logs(database)
    run_id = new_id(LONG_AGO.timestamp())
    await logs.add([log_chunk(run_id, "2020-03-14T00:00:00.000Z log old\n", last=True)])
    assert await logs.drop_days(2) == 0
    await sql.execute("SELECT rota.make_day($1)", LONG_AGO.date())
    await sql.execute(
        "INSERT INTO rota.kept_logs (namespace, run_id, claim, attempt, position, blob, first, length)"
        " VALUES ('default', $1, 1, 1, 1, 'b', 0, 1)",
        run_id,
    )
    assert await logs.drop_days(2) == 1
    assert "rota.log_chunks_202003" not in await partitions_of(sql, "rota.log_chunks")


async def test_a_month_that_is_not_over_stays(database, sql):
    far = datetime.now(UTC).replace(day=15) + timedelta(days=120)
    await sql.fetchval("SELECT rota.make_day($1)", far.date())
    before = await partitions_of(sql, "rota.log_chunks")
    assert f"rota.log_chunks_{far:%Y%m}" in before
    await Logs(database).drop_days(-60)
    assert f"rota.log_chunks_{far:%Y%m}" in await partitions_of(sql, "rota.log_chunks")


async def test_logs_that_are_being_read_are_dropped_another_time(database, sql):
    await make_month(sql, LONG_AGO)
    async with sql.transaction():
        await sql.fetch("SELECT FROM rota.log_chunks LIMIT 0")  # locks the parent alone
        assert await Logs(database).drop_days(2) == 0
    assert await Logs(database).drop_days(2) == 1


LOOKUPS = {
    "get_open_run": lambda run_id: {"namespace": "default", "run_id": run_id},
    "get_finished_run": lambda run_id: {"namespace": "default", "run_id": run_id},
    "attempts_of_run": lambda run_id: {"namespace": "default", "run_id": run_id},
    "kept_logs_of_run": lambda run_id: {"namespace": "default", "run_id": run_id},
    "log_chunks_of_run": lambda run_id: {"namespace": "default", "run_id": run_id, "after": 0, "limit": 10},
    "ended_runs": lambda run_id: {"namespaces": ["default"], "run_ids": [run_id], "first": run_id, "last": run_id},
    "tail_logs": lambda run_id: {
        "namespaces": ["default"],
        "run_ids": [run_id],
        "positions": [0],
        "first": run_id,
        "last": run_id,
        "limit": 10,
    },
    "recorded_reports": lambda run_id: {
        "namespaces": ["default"],
        "run_ids": [run_id],
        "claims": [1],
        "first": run_id,
        "last": run_id,
    },
}


@pytest.mark.parametrize("name", LOOKUPS)
async def test_a_lookup_by_id_locks_one_day_however_long_history_is(database, name):
    """Locks are a resource of the whole server: a year of history would take more than a thousand for each look."""

    async def look(statements):
        await statements.fetch(name, **LOOKUPS[name](new_id(time.time())))
        rows = await statements._connection.fetch(
            "SELECT DISTINCT substring(c.relname FROM '[0-9]{8}') AS day FROM pg_locks AS l"
            "  JOIN pg_class AS c ON c.oid = l.relation WHERE l.pid = pg_backend_pid() AND c.relname ~ '[0-9]{8}'"
        )
        return {row["day"] for row in rows}

    assert len(await database.transact(look)) <= 1


async def test_a_lookup_by_id_that_is_planned_anew_leaves_the_connection_as_it_was(database):
    await database.fetch("get_finished_run", namespace="default", run_id=new_id(time.time()))
    async with database.raw() as connection:
        assert await connection.fetchval("SELECT current_setting('plan_cache_mode')") == "force_generic_plan"


async def test_a_run_is_replaced_although_another_transaction_has_just_made_its_day(database, database_url, sql):
    day = datetime(2031, 5, 5, tzinfo=UTC)
    other = await asyncpg.connect(database_url)
    job = BatchJobIn(
        name="x", schedule_type="future", schedule_time=day, task="t", unique_key="u", on_duplicate="replace"
    )

    async def submit():
        async with other.transaction():
            (answer,) = await submit_within(
                other, [OutgoingJob.of(job)], Caller("default", "ada"), datetime.now(UTC), KnownFunctions()
            )
        return answer.status

    assert await submit() == "scheduled"
    async with sql.transaction():
        await sql.fetchval("SELECT rota.make_day($1)", day.date())
        replacing = asyncio.create_task(submit())

        async def waits():
            return await sql.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")

        await eventually(waits)
    assert await replacing == "scheduled"
    await other.close()
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'cancelled'") == 1


async def test_a_write_that_misses_its_day_twice_is_not_refused(database):
    run_id, missed = new_id(datetime(2031, 5, 5, tzinfo=UTC).timestamp()), 0

    async def write():
        nonlocal missed
        missed += 1
        if missed < 3:
            raise MissingDayError("no partition of relation")
        return "written"

    with capture_logs() as logs:
        assert await with_days(database, [run_id], write) == "written"
    assert [entry["log_level"] for entry in logs if entry["component"] == "partitions"] == ["warning"]
