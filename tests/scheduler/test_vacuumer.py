"""Dead rows of the hot tables are removed however rarely autovacuum looks, and not in vain."""

from __future__ import annotations

import asyncpg
import pytest

from rota.store.postgres.database import Database
from rota.store.vacuum import HotTables
from support import eventually

DEAD = "SELECT pg_stat_get_dead_tuples('rota.live_runs'::regclass)"


@pytest.fixture
async def churn(engine, sql):
    """Makes dead rows in live_runs, and waits until the statistics know them."""
    await sql.execute("ALTER TABLE rota.live_runs SET (autovacuum_enabled = false)")
    await engine.submit(scheduleType="immediate")

    async def make(count: int) -> None:
        before = await sql.fetchval(DEAD)
        for _ in range(count):
            await sql.execute("UPDATE rota.live_runs SET progress = coalesce(progress, 0) + 1, claimed_at = now()")
        await sql.execute("SELECT pg_stat_force_next_flush()")
        await eventually(lambda: _more_than(sql, before))

    return make


async def _more_than(sql, count):
    return await sql.fetchval(DEAD) > count


async def dead_rows(sql):
    return await sql.fetchval(DEAD)


async def test_a_table_is_vacuumed_once_enough_rows_have_died(engine, sql, churn):
    tables = HotTables(engine.database, enough=100)
    await churn(20)
    assert await tables.vacuum() == 0
    await churn(400)
    assert await tables.vacuum() == 1
    assert await dead_rows(sql) < 20


async def test_a_vacuum_that_an_open_snapshot_makes_useless_is_not_repeated_at_once(engine, sql, database_url, churn):
    tables = HotTables(engine.database, enough=50)
    reader = await asyncpg.connect(database_url)
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM rota.live_runs")
        await churn(200)
        assert await tables.vacuum() == 1
        left = await dead_rows(sql)
        assert left > 50, "the reader still sees them"
        assert await tables.vacuum() == 0
        await churn(left * 2)
        assert await tables.vacuum() == 1, "as many again have died"
    await reader.close()
    await churn(1000)
    assert await tables.vacuum() == 1
    assert await dead_rows(sql) < 50


async def test_a_role_that_does_not_own_the_tables_leaves_them_to_autovacuum(sql, churn, database_url):
    await sql.execute("CREATE ROLE vacuum_stranger LOGIN; GRANT USAGE ON SCHEMA rota TO vacuum_stranger")
    try:
        await churn(200)
        database = await Database.connect(database_url.replace("//rota@", "//vacuum_stranger@"), size=1)
        assert await HotTables(database, enough=50).vacuum() == 0
        await database.close()
    finally:
        await sql.execute("REVOKE ALL ON SCHEMA rota FROM vacuum_stranger; DROP ROLE vacuum_stranger")
