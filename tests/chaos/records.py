"""What is read at the end of a run under faults, and what is said of it."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from datetime import datetime
from typing import Any

import asyncpg
import msgspec
from checker import violations
from ground import Ground
from history import History, Note, StoredRun

from support import patience

QUIET_SECONDS = 120.0
RUNS = """
SELECT 'run_' || replace(id::text, '-', '') AS id, 'job_' || replace(job_id::text, '-', '') AS job_id, name, status,
       cause, attempt, nominal_at, run_at, created_at, started_at, finished_at, cancel_requested,
       policies::text AS policies, gate, reason, checkpoint, task, job_version AS node,
       CASE WHEN cause = 'member' THEN (options::jsonb ->> 'item')::integer END AS item,
       'run_' || replace(retry_of::text, '-', '') AS retry_of
  FROM rota.runs
"""
LEFT = """
SELECT 'flow_notes' AS name, count(*) FROM rota.flow_notes
UNION ALL SELECT 'flow_waits', count(*) FROM rota.flow_waits
UNION ALL SELECT 'flow_signals', count(*) FROM rota.flow_signals
UNION ALL SELECT 'workflow_runs', count(*) FROM rota.workflow_runs WHERE ended_at IS NULL
UNION ALL SELECT 'workflow_nodes', count(*) FROM rota.workflow_nodes WHERE state IN ('waiting', 'open')
"""


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
    history.left = {row["name"]: row["count"] for row in await sql.fetch(LEFT) if row["count"]}
    await sql.close()
    history.notes = [msgspec.json.decode(line, type=Note) for line in ground.notes.read_bytes().splitlines()]
    history.tracebacks = ground.tracebacks()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    times = {name: value.timestamp() for name, value in row.items() if isinstance(value, datetime)}
    policies = msgspec.json.decode(row["policies"]) if row["policies"] else None
    return row | times | {"policies": policies}


def judge(ground: Ground, history: History, seed: int) -> None:
    """Fails if a rule was broken, and keeps what was recorded."""
    found = violations(history)
    if found:
        (ground.home / "history.json").write_bytes(msgspec.json.encode(history))
        print(f"kept for a look: {ground.home}")
    else:
        shutil.rmtree(ground.home, ignore_errors=True)
    assert not found, f"seed {seed}: {len(found)} violations\n" + "\n".join(brief(found))


def brief(found: list[str], most: int = 5) -> list[str]:
    """A few violations of each rule; the rest is in the kept history."""
    rules: dict[str, list[str]] = {}
    for words in found:
        rules.setdefault(words.partition(":")[0], []).append(words[-700:])
    return [line for words in rules.values() for line in (f"{len(words)} times:", *words[:most])]


def flows_in_words(history: History) -> str:
    generations = [it for record in history.flows for it in record.generations]
    outcomes = Counter(it.outcome for it in generations)
    nodes = sum(len(record.story.nodes) for record in history.flows)
    made = Counter(run.cause for run in history.runs if run.is_of_a_flow)
    return f"{len(history.flows)} workflow runs of {nodes} nodes, {dict(outcomes)}, {dict(made)}"
