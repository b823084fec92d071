"""Runs all checks in order."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import UTC, datetime

import asyncpg

from rota.client import Client
from rota.errors import RotaError
from rota.ops.doctor import database as databases
from rota.ops.doctor import fleet, machine, server, storage
from rota.ops.doctor.findings import Finding, collect, problem
from rota.ops.doctor.settings import read_settings
from rota.settings import Settings
from rota.store.postgres.database import Database


async def examine(environment: MutableMapping[str, str]) -> list[Finding]:
    """The findings of all checks (for the environment see `read_settings`)."""
    settings, findings = read_settings(environment)
    findings = [*machine.check_versions(), *findings]
    findings += await collect("home", machine.check_home(settings))
    findings += await collect("disk", machine.check_disk(settings))
    findings += await collect("port", machine.check_port(settings))
    findings += await collect("open files", machine.check_files())
    findings += await collect("time zones", machine.check_zones())
    fleet_seen = _check_server(settings, findings)
    async with databases.reach(settings) as reached:
        if isinstance(reached, Finding):
            findings.append(reached)
        else:
            findings += await collect("database", _check_database(settings, reached))
            if not fleet_seen:
                findings += await collect("fleet", _check_fleet(reached))
    findings += await collect("object storage", storage.check_storage(settings))
    return findings


def _check_server(settings: Settings, findings: list[Finding]) -> bool:
    """Adds findings; returns whether the server showed the fleet."""
    answer = server.ask_server(settings)
    if isinstance(answer, Finding):
        findings.append(answer)
        return False
    findings += server.check_server(settings, answer)
    findings += server.check_clock(answer, datetime.now(UTC))
    try:
        with Client(settings.url, settings.token or "", retries=0) as client:
            findings += server.check_token(settings, client)
            seen = server.fetch_fleet(client)
    except RotaError as error:
        findings += [problem("token", str(error))]
        return False
    findings += fleet.check_fleet(seen, owner="schedulerId")
    return seen["workers"] is not None


async def _check_database(settings: Settings, database: Database) -> list[Finding]:
    facts = await database.examine()
    return [
        *databases.check_kind(facts, pooled=database.pooled, embedded=not settings.database_url),
        *databases.check_pooler(settings, pooled=database.pooled),
        *[finding async for finding in databases.check_schema(database, facts)],
        *databases.check_durability(facts),
        *databases.check_upkeep(facts),
        *databases.check_connections(facts),
        *databases.check_database_clock(facts, datetime.now(UTC)),
    ]


async def _check_fleet(database: Database) -> list[Finding]:
    """The fleet from the database; other checks report a missing schema or missing rights."""
    facts = await database.examine()
    if not facts["has_schema"]:
        return []
    try:
        return list(fleet.check_fleet(await databases.fetch_fleet(database), owner="owner"))
    except asyncpg.InsufficientPrivilegeError:
        return []
