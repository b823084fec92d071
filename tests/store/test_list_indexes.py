"""The indexes of lists come to days and tables that are older than they are, whatever happens on the way."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import pytest

from rota.domain.ids import new_id
from rota.store.schema.list_indexes import ListIndexes
from rota.store.schema.migrate import migrations
from support import eventually

INDEXES = ("finished_runs_labelled", "upcoming_runs_owned", "upcoming_runs_labelled")
RUN = """
INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, options,
                                cause, shard, nominal_at, run_at, created_at, status, finished_at)
SELECT 'default', $1, $1, 1, 'ada', 'n', 't', 'default', 0, '{}', '{}', 'submit', 0, now(), now(), now(), 'success',
       now()"""


async def days(sql):
    rows = await sql.fetch(
        "SELECT inhrelid::regclass::text AS day FROM pg_inherits"
        " WHERE inhparent = 'rota.finished_runs'::regclass ORDER BY 1"
    )
    return [row["day"] for row in rows]


async def definitions(sql):
    """The indexes of lists as they are: table to what its indexes are made of, valid ones only."""
    rows = await sql.fetch(
        "SELECT x.indrelid::regclass::text AS place,"
        "       substring(pg_get_indexdef(x.indexrelid) FROM 'USING .*') AS made_of"
        "  FROM pg_index AS x JOIN pg_class AS c ON c.oid = x.indexrelid"
        " WHERE x.indisvalid AND c.relkind = 'i' AND pg_get_indexdef(x.indexrelid) ~ 'rota.labels?[(]'"
    )
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["place"], set()).add(row["made_of"])
    return found


@pytest.fixture
async def old(database, sql):
    """A database whose days and upcoming runs are older than the indexes; returns what they must get."""
    wanted = await definitions(sql)
    step = next(step for step in migrations() if step.number == 17)
    names = ", ".join(f"rota.{name}" for name in INDEXES)
    await sql.execute(f"DROP INDEX {names}; DROP FUNCTION rota.labels; DROP FUNCTION rota.rare_labels, rota.label")
    for day in await days(sql):
        await sql.execute(RUN, new_id(await sql.fetchval(_MIDDAY, day)))
    await sql.execute(step.sql.replace("16777216", "0"))  # as if the table were large
    assert await definitions(sql) == {}
    return wanted


_MIDDAY = "SELECT extract(epoch FROM to_timestamp(right($1, 8) || ' 12', 'YYYYMMDD HH24') AT TIME ZONE 'UTC')::float8"


async def make_all(indexes):
    made = []
    while name := await indexes.make_next():
        made.append(name)
    return made


async def test_days_and_tables_that_are_older_get_them_one_by_one_the_latest_first(database, sql, old):
    made = await make_all(ListIndexes(database))
    assert await definitions(sql) == old
    assert made[:2] == ["upcoming_runs_owned", "upcoming_runs_labelled"]
    assert made[2:] == sorted(made[2:], reverse=True)


async def test_days_without_runs_have_them_after_the_migration(database, sql):
    wanted = await definitions(sql)
    step = next(step for step in migrations() if step.number == 17)
    names = ", ".join(f"rota.{name}" for name in INDEXES)
    await sql.execute(f"DROP INDEX {names}; DROP FUNCTION rota.labels; DROP FUNCTION rota.rare_labels, rota.label")
    await sql.execute(step.sql)
    assert await definitions(sql) == wanted
    assert await ListIndexes(database).make_next() is None


async def test_a_new_day_has_them_from_the_beginning_even_while_older_ones_lack_them(database, sql, old):
    before = await days(sql)
    await sql.execute("SELECT rota.make_day((now() AT TIME ZONE 'UTC')::date + 20)")
    (new,) = {*await days(sql)} - {*before}
    assert await definitions(sql) == {new: old[before[0]]}


@asynccontextmanager
async def building(database_url, sql):
    """A session in the middle of building an index of upcoming runs: it waits for a transaction that writes there."""
    holder, builder = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    await holder.execute("BEGIN; LOCK TABLE rota.upcoming_runs IN ROW EXCLUSIVE MODE")
    build = asyncio.create_task(
        builder.execute("CREATE INDEX CONCURRENTLY upcoming_runs_owned ON rota.upcoming_runs (owner)")
    )

    async def begun():
        return await sql.fetchval("SELECT count(*) FROM pg_class WHERE relname = 'upcoming_runs_owned'")

    try:
        await eventually(begun)
        yield builder
    finally:
        holder.terminate()
        await asyncio.gather(build, return_exceptions=True)
        builder.terminate()


async def half_made(sql):
    return await sql.fetchval("SELECT count(*) FROM pg_index WHERE NOT indisvalid AND indexrelid IN"
                              " (SELECT oid FROM pg_class WHERE relkind = 'i')")  # fmt: skip


async def test_an_index_that_was_left_behind_half_made_is_removed_and_made_again(database, database_url, sql, old):
    async with building(database_url, sql) as builder:
        await sql.execute("SELECT pg_terminate_backend($1)", builder.get_server_pid())
    assert await half_made(sql) == 1
    await make_all(ListIndexes(database))
    assert await definitions(sql) == old
    assert await half_made(sql) == 0


async def test_a_table_on_which_another_session_is_building_is_left_alone(database, database_url, sql, old):
    async with building(database_url, sql):
        made = await make_all(ListIndexes(database))
        assert made
        assert not [name for name in made if name.startswith("upcoming")]


async def test_two_that_make_them_at_once_do_not_disturb_each_other(database, sql, old):
    made = await asyncio.gather(*(make_all(ListIndexes(database)) for _ in range(3)))
    assert await definitions(sql) == old
    assert sum(map(len, made)) == sum(map(len, old.values())), "each is made once"


async def test_a_late_report_to_an_old_day_neither_waits_for_the_build_nor_gets_lost_by_it(
    database, database_url, sql, old
):
    day = (await days(sql))[0]
    holder = await asyncpg.connect(database_url)
    async with holder.transaction():
        await holder.execute(f"LOCK TABLE {day} IN ROW EXCLUSIVE MODE")  # the build waits for it
        making = asyncio.create_task(make_all(ListIndexes(database)))

        async def waits():
            return await sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted")

        await eventually(waits)
        late = new_id(await sql.fetchval(_MIDDAY, day))
        await sql.execute(RUN, late)
        assert not making.done()
    await making
    await holder.close()
    await sql.execute("SET enable_seqscan = off")
    found = await sql.fetch(
        f"SELECT id FROM {day} WHERE rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status)"
        " @> ARRAY[rota.label(left($1::text, 7), 'default', 1, 'ada')]",
        str(late),
    )
    assert late in {row["id"] for row in found}


async def test_the_service_makes_them(engine, sql, old):
    scheduler = await engine.leading()
    assert await scheduler.indexer.tick() == 1
    while await scheduler.indexer.tick():
        pass
    assert await definitions(sql) == old
