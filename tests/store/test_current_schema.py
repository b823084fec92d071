"""store/schema/current shows the schema that the migrations make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from catalog import differences, read_catalog

import rota.store.schema

CURRENT = Path(rota.store.schema.__file__).parent / "current"
HOW_TO_MEND = """\
store/schema/current does not show the schema that store/schema/migrations make. Change the files in current/ (never a
released migration): `+` is what the migrations make and current/ lacks, `-` is what only current/ has.

"""
_INCLUDE = re.compile(r"^\\ir (\S+)$", re.MULTILINE)


def pieces() -> Iterator[tuple[str, str]]:
    """What psql reads in schema.sql, piece by piece, each with the name of its file."""
    for number, piece in enumerate(_INCLUDE.split((CURRENT / "schema.sql").read_text())):
        yield (piece, (CURRENT / piece).read_text()) if number % 2 else ("schema.sql", piece)


@pytest.fixture
async def from_current(postgres):
    """A connection to a database that was made from current/."""
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute("CREATE DATABASE from_current")
    connection = await asyncpg.connect(postgres.url("from_current"))
    try:
        for name, text in pieces():
            try:
                await connection.execute(f"SELECT;{text}")  # asyncpg wants a statement
            except asyncpg.PostgresError as error:
                pytest.fail(f"store/schema/current/{name}: {error}", pytrace=False)
        yield connection
    finally:
        await connection.close()
        await admin.execute("DROP DATABASE from_current WITH (FORCE)")
        await admin.close()


async def test_the_files_make_what_the_migrations_make(from_current, sql):
    found = differences(await read_catalog(from_current), await read_catalog(sql))
    if found:
        pytest.fail(HOW_TO_MEND + found, pytrace=False)


def test_every_file_is_listed_once():
    listed = _INCLUDE.findall((CURRENT / "schema.sql").read_text())
    assert sorted(listed) == sorted(file.name for file in CURRENT.glob("*.sql") if file.name != "schema.sql")


# Changes of the schema, each with a piece of what is shown of it.
CHANGES = (
    ("GRANT USAGE ON SCHEMA rota TO PUBLIC", "schema rota:"),
    ("CREATE TABLE rota.later (id uuid PRIMARY KEY)", "+column id uuid not null"),
    ("CREATE SEQUENCE rota.later", "sequence later:"),
    ("ALTER SEQUENCE rota.claim_numbers CACHE 1", "+bigint from 1 by 1 between 1 9223372036854775807 cache 1"),
    ("ALTER TABLE rota.pools ADD COLUMN note text", "+column note text"),
    ("ALTER TABLE rota.pools ALTER COLUMN most_waiting TYPE bigint", "+column most_waiting bigint"),
    ("ALTER TABLE rota.pools ALTER COLUMN pool SET DEFAULT 'default'", "+column pool text collate "),
    ("ALTER TABLE rota.apps ALTER COLUMN version SET NOT NULL", '+column version text collate "C" not null'),
    ("ALTER TABLE rota.apps ALTER COLUMN schedules SET STORAGE EXTERNAL", "+column schedules jsonb storage e"),
    ("ALTER TABLE rota.buckets SET (fillfactor = 90)", "+with {autovacuum_vacuum_scale_factor=0,"),
    ("ALTER TABLE rota.tallies SET LOGGED", "-persistence u"),
    ("ALTER TABLE rota.pools ADD CHECK (pool <> '')", "+constraint pools_pool_check CHECK"),
    ("ALTER TABLE rota.jobs RENAME CONSTRAINT jobs_check2 TO jobs_check9", "+constraint jobs_check9 CHECK"),
    ("DROP INDEX rota.limits_changed", "-index CREATE INDEX limits_changed"),
    ("ALTER TABLE rota.audit DISABLE TRIGGER append_only", "rota.refuse_change() enabled D"),
    ("CREATE POLICY later ON rota.jobs USING (true)", "+policy later PERMISSIVE ALL to {public} using true"),
    ("ALTER TABLE rota.jobs ENABLE ROW LEVEL SECURITY", "+row level security"),
    ("ALTER VIEW rota.runs RESET (security_invoker)", "-with {security_invoker=true}"),
    ("GRANT SELECT ON rota.runs TO PUBLIC", "view runs:"),
    ("ALTER FUNCTION rota.make_day(date) SECURITY INVOKER", "function rota.make_day(date):"),
    ("GRANT EXECUTE ON FUNCTION rota.lane_of TO PUBLIC", "function rota.lane_of(text,text,text,smallint):"),
    ("UPDATE rota.constants SET shards = 32", "rows of constants:"),
)


async def test_every_kind_of_difference_is_found_and_shown(sql):
    before = await read_catalog(sql)
    for change, shown in CHANGES:
        transaction = sql.transaction()
        await transaction.start()
        await sql.execute(change)
        assert shown in differences(before, await read_catalog(sql)), change
        await transaction.rollback()


async def test_a_word_in_a_functions_body_is_a_difference_and_a_comment_is_none(sql):
    before = await read_catalog(sql)
    body = "CREATE OR REPLACE FUNCTION rota.refuse_unexcluded() RETURNS trigger LANGUAGE plpgsql {} AS $$ {} $$"
    settings = "SET search_path = pg_catalog, pg_temp"
    text = (
        "BEGIN\n    -- never\n    RAISE EXCEPTION"
        " 'a process of a release that does not know excluded days can not fire or change this schedule'"
        " USING ERRCODE = 'check_violation';\nEND"
    )
    await sql.execute(body.format(settings, text))
    assert differences(before, await read_catalog(sql)) == ""
    await sql.execute(body.format(settings, text.replace("excluded days", "excluded  days")))
    assert "excluded  days" in differences(before, await read_catalog(sql))
