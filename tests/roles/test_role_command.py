"""`rota database-roles`, and what narrow roles are told by the other commands."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from typer.testing import CliRunner

from rota.cli.main import app
from rota.errors import SetupError
from rota.store.postgres.database import Database
from rota.store.schema.database_roles import DatabaseRole, DatabaseRoles
from rota.store.schema.migrate import bring_up_to_date, migrate, migrations
from rota.store.schema.role_rights import SERVER, WORKER
from support import free_port


@pytest.fixture
def rota(database_url, tmp_path):
    """Runs a command as the owner, or as somebody else, off this loop; gives back its exit code and what it said."""

    async def run(*arguments, url=database_url):
        place = {"ROTA_HOME": str(tmp_path), "ROTA_PORT": str(free_port())}
        environment = place | {"ROTA_DATABASE_URL": url, "COLUMNS": "200"}
        done = await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=environment)
        return done.exit_code, done.output

    return run


async def test_roles_get_their_rights_and_are_shown(rota, make_role, connect, sql):
    server, worker = await make_role(None), await make_role(None)
    arguments = ("--server", server.name, "--worker", worker.name, "--namespaces", "shop,mail", "--pools", "fast")
    code, said = await rota("database-roles", *arguments)
    assert code == 0, said
    lines = [line.split() for line in said.splitlines()]
    assert [server.name, "server", "any", "any"] in lines
    assert [worker.name, "worker", "shop,", "mail", "fast"] in lines
    assert (await rota("database-roles"))[1] == said
    assert await (await connect(worker)).fetchrow("SELECT * FROM rota.bound_to()") == (["mail", "shop"], ["fast"])
    _, said = await rota("database-roles", "--forget", worker.name, "--forget", server.name)
    assert "No roles" in said
    await sql.execute(f"DROP ROLE {worker.name}")  # nothing in the database depends on it any more
    await sql.execute(f"CREATE ROLE {worker.name}")


async def test_a_role_that_is_not_there_comes_with_what_to_type(rota):
    code, said = await rota("database-roles", "--worker", "Nobody")
    assert code == 2
    assert 'CREATE ROLE "Nobody" LOGIN' in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--server", "x", "--pools", "p"), "--pools limits"),
        (("--server", "x", "--namespaces", "n"), "--namespaces limits"),
        (("--worker", "x", "--namespaces", "a,,b"), "separated by commas"),
        (("--worker", "x", "--server", "x"), "has one kind"),
        (("--worker", "rota"), "can't be made narrower"),
    ],
)
async def test_what_can_not_be_is_refused(rota, arguments, words):
    code, said = await rota("database-roles", *arguments)
    assert code == 2
    assert words in said


async def test_only_the_owner_may_say_who_is_what(rota, make_role):
    role = await make_role(SERVER)
    code, said = await rota("database-roles", url=role.url)
    assert code == 2
    assert "schema's owner" in said


async def test_roles_that_fail_leave_nothing_half_done(make_role, database, sql):
    role = await make_role(None)
    with pytest.raises(SetupError, match="no database role"):
        await DatabaseRoles(database).set([DatabaseRole(role.name, WORKER), DatabaseRole("nobody_at_all", WORKER)])
    assert not await sql.fetchval("SELECT has_schema_privilege($1, 'rota', 'USAGE')", role.name)


async def test_a_table_in_use_makes_nobody_wait_for_long(make_role, database, sql, monkeypatch):
    monkeypatch.setattr("rota.store.schema.database_roles.LOCK_WAIT", "50ms")
    role = await make_role(None)
    async with sql.transaction():
        await sql.execute("LOCK TABLE rota.live_runs IN ACCESS SHARE MODE")
        with pytest.raises(SetupError, match="try again"):
            await DatabaseRoles(database).set([DatabaseRole(role.name, WORKER, ("a",))])
    await DatabaseRoles(database).set([DatabaseRole(role.name, WORKER, ("a",))])


@pytest.mark.parametrize("kind", [SERVER, WORKER])
async def test_a_narrow_role_starts_on_a_schema_that_is_up_to_date(kind, make_role, connect):
    await bring_up_to_date(await connect(await make_role(kind), pool=True))


@pytest.mark.parametrize("kind", [SERVER, WORKER])
async def test_a_narrow_role_does_not_migrate_and_says_who_may(kind, make_role, connect, sql, rota):
    role = await make_role(kind)
    last = migrations()[-1]
    await sql.execute("DELETE FROM rota.migrations WHERE number = $1", last.number)
    with pytest.raises(SetupError, match=f"lacks {last.number:04} .* run `rota migrate` as its owner, rota"):
        await bring_up_to_date(await connect(role, pool=True))
    for command in ({SERVER: "api", WORKER: "worker"}[kind], "migrate"):
        code, said = await rota(command, url=role.url)
        assert code == 2
        assert "run `rota migrate` as its owner" in said


async def test_a_role_without_rights_is_told_how_to_get_them(make_role, connect):
    with pytest.raises(SetupError, match="rota database-roles"):
        await bring_up_to_date(await connect(await make_role(None), pool=True))


async def test_a_migration_grants_anew_what_is_on_record(postgres, make_role, sql):
    """A table that a step adds is there for those who need it, with what binds them, without anybody's doing."""
    role = await make_role(None)
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute("CREATE DATABASE stepwise")
    try:
        database = await Database.connect(postgres.url("stepwise"), size=1)
        await migrate(database)
        await DatabaseRoles(database).set([DatabaseRole(role.name, WORKER, ("a",))])
        async with database.raw() as connection:
            await connection.execute(
                f"REVOKE ALL ON rota.pools FROM {role.name}; DROP POLICY {role.name} ON rota.pools"
            )
            await connection.execute("INSERT INTO rota.pools (namespace, pool) VALUES ('a', 'p'), ('b', 'p')")
            await connection.execute("DELETE FROM rota.migrations WHERE number = 6")  # a step that can be repeated
        assert [step.number for step in await migrate(database)] == [6]
        await database.close()
        narrow = await asyncpg.connect(postgres.url("stepwise").replace("rota@", f"{role.name}@", 1))
        assert [row[0] for row in await narrow.fetch("SELECT namespace FROM rota.pools")] == ["a"]
        await narrow.close()
    finally:
        await admin.execute("DROP DATABASE stepwise WITH (FORCE)")
        await admin.close()
