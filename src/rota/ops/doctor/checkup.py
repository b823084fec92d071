"""All checks in their order, each with what it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any

import asyncpg

from rota.client import Client
from rota.errors import RotaError
from rota.ops.doctor import database as databases
from rota.ops.doctor import fleet, machine, server
from rota.ops.doctor import machine as storage
from rota.ops.doctor.findings import Finding, look, problem
from rota.ops.doctor.settings import read_settings
from rota.settings import Settings
from rota.store.postgres.database import Database


async def examine(environment: MutableMapping[str, str]) -> list[Finding]:
    """What there is to say about the surroundings of whoever has this environment (see `read_settings`)."""
    settings, findings = read_settings(environment)
    findings = [*machine.check_versions(), *findings]
    for check in (machine.check_home, machine.check_disk, machine.check_port):
        findings += await look(check.__name__, _of_settings(check, settings))
    findings += await look("open files", _given(machine.check_files()))
    findings += await look("time zones", _given(machine.check_zones()))
    fleet_seen = await _look_at_server(settings, findings)
    async with databases.reach(settings) as reached:
        if isinstance(reached, Finding):
            findings.append(reached)
        else:
            findings += await look("database", lambda: _look_at_database(settings, reached))
            if not fleet_seen:
                findings += await look("fleet", lambda: _look_at_fleet(reached))
    findings += await look("object storage", lambda: _all(storage.check_storage(settings)))
    return findings


async def _look_at_server(settings: Settings, findings: list[Finding]) -> bool:
    """Adds what is found; whether the fleet was seen through it."""
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
    findings += fleet_findings(seen, owner="schedulerId")
    return seen["workers"] is not None


async def _look_at_database(settings: Settings, database: Database) -> list[Finding]:
    facts = await databases.examine(database)
    embedded = not settings.database_url
    return [
        *databases.check_kind(facts, pooled=database.pooled, embedded=embedded),
        *databases.check_pooler(settings, pooled=database.pooled),
        *await _all(databases.check_schema(database, facts)),
        *databases.check_durability(facts),
        *databases.check_upkeep(facts),
        *databases.check_timeouts(facts),
        *databases.check_connections(facts),
        *databases.check_database_clock(facts, datetime.now(UTC)),
    ]


async def _look_at_fleet(database: Database) -> list[Finding]:
    """Without a server that tells; nothing where the schema is not there, which was told."""
    facts = await databases.examine(database)
    if not facts["has_schema"]:
        return []
    try:
        return fleet_findings(await databases.fetch_fleet(database), owner="owner")
    except asyncpg.InsufficientPrivilegeError:
        return []  # a role without rights was told of; one of a worker's need not see this


def fleet_findings(seen: Mapping[str, Any], *, owner: str) -> list[Finding]:
    """What the fleet checks say to what was seen; what we may not see is left out."""
    findings: list[Finding] = []
    workers = seen["workers"]
    if workers is not None:
        findings += fleet.check_workers(workers)
        if seen["queued"] is not None:
            findings += fleet.check_waiting(seen["queued"], workers)
    if seen["shards"] is not None:
        findings += fleet.check_shards(seen["shards"], owner)
    return findings


def _of_settings(check: Any, settings: Settings) -> Any:
    async def findings() -> Iterable[Finding]:
        return list(check(settings))

    return findings


def _given(findings: Iterable[Finding]) -> Any:
    async def given() -> Iterable[Finding]:
        return list(findings)

    return given


async def _all(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in findings]
