"""Connections: errors in our words, statements that meet others are repeated, poolers are noticed."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from rota.errors import DatabaseUnavailableError, SetupError
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.session import own_settings
from support import eventually


async def test_a_direct_connection_carries_the_planner_settings_from_its_start(database):
    async with database.raw() as connection:
        for name, value in own_settings(database.version).items():
            assert await connection.fetchval("SELECT current_setting($1)", name) == value
    assert not database.pooled


async def test_a_server_that_is_not_there_is_said_to_be_unavailable():
    with pytest.raises(DatabaseUnavailableError):
        await Database.connect("postgresql://rota@127.0.0.1:1/rota")


@pytest.mark.parametrize("url", ["nonsense", "http://example", "postgresql://rota@127.0.0.1:port/rota"])
async def test_a_url_that_can_not_be_read_is_a_setup_error(url):
    with pytest.raises(SetupError, match="ROTA_DATABASE_URL"):
        await Database.connect(url)


async def test_a_database_that_does_not_exist_is_a_setup_error(postgres):
    with pytest.raises(SetupError, match="nowhere"):
        await Database.connect(postgres.url("nowhere"))


async def test_a_deadlock_is_met_by_trying_again(database, sql):
    await sql.execute(
        "CREATE TABLE public.pair (id int PRIMARY KEY, n int); INSERT INTO public.pair VALUES (1,0),(2,0)"
    )
    met = asyncio.Barrier(2)
    tries = 0

    async def change(first: int, second: int) -> None:
        once = True

        async def in_order(statements: Statements) -> None:
            nonlocal once, tries
            tries += 1
            connection = statements._connection
            await connection.execute("UPDATE public.pair SET n = n + 1 WHERE id = $1", first)
            if once:
                once = False
                await met.wait()
            await connection.execute("UPDATE public.pair SET n = n + 1 WHERE id = $1", second)

        await database.transact(in_order)

    await asyncio.gather(change(1, 2), change(2, 1))
    assert tries >= 3
    assert [row["n"] for row in await sql.fetch("SELECT n FROM public.pair ORDER BY id")] == [2, 2]


async def test_a_pool_outlives_the_death_of_its_connections(database, sql):
    assert await database.fetch_value("read_constants") == 64
    await sql.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rota'")

    async def works() -> bool:
        try:
            return await database.fetch_value("read_constants") == 64
        except DatabaseUnavailableError:
            return False

    assert any([await works() for _ in range(10)])


async def test_an_idle_transaction_of_ours_lets_go_by_itself(database, sql):
    async with database.raw() as connection:
        transaction = connection.transaction()
        await transaction.start()
        pid = await connection.fetchval("SELECT pg_backend_pid()")

        async def is_gone():
            return not await sql.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid)

        await eventually(is_gone)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)):
            await connection.execute("SELECT 1")


async def test_what_an_application_creates_in_the_embedded_database_is_not_among_our_tables(sql):
    await sql.execute("CREATE TABLE jobs (name text)")
    assert await sql.fetchval("SELECT 'public.jobs'::regclass = 'jobs'::regclass")
