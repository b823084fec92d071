"""Migrations: applied once, by whoever starts first, and known to those who come later."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from rota.errors import SetupError
from rota.store.database import Database
from rota.store.migrating import bring_up_to_date, migrate, migrations


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


def test_numbers_have_no_gaps():
    assert [step.number for step in migrations()] == list(range(1, len(migrations()) + 1))
