"""Each kind of role has the rights its statements need, and no others."""

from __future__ import annotations

import asyncpg
import pytest
from role_statements import SERVER_STATEMENTS, STATEMENTS, WORKER_STATEMENTS

from rota.compose import check_server_role
from rota.errors import SetupError
from rota.store.postgres.statements import load
from rota.store.schema.database_roles import DatabaseRole, DatabaseRoles
from rota.store.schema.role_rights import FUNCTIONS, SEQUENCES, SERVER, SUBMITTER, TABLES, WORKER

# They come with steps of the schema that may not be there yet.
TO_COME = {"api_keys", "audit", "audit_outcomes", "limits", "buckets"}
KEPT_FROM_WORKERS = ("api_keys", "audit", "audit_outcomes", "buckets", "database_roles", "events", "kept_logs")


@pytest.fixture
async def with_tables_to_come(sql):
    for table in TO_COME:
        await sql.execute(f"CREATE TABLE IF NOT EXISTS rota.{table} (namespace text)")


async def refusal(connection, statement):
    """Why a role may not run a statement; None: it may. Rights are checked before anything is done."""
    text = load(statement).text
    parameters = len((await connection.prepare(text)).get_parameters())
    # A plan for these very nulls would leave out what a null makes superfluous, and not ask for rights to it.
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE asked AS {text}")
    try:
        await connection.execute(
            f"EXPLAIN EXECUTE asked{'(' + ', '.join(['NULL'] * parameters) + ')' if parameters else ''}"
        )
    except asyncpg.InsufficientPrivilegeError as error:
        return str(error)
    finally:
        await connection.execute("DEALLOCATE asked")
    return None


async def test_everything_in_the_schema_has_its_line(sql):
    relations = await sql.fetch(
        """SELECT c.relname, c.relkind = 'S' AS sequence FROM pg_class AS c
            WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
              AND NOT c.relispartition
              AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'i' AND c.relkind = 'S')"""
    )
    functions = await sql.fetch("SELECT proname FROM pg_proc WHERE pronamespace = 'rota'::regnamespace")
    assert {row["relname"] for row in relations if not row["sequence"]} | TO_COME == set(TABLES)
    assert {row["relname"] for row in relations if row["sequence"]} == set(SEQUENCES)
    assert {row["proname"] for row in functions} == set(FUNCTIONS)


def test_every_statement_is_somebodys():
    assert SERVER_STATEMENTS | WORKER_STATEMENTS == STATEMENTS


@pytest.mark.parametrize(("kind", "statements"), [(SERVER, SERVER_STATEMENTS), (WORKER, WORKER_STATEMENTS)])
async def test_a_role_may_run_its_statements(kind, statements, make_role, connect):
    connection = await connect(await make_role(kind))
    refused = {name: why for name in sorted(statements) if (why := await refusal(connection, name))}
    assert not refused


@pytest.mark.parametrize(("kind", "statements"), [(SERVER, SERVER_STATEMENTS), (WORKER, WORKER_STATEMENTS)])
async def test_no_right_is_given_that_no_statement_needs(kind, statements, make_role, connect, sql):
    role = await make_role(kind)
    connection = await connect(role)
    there = {table for table in TABLES if await sql.fetchval("SELECT to_regclass('rota.' || $1)", table)}
    needless = []
    for table in sorted(there - {"migrations"}):  # read before any statement is
        naming = [name for name in sorted(statements) if _names(name, table)]
        for right in TABLES[table].rights[kind]:
            await sql.execute(f"REVOKE {right} ON rota.{table} FROM {role.name}")
            if not [name for name in naming if await refusal(connection, name)]:
                needless.append(f"{right} ON {table}")
            await sql.execute(f"GRANT {right} ON rota.{table} TO {role.name}")
    assert not needless


def _names(statement, table):
    text = load(statement).text
    return f"rota.{table}" in text or "rota.runs" in text


async def test_the_public_has_nothing(sql, make_role):
    await make_role(WORKER)
    assert not await sql.fetch(
        """SELECT relname FROM pg_class, aclexplode(relacl) AS acl
            WHERE relnamespace = 'rota'::regnamespace AND acl.grantee = 0
           UNION ALL SELECT nspname FROM pg_namespace, aclexplode(nspacl) AS acl
            WHERE nspname = 'rota' AND acl.grantee = 0
           UNION ALL SELECT proname FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) AS acl
            WHERE pronamespace = 'rota'::regnamespace AND acl.grantee = 0"""
    )


async def test_keys_and_the_audit_are_out_of_a_workers_reach(with_tables_to_come, make_role, connect):
    connection = await connect(await make_role(WORKER))
    for table in KEPT_FROM_WORKERS:
        for attempt in ("SELECT FROM", "DELETE FROM", "TRUNCATE"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"{attempt} rota.{table}")
        for right in ("SELECT", "INSERT", "UPDATE"):
            assert not await connection.fetchval("SELECT has_any_column_privilege($1, $2)", f"rota.{table}", right)
    await connection.execute("SELECT FROM rota.limits")


async def test_what_a_server_wrote_to_the_audit_stays(with_tables_to_come, make_role, connect):
    connection = await connect(await make_role(SERVER))
    for table in ("audit", "audit_outcomes"):
        await connection.execute(f"SELECT FROM rota.{table}")
        assert await connection.fetchval("SELECT has_table_privilege($1, 'INSERT')", f"rota.{table}")
        for attempt in (f"DELETE FROM rota.{table}", f"TRUNCATE rota.{table}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(attempt)
        assert not await connection.fetchval("SELECT has_any_column_privilege($1, 'UPDATE')", f"rota.{table}")


@pytest.mark.parametrize("kind", [SERVER, WORKER, SUBMITTER])
async def test_only_the_owner_changes_the_schema_or_empties_a_table(kind, make_role, connect, sql):
    connection = await connect(await make_role(kind))
    day = await sql.fetchval("SELECT relname FROM pg_class WHERE relname ~ '^finished_runs_[0-9]{8}$' LIMIT 1")
    for attempt in (
        "TRUNCATE rota.live_runs",
        "DROP TABLE rota.live_runs",
        "ALTER TABLE rota.live_runs DISABLE ROW LEVEL SECURITY",
        "CREATE TABLE rota.mine ()",
        "DROP SCHEMA rota CASCADE",
        "SELECT setval('rota.claim_numbers', 1)",
        "INSERT INTO rota.database_roles VALUES ('x', 'server')",
        "SELECT rota.submit_unbound('[]')",
        f"SELECT FROM rota.{day}",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(attempt)


async def test_a_submitter_may_submit_and_nothing_else(make_role, connect):
    connection = await connect(await make_role(SUBMITTER))
    assert await connection.fetchval("SELECT rota.submit_v1('[]')") == "[]"
    for attempt in ("SELECT FROM rota.live_runs", "SELECT rota.drop_log_days(1)", "SELECT rota.make_day(current_date)"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(attempt)


async def test_views_show_what_their_reader_may_see(sql):
    assert not await sql.fetch(
        """SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relkind = 'v'
              AND NOT coalesce('security_invoker=true' = ANY (reloptions), false)"""
    )


async def test_what_a_worker_may_reach_and_has_a_namespace_is_bound_by_it(sql, with_tables_to_come):
    rows = await sql.fetch(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'rota' AND column_name = 'namespace'"
    )
    with_namespace = {row["table_name"] for row in rows} - {"runs", "open_runs"}  # views of others
    reached = {table for table, line in TABLES.items() if line.rights[WORKER]}
    bound = {table for table, line in TABLES.items() if line.bound}
    assert reached & with_namespace == bound - {"workers"}


async def test_another_kind_takes_away_what_a_role_had(make_role, connect, database):
    role = await make_role(SERVER)
    connection = await connect(role)
    await connection.execute("SELECT FROM rota.events")
    await DatabaseRoles(database).set([DatabaseRole(role.name, WORKER)])
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("SELECT FROM rota.events")
    await DatabaseRoles(database).forget([role.name])
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("SELECT FROM rota.constants")
    assert await DatabaseRoles(database).all() == []


async def test_only_a_servers_role_may_serve(make_role, connect, database):
    """The API and schedulers say so at once, instead of failing round after round."""
    await check_server_role(database)  # the owner's
    await check_server_role(await connect(await make_role(SERVER), pool=True))
    worker = await connect(await make_role(WORKER), pool=True)
    with pytest.raises(SetupError, match="rota database-roles --server"):
        await check_server_role(worker)
