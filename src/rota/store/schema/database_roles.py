"""Granting: every database role on record gets exactly what rights.py says, and is bound to what the record says.

Rights on tables hold for whatever code connects with the role, ours or altered. Bound roles have row level security on
top: one restrictive policy per table and role, with what it is bound to written into it, so that a statement pays for a
comparison and nothing else. Roles that are not bound, and the owner, pay nothing: the policy that concerns everybody is
`true`, which the planner leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.store.schema.role_rights import FUNCTIONS, SEQUENCES, TABLES

EVERYBODY = "everybody"  # the policy that lets rights alone decide, for whoever is not bound

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


async def grant_rights(connection: Any) -> None:
    """Brings rights and policies of all roles on record up to date, in the caller's transaction."""
    # Everybody may call a new function, unless told otherwise; whoever may use the schema must not therefore.
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
            if (table, EVERYBODY) not in there:
                await connection.execute(f"ALTER TABLE rota.{table} ENABLE ROW LEVEL SECURITY")
                await connection.execute(f"CREATE POLICY {EVERYBODY} ON rota.{table} USING (true)")
                there.add((table, EVERYBODY))
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
