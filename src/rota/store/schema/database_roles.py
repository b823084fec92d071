"""Granting: every database role on record gets exactly what role_rights.py says, and is bound to what the record says.

Rights on tables hold for whatever code connects with the role, ours or altered. Bound roles have row level security on
top: one restrictive policy per table and role, with what it is bound to written into it, so that a statement pays for a
comparison and nothing else. Roles that are not bound, and the owner, pay nothing: the policy for all roles is
`true`, which the planner leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
import msgspec

from rota.errors import SetupError
from rota.store.postgres.database import Database
from rota.store.schema import LOCK_KEY
from rota.store.schema.role_rights import FUNCTIONS, SEQUENCES, TABLES

_OPEN_POLICY = "everybody"  # the policy that lets rights alone decide, for roles that are not bound

_RELATIONS = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relkind IN ('r', 'p', 'v', 'S')"
)
_CALLABLE = "SELECT proname, oid::regprocedure::text AS name FROM pg_proc WHERE pronamespace = 'rota'::regnamespace"
# Names and lists come back quoted by the server, ready to be part of a statement.
_ROLES = """
SELECT b.role, b.kind, quote_ident(b.role) AS quoted, quote_literal(b.namespaces) || '::text[]' AS namespaces,
       quote_literal(b.pools) || '::text[]' AS pools
  FROM rota.database_roles AS b JOIN pg_roles AS r ON r.rolname = b.role ORDER BY b.role"""
_POLICIES = "SELECT tablename, policyname FROM pg_policies WHERE schemaname = 'rota'"
# Making a policy locks its table; a long wait for that lock would keep all other statements waiting behind it.
LOCK_WAIT = "5s"
_OWNED = """
SELECT pg_has_role(current_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'rota'"""
_RECORD = """
INSERT INTO rota.database_roles (role, kind, namespaces, pools) VALUES ($1, $2, $3, $4)
ON CONFLICT (role) DO UPDATE SET kind = excluded.kind, namespaces = excluded.namespaces, pools = excluded.pools"""


async def grant_rights(connection: Any) -> None:
    """Brings rights and policies of all roles on record up to date, in the caller's transaction."""
    # PUBLIC may EXECUTE a new function by default; USAGE on the schema must not imply EXECUTE.
    await connection.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA rota FROM PUBLIC")
    roles = await connection.fetch(_ROLES)
    if not roles:
        return
    relations = {row["relname"] for row in await connection.fetch(_RELATIONS)}
    functions = {row["proname"]: row["name"] for row in await connection.fetch(_CALLABLE)}
    for role in roles:
        await revoke_rights(connection, role["quoted"])
        await connection.execute(";".join(_grants(role, relations, functions)))
    await _bind(connection, roles, relations)


async def revoke_rights(connection: Any, quoted: str) -> None:
    """Takes everything in the schema from a role, but not what binds it."""
    for things in ("SCHEMA rota", *(f"ALL {kind} IN SCHEMA rota" for kind in ("TABLES", "SEQUENCES", "FUNCTIONS"))):
        await connection.execute(f"REVOKE ALL ON {things} FROM {quoted}")


async def unbind(connection: Any, role: str) -> None:
    """Takes away the policies that bind a role."""
    quoted = await connection.fetchval("SELECT quote_ident($1)", role)
    for table, policy in await connection.fetch(_POLICIES):
        if policy == role:
            await connection.execute(f"DROP POLICY {quoted} ON rota.{table}")


def _grants(role: Mapping[str, Any], relations: set[str], functions: Mapping[str, str]) -> list[str]:
    kind, quoted = role["kind"], role["quoted"]
    statements = [f"GRANT USAGE ON SCHEMA rota TO {quoted}"]
    for table, line in TABLES.items():
        if table in relations and line.rights.get(kind):
            statements.append(f"GRANT {', '.join(line.rights[kind])} ON rota.{table} TO {quoted}")
    statements += [
        f"GRANT USAGE ON SEQUENCE rota.{name} TO {quoted}"
        for name, kinds in SEQUENCES.items()
        if name in relations and kind in kinds
    ]
    statements += [
        f"GRANT EXECUTE ON FUNCTION {functions[name]} TO {quoted}"
        for name, kinds in FUNCTIONS.items()
        if name in functions and kind in kinds
    ]
    return statements


async def _bind(connection: Any, roles: list[Any], relations: set[str]) -> None:
    """Makes the policies that are missing. Those that are there stay: to make one locks its table for a moment."""
    there = {(row["tablename"], row["policyname"]) for row in await connection.fetch(_POLICIES)}
    for role in roles:
        for table, line in TABLES.items():
            policy = _policy(line.bound, role["namespaces"], role["pools"])
            if policy is None or table not in relations or (table, role["role"]) in there:
                continue
            if (table, _OPEN_POLICY) not in there:
                await connection.execute(f"ALTER TABLE rota.{table} ENABLE ROW LEVEL SECURITY")
                await connection.execute(f"CREATE POLICY {_OPEN_POLICY} ON rota.{table} USING (true)")
                there.add((table, _OPEN_POLICY))
            await connection.execute(
                f"CREATE POLICY {role['quoted']} ON rota.{table} AS RESTRICTIVE TO {role['quoted']} {policy}"
            )


def _policy(bound: str | None, namespaces: str | None, pools: str | None) -> str | None:
    """Which rows are there for a role, and which it may write; None: any."""
    seen: list[str] = []
    written: list[str] = []
    if bound in ("namespace", "ready") and namespaces:
        # A collation that no index has: what is added to a statement must not lead it to another index.
        seen.append(f'namespace COLLATE "POSIX" = ANY ({namespaces})')
        written.append(f"namespace = ANY ({namespaces})")
    if bound == "ready" and pools:
        seen.append(f"pool = ANY ({pools})")
    if bound == "serving" and namespaces:
        seen.append(f"namespaces <@ {namespaces} AND coalesce(app_namespace = ANY ({namespaces}), true)")
    if bound == "serving" and pools:
        seen.append(f"pools <@ {pools}")
    if bound == "serving":
        written = seen
    return f"USING ({' AND '.join(seen)}) WITH CHECK ({' AND '.join(written) or 'true'})" if seen else None


class DatabaseRole(msgspec.Struct, frozen=True):
    """A role; `namespaces` and `pools` are those it is bound to (None: not at all)."""

    name: str
    kind: str
    namespaces: tuple[str, ...] | None = None
    pools: tuple[str, ...] | None = None


class DatabaseRoles:
    """Reads and changes the record, and grants what it says."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[DatabaseRole]:
        """Every role on record that exists; raises SetupError when we are not the owner."""

        async def read(connection: Any) -> list[Any]:
            statement = "SELECT b.* FROM rota.database_roles AS b JOIN pg_roles ON rolname = role ORDER BY role"
            rows: list[Any] = await connection.fetch(statement)
            return rows

        return [
            DatabaseRole(row["role"], row["kind"], _tuple(row["namespaces"]), _tuple(row["pools"]))
            for row in await self._as_owner(read)
        ]

    async def set(self, roles: Sequence[DatabaseRole]) -> None:
        """Records them and gives each what its kind needs, instead of what it had.

        Raises SetupError when we are not the owner, or one is not there or can do without (nothing is changed then).
        """

        async def record(connection: Any) -> None:
            for role in roles:
                await _check(connection, role.name)
                await unbind(connection, role.name)
                await connection.execute(_RECORD, role.name, role.kind, role.namespaces, role.pools)
            await grant_rights(connection)

        await self._as_owner(record)

    async def forget(self, names: Sequence[str]) -> None:
        """Takes these off the record, and everything in the schema from them."""

        async def strike(connection: Any) -> None:
            for name in names:
                await _check(connection, name)
                await unbind(connection, name)
                await revoke_rights(connection, await connection.fetchval("SELECT quote_ident($1)", name))
                await connection.execute("DELETE FROM rota.database_roles WHERE role = $1", name)

        await self._as_owner(strike)

    async def _as_owner(self, body: Any) -> Any:
        """In one transaction, and not during a migration."""
        async with self._database.raw_transaction() as connection:
            if not await connection.fetchval(_OWNED):
                raise SetupError(
                    "Roles are a matter of the schema's owner: connect as the role that ran `rota migrate`."
                )
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY)
            await connection.execute("SELECT set_config('lock_timeout', $1, true)", LOCK_WAIT)
            try:
                return await body(connection)
            except asyncpg.LockNotAvailableError as error:
                raise SetupError(f"A table was in use for {LOCK_WAIT}, nothing was changed: try again.") from error


async def _check(connection: Any, name: str) -> None:
    row = await connection.fetchrow(
        "SELECT rolsuper OR rolbypassrls OR pg_has_role(r.oid, nspowner, 'USAGE') AS above"
        "  FROM pg_roles AS r, pg_namespace WHERE rolname = $1 AND nspname = 'rota'",
        name,
    )
    if row is None:
        quoted = await connection.fetchval("SELECT quote_ident($1)", name)
        raise SetupError(
            f"There is no database role {name}. Make it first, in psql: CREATE ROLE {quoted} LOGIN; "
            f"then \\password {quoted} asks for its password."
        )
    if row["above"] or name == _OPEN_POLICY:
        raise SetupError(
            f"The role {name} can't be made narrower: it is a superuser, passes by row level security, or has the "
            "rights of the schema's owner. Make another one."
        )


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


async def may_serve(database: Database) -> bool:
    """Whether our role may do what an API server and a scheduler do; a worker's may not."""
    return bool(await database.fetch_value("may_serve"))
