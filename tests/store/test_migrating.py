"""Migrations: applied once, by whoever starts first, and known to those who come later."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from rota.errors import SetupError
from rota.store.postgres.database import Database
from rota.store.schema import migrate as migrating
from rota.store.schema.migrate import Migration, bring_up_to_date, migrate, migrations
from support import eventually


@pytest.fixture
async def empty_url(postgres):
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute("CREATE DATABASE empty")
    yield postgres.url("empty")
    await admin.execute("DROP DATABASE empty WITH (FORCE)")
    await admin.close()


async def test_many_that_start_at_once_apply_each_step_once(empty_url):
    databases = [await Database.connect(empty_url, size=1) for _ in range(5)]
    applied = await asyncio.gather(*(migrate(database) for database in databases))
    assert sorted(len(steps) for steps in applied) == [0, 0, 0, 0, len(migrations())]
    for database in databases:
        await database.close()


async def test_whoever_starts_first_brings_the_schema_up_to_date(empty_url):
    database = await Database.connect(empty_url, size=1)
    await bring_up_to_date(database)
    assert await database.fetch_value("read_constants") == 64
    await database.close()


async def test_a_role_that_may_not_change_the_schema_is_told_what_to_do(empty_url, postgres):
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute("CREATE ROLE narrow LOGIN")
    database = await Database.connect(empty_url.replace("rota@", "narrow@"), size=1)
    with pytest.raises(SetupError, match="rota migrate"):
        await bring_up_to_date(database)
    await database.close()
    await admin.execute("DROP ROLE narrow")
    await admin.close()


async def test_the_days_ahead_have_their_partitions(database, sql):
    partitions = await sql.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'rota.finished_runs'::regclass")
    assert partitions == 9


async def test_a_migration_that_waits_for_a_table_lets_others_use_it_meanwhile(
    database, database_url, sql, monkeypatch
):
    later = Migration(9999, "later", "ALTER TABLE rota.pools ADD COLUMN later_note text")
    monkeypatch.setattr(migrating, "migrations", lambda: (*migrations(), later))
    monkeypatch.setattr(migrating, "LOCK_WAIT_MILLISECONDS", 100)
    monkeypatch.setattr(migrating, "LOCK_PAUSE_SECONDS", 0.1)
    holder = await asyncpg.connect(database_url)
    reading = holder.transaction()
    await reading.start()
    await holder.fetch("SELECT FROM rota.pools")
    applying = asyncio.create_task(migrate(database))
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'rota.pools'::regclass"
    for _ in range(2):
        await eventually(lambda: sql.fetchval(waits), every=0.005)
        await sql.fetch("SELECT FROM rota.pools")  # behind the waiting migration, and yet it is served
    assert not applying.done()
    await reading.rollback()
    assert [step.name for step in await applying] == ["later"]
    await holder.close()


async def test_a_migration_that_never_gets_its_table_says_what_to_look_for(database, sql, monkeypatch):
    later = Migration(9999, "later", "ALTER TABLE rota.pools ADD COLUMN later_note text")
    monkeypatch.setattr(migrating, "migrations", lambda: (later,))
    monkeypatch.setattr(migrating, "LOCK_WAIT_MILLISECONDS", 1)
    monkeypatch.setattr(migrating, "LOCK_PAUSE_SECONDS", 0)
    monkeypatch.setattr(migrating, "LOCK_TRIES", 2)
    async with sql.transaction():
        await sql.fetch("SELECT FROM rota.pools")
        with pytest.raises(SetupError, match="pg_stat_activity"):
            await migrate(database)


def test_numbers_have_no_gaps():
    assert [step.number for step in migrations()] == list(range(1, len(migrations()) + 1))
