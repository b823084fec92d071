"""Checks of the database: connection, version, settings, and the rights of our role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg

from rota.api.server import CONNECTIONS as SERVER_CONNECTIONS
from rota.compose import WORKER_CONNECTIONS, open_database
from rota.errors import DatabaseUnavailableError, SetupError
from rota.ops.doctor.findings import Finding, ok, problem, warning
from rota.ops.doctor.server import compare_clocks
from rota.settings import Settings
from rota.store.postgres.database import Database
from rota.store.read.fleet import Fleet
from rota.store.schema.database_roles import may_serve
from rota.store.schema.migrate import missing_steps

_CHECK = "database"
# A server and a worker, each with one more connection to listen on; and one for the lease of the server's scheduler.
_WANTED_CONNECTIONS = SERVER_CONNECTIONS + WORKER_CONNECTIONS + 3
_SMALL_BUFFERS = 128 * 1024**2
OLD_TRANSACTION_SECONDS = 300
_SAMPLE = 1000
_Facts = Mapping[str, Any]


@asynccontextmanager
async def reach(settings: Settings) -> AsyncIterator[Database | Finding]:
    """The database, or a finding if it can't be reached."""
    try:
        opened = open_database(settings, size=1, name="rota-doctor", check=False)
        database = await opened.__aenter__()
    except SetupError as error:
        yield _unreached(settings, error)
        return
    try:
        yield database
    finally:
        await opened.__aexit__(None, None, None)


def _unreached(settings: Settings, error: SetupError) -> Finding:
    if isinstance(error.__cause__, PermissionError):
        return problem(
            _CHECK, f"the embedded PostgreSQL is in {settings.home}, out of reach", "set ROTA_HOME to another"
        )
    if not settings.database_url:
        return warning(_CHECK, f"the embedded PostgreSQL of {settings.home} is not running", "start it: rota up")
    if isinstance(error.__cause__, DatabaseUnavailableError):
        return problem(_CHECK, str(error), "start it, or set ROTA_DATABASE_URL to where it is")
    return problem(_CHECK, str(error), "set ROTA_DATABASE_URL to an address and account that work")


def check_kind(facts: _Facts, *, pooled: bool, embedded: bool) -> Iterator[Finding]:
    """The server's version, TLS and pooler."""
    kind = "the embedded PostgreSQL" if embedded else "PostgreSQL"
    between = ", through a pooler" if pooled else ""
    secure = "over TLS" if facts["tls"] else "on this host" if facts["local"] else "without TLS"
    words = f"{kind} {facts['version_text']} as {facts['role']}, {secure}{between}"
    if facts["standby"]:
        yield problem(_CHECK, f"{words}: it is read-only", "set ROTA_DATABASE_URL to the primary")
    elif not facts["tls"] and not facts["local"] and not pooled:
        yield warning(_CHECK, words, "add ?sslmode=verify-full to ROTA_DATABASE_URL where others can listen")
    else:
        yield ok(_CHECK, words)


def check_pooler(settings: Settings, *, pooled: bool) -> Iterator[Finding]:
    """LISTEN does not work through a pooler in transaction mode."""
    if pooled and settings.notify and not settings.listen_url:
        words = "LISTEN does not work through it: workers poll every 0.2 seconds"
        yield warning("pooler", words, "set ROTA_LISTEN_URL to the server itself")


async def check_schema(database: Database, facts: _Facts) -> AsyncIterator[Finding]:
    """The schema's version, and what our role can do."""
    if not facts["has_schema"]:
        yield warning("schema", "there is none yet", "rota migrate, or start a server")
        return
    try:
        missing = await missing_steps(database)
    except asyncpg.InsufficientPrivilegeError:
        yield problem("schema", f"role {facts['role']} has no rights in it", "as its owner: rota database-roles")
        return
    if missing:
        words = f"it lacks {', '.join(f'{step.number:04} {step.name}' for step in missing)}"
        yield problem("schema", words, "as its owner: rota migrate")
        return
    serves = await may_serve(database)
    yield ok("schema", f"up to date; role {facts['role']} may {'serve and schedule' if serves else 'work'}")


def check_durability(facts: _Facts) -> Iterator[Finding]:
    """Settings that keep commits safe."""
    if not facts["fsync"] or not facts["full_page_writes"]:
        name = "full_page_writes" if facts["fsync"] else "fsync"
        yield problem("durability", f"{name} is off: a crash can destroy the database", f"ALTER SYSTEM SET {name} = on")
    elif facts["synchronous_commit"] == "off":
        yield warning(
            "durability",
            "synchronous_commit is off: a crash loses the jobs accepted just before it",
            "ALTER SYSTEM SET synchronous_commit = on",
        )
    else:
        yield ok("durability", f"fsync is on, synchronous_commit is {facts['synchronous_commit']}")


def check_upkeep(facts: _Facts) -> Iterator[Finding]:
    """Settings and transactions that make it slow."""
    found = []
    if not facts["autovacuum"]:
        words = "autovacuum is off: tables grow without end"
        found.append(problem("upkeep", words, "ALTER SYSTEM SET autovacuum = on"))
    if facts["oldest_transaction_seconds"] > OLD_TRANSACTION_SECONDS:
        minutes = facts["oldest_transaction_seconds"] / 60
        words = f"a transaction has been open for {minutes:.0f} minutes: VACUUM can't remove rows deleted since"
        found.append(warning("upkeep", words, "find it in pg_stat_activity (xact_start), and end it"))
    if facts["idle_slots"]:
        words = f"{facts['idle_slots']} inactive replication slots keep WAL"
        found.append(warning("upkeep", words, "drop unused slots"))
    if facts["shared_buffers"] < _SMALL_BUFFERS:
        words = f"shared_buffers is {facts['shared_buffers'] / 1024**2:.0f} MB"
        found.append(warning("upkeep", words, "ALTER SYSTEM SET shared_buffers = '256MB', and restart it"))
    yield from found or [ok("upkeep", "autovacuum is on, no transaction is old")]


def check_connections(facts: _Facts, *, wanted: int = _WANTED_CONNECTIONS) -> Iterator[Finding]:
    """Room for a server and a worker."""
    limit = facts["role_limit"] if facts["role_limit"] >= 0 else facts["max_connections"]
    name = "the role's connection limit" if facts["role_limit"] >= 0 else "max_connections"
    words = f"{facts['connections']} of {facts['max_connections']} in use"
    if min(limit, facts["max_connections"] - facts["connections"]) < wanted:
        words += f"; a server and a worker take up to {wanted} ({name} is {limit})"
        yield warning("connections", words, "raise max_connections, or use a pooler")
    else:
        yield ok("connections", words)


def check_database_clock(facts: _Facts, now: datetime) -> Iterator[Finding]:
    """This host's clock against the database's."""
    yield compare_clocks("clock", "the database's", facts["now"] - now)


async def fetch_fleet(database: Database) -> dict[str, Any]:
    """The fleet as a server shows it, for when there is none."""
    fleet = Fleet(database)
    return {
        "workers": [dict(row) for row in await fleet.workers()],
        "shards": [dict(row) for row in await fleet.shards()],
        "queued": [dict(row) for row in await fleet.sample_waiting(_SAMPLE)],
    }
