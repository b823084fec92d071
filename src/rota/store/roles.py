"""Database roles on record: who is what, and bound to what. Changed by the schema's owner alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec

from rota.errors import SetupError
from rota.store.postgres.database import Database
from rota.store.schema.database_roles import EVERYBODY, grant_rights, revoke_rights, unbind
from rota.store.schema.migrate import LOCK_KEY

# Making a policy locks its table. Whoever can't have that soon must not keep everybody else waiting behind.
LOCK_WAIT = "5s"
_OWNED = """
SELECT pg_has_role(current_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'rota'"""
_RECORD = """
INSERT INTO rota.database_roles (role, kind, namespaces, pools) VALUES ($1, $2, $3, $4)
ON CONFLICT (role) DO UPDATE SET kind = excluded.kind, namespaces = excluded.namespaces, pools = excluded.pools"""


class DatabaseRole(msgspec.Struct, frozen=True):
    """A role; `namespaces` and `pools` are those it is bound to (None: not at all)."""

    name: str
    kind: str
    namespaces: tuple[str, ...] | None = None
    pools: tuple[str, ...] | None = None


class Roles:
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
        """In one transaction, and not while somebody migrates."""
        async with self._database.raw() as connection, connection.transaction():
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
    if row["above"] or name == EVERYBODY:
        raise SetupError(
            f"The role {name} can't be made narrower: it is a superuser, passes by row level security, or has the "
            "rights of the schema's owner. Make another one."
        )


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
