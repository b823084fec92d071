"""A whole fleet under random faults: the recorded history must obey every rule.

`make chaos SEED=7 MINUTES=10` runs it for longer; the seed is printed, and repeats the choices of clients and faults.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

import asyncpg
import msgspec
import pytest
from checker import ENDED, violations
from ground import Ground
from history import History, Note, Sample, StoredRun
from nemesis import GONE, Nemesis
from workload import Clients, Workload

from pgbouncer import require_pgbouncer
from support import patience

pytestmark = [pytest.mark.scenario, pytest.mark.alone]

MINUTES = float(os.environ.get("ROTA_CHAOS_MINUTES") or 3)
SEED = int(os.environ.get("ROTA_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
QUIET_SECONDS = 120.0
CLAIMS = """
SELECT coalesce(policies ->> 'order', substr(policies ->> 'limit', 5)) AS key, count(*) AS claims
  FROM rota.live_runs WHERE claim IS NOT NULL AND policies IS NOT NULL AND policies ?| '{order,limit}' GROUP BY 1
"""
RUNS = """
SELECT 'run_' || replace(id::text, '-', '') AS id, 'job_' || replace(job_id::text, '-', '') AS job_id, name, status,
       cause, attempt, nominal_at, run_at, created_at, started_at, finished_at, cancel_requested,
       policies::text AS policies, gate, reason, checkpoint
  FROM rota.runs
"""


async def test_a_fleet_under_random_faults_keeps_its_promises():
    require_pgbouncer()
    print(f"\nseed {SEED}, {MINUTES:g} minutes")
    history = History()
    async with Ground(history) as ground:
        clients = Clients(ground.api_urls, ground.token, history, random.Random(SEED))
        workload, nemesis = Workload(clients, history, SEED), Nemesis(ground, SEED)
        async with asyncio.TaskGroup() as group:  # one that fails ends the others
            watching = group.create_task(watch_claims(ground.url, history))
            working = group.create_task(workload.run())
            await nemesis.run(MINUTES * 60)
            workload.stop()
            await working
            history.drained = await until_drained(ground.url)
            watching.cancel()
        await read_records(ground, history)
        await clients.close()
    print(summary(history, nemesis))
    found = violations(history)
    if found:
        (ground.home / "history.json").write_bytes(msgspec.json.encode(history))
        print(f"kept for a look: {ground.home}")
    else:
        shutil.rmtree(ground.home, ignore_errors=True)
    assert not found, f"seed {SEED}: {len(found)} violations\n" + "\n".join(brief(found))


async def watch_claims(url: str, history: History) -> None:
    """Counts the claims of each key, over and over, whenever the database is there."""
    while True:
        with suppress(*GONE):
            sql = await asyncpg.connect(url, timeout=5)
            try:
                while True:
                    now, rows = time.time(), await sql.fetch(CLAIMS, timeout=30)
                    history.samples += [Sample(now, row["key"], row["claims"]) for row in rows if row["claims"] > 1]
                    await asyncio.sleep(0.02)
            finally:
                sql.terminate()
        await asyncio.sleep(0.1)


async def until_drained(url: str) -> bool:
    """Whether everything ended within the time that recovery may take."""
    until = time.monotonic() + QUIET_SECONDS * patience()
    waiting = "SELECT count(*) FROM rota.runs WHERE place <> 'finished'"
    while time.monotonic() < until:
        sql = await asyncpg.connect(url)
        try:
            if not await sql.fetchval(waiting):
                return True
        finally:
            await sql.close()
        await asyncio.sleep(0.5)
    return False


async def read_records(ground: Ground, history: History) -> None:
    sql = await asyncpg.connect(ground.url)
    history.runs = [StoredRun(**_plain(dict(row))) for row in await sql.fetch(RUNS)]
    history.charges = [row["run"] for row in await sql.fetch("SELECT run FROM public.ledger")]
    letters = "SELECT 'run_' || replace(run_id::text, '-', '') AS id FROM rota.dead_letters"
    history.dead_letters = [row["id"] for row in await sql.fetch(letters)]
    await sql.close()
    history.notes = [msgspec.json.decode(line, type=Note) for line in ground.notes.read_bytes().splitlines()]
    history.tracebacks = ground.tracebacks()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: value.timestamp() for name, value in row.items() if isinstance(value, datetime)}
    policies = msgspec.json.decode(row["policies"]) if row["policies"] else None
    return row | times | {"policies": policies}


def brief(found: list[str], most: int = 5) -> list[str]:
    """A few violations of each rule; the rest is in the kept history."""
    rules: dict[str, list[str]] = {}
    for words in found:
        rules.setdefault(words.partition(":")[0], []).append(words[-700:])
    return [line for words in rules.values() for line in (f"{len(words)} times:", *words[:most])]


def summary(history: History, nemesis: Nemesis) -> str:
    statuses = {status: sum(run.status == status for run in history.runs) for status in sorted(ENDED)}
    exits = [(left.name, left.code) for left in history.exits]
    return (
        f"{len(history.accepted)} jobs accepted, {len(history.runs)} runs {statuses}, {len(history.notes)} notes, "
        f"{len(history.charges)} charges, {len(history.answers)} other calls\nfaults: {nemesis.done}\nexits: {exits}"
    )
