"""Schema migrations: numbered SQL files, applied in order, under a lock, by the process that starts first."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import asyncpg

from rota.errors import SetupError
from rota.store.postgres.database import Database
from rota.store.schema import LOCK_KEY
from rota.store.schema.database_roles import grant_rights
from rota.store.schema.partitions import make_days
from rota.telemetry import get_logger

DAYS_AHEAD = 7
_STEP_SECONDS = 6 * 3600.0  # a step over a large table takes its time, and others wait for the lock meanwhile
# Waiting for a lock on a table stops all later requests for it: better let them go first, and try again.
LOCK_WAIT_MILLISECONDS = 1000
LOCK_TRIES = 60
LOCK_PAUSE_SECONDS = 1.0
_log = get_logger("migrating")
# The role that owns the schema, if it is not ours; null: it is, or there is no schema yet.
_OWNER = """
SELECT pg_get_userbyid(nspowner) FROM pg_namespace
 WHERE nspname = 'rota' AND NOT pg_has_role(current_user, nspowner, 'USAGE')"""
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All steps this release knows, in order."""
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in files("rota.store.schema.migrations").iterdir()
        if (match := _FILE.fullmatch(file.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


async def migrate(database: Database) -> list[Migration]:
    """Brings the schema up to date; returns what was applied. Safe to call from many processes at once.

    Raises SetupError when our role may not.
    """
    try:
        applied = await _apply_patiently(database)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SetupError(
            f"This database role may not change the schema ({error}): run `rota migrate` as its owner."
        ) from error
    await make_days(database, DAYS_AHEAD)
    return applied


async def _apply_patiently(database: Database) -> list[Migration]:
    for left in reversed(range(LOCK_TRIES)):
        try:
            return await _apply(database)
        except asyncpg.LockNotAvailableError as error:
            if not left:
                raise SetupError(
                    f"The schema could not be changed ({error}): some transaction has held a table for long. Find it "
                    "in pg_stat_activity (the oldest xact_start), end it, and start again."
                ) from error
            _log.warning("a table is in use; the migration waits and tries again", error=str(error), left=left)
            await asyncio.sleep(LOCK_PAUSE_SECONDS)
    raise AssertionError("unreachable")


async def _apply(database: Database) -> list[Migration]:
    async with database.raw_transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY, timeout=_STEP_SECONDS)
        await connection.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_MILLISECONDS}")
        await connection.execute("CREATE SCHEMA IF NOT EXISTS rota")
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS rota.migrations (number integer PRIMARY KEY, name text NOT NULL, "
            "applied_at timestamptz NOT NULL DEFAULT now())"
        )
        applied = [step for step in migrations() if step.number not in await _done(connection)]
        for step in applied:
            await connection.execute(step.sql, timeout=_STEP_SECONDS)
            await connection.execute(
                "INSERT INTO rota.migrations (number, name) VALUES ($1, $2)", step.number, step.name
            )
        if applied:
            await grant_rights(connection)  # to what is new as well
    return applied


async def missing_steps(database: Database) -> list[Migration]:
    """What this release needs and the database lacks; raises what PostgreSQL says when our role may not look."""
    async with database.raw_transaction() as connection:
        done = await _done(connection)
    return [step for step in migrations() if step.number not in done]


async def bring_up_to_date(database: Database) -> None:
    """Applies what this release needs and the database lacks. A newer schema is fine.

    Raises SetupError when something is missing and our role may not make it, or when it may not even look.
    """
    async with database.raw_transaction() as connection:
        try:
            done = await _done(connection)
            owner = await connection.fetchval(_OWNER)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            done, owner = set(), None  # the role that makes it will be
        except asyncpg.InsufficientPrivilegeError as error:
            raise SetupError(
                f"This database role has no rights in Rota's schema ({error}): give it some with "
                "`rota database-roles`, as the schema's owner."
            ) from error
    missing = [step for step in migrations() if step.number not in done]
    if not missing:
        return
    if owner:
        raise SetupError(
            f"The database's schema is not up to date (it lacks {missing[0].number:04} {missing[0].name}), and this "
            f"role may not change it: run `rota migrate` as its owner, {owner}."
        )
    await migrate(database)


async def _done(connection: Any) -> set[int]:
    return {row["number"] for row in await connection.fetch("SELECT number FROM rota.migrations")}
