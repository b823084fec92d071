"""The partitions of history and logs: made before they are needed or when they are, dropped when they are over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rota.domain.ids import new_id
from rota.store.logs import Logs
from support import log_chunk

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
