"""A whole fleet under random faults: the recorded history must obey every rule.

`make chaos SEED=7 MINUTES=10` runs it for longer; the seed is printed, and repeats the choices of clients and faults.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import suppress

import asyncpg
import pytest
from checker import ENDED
from flow_workload import FlowWorkload
from ground import Ground
from history import History, Sample
from nemesis import GONE, Nemesis
from records import flows_in_words, judge, read_records, until_drained
from workload import Clients, Workload

from pgbouncer import require_pgbouncer

pytestmark = [pytest.mark.scenario, pytest.mark.alone]

MINUTES = float(os.environ.get("ROTA_CHAOS_MINUTES") or 3)
SEED = int(os.environ.get("ROTA_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
CLAIMS = """
SELECT coalesce(policies ->> 'order', substr(policies ->> 'limit', 5)) AS key, count(*) AS claims
  FROM rota.live_runs WHERE claim IS NOT NULL AND policies IS NOT NULL AND policies ?| '{order,limit}' GROUP BY 1
"""


async def test_a_fleet_under_random_faults_keeps_its_promises():
    require_pgbouncer()
    print(f"\nseed {SEED}, {MINUTES:g} minutes")
    history = History()
    async with Ground(history) as ground:
        clients = Clients(ground.api_urls, ground.token, history, random.Random(SEED))
        workload, nemesis = Workload(clients, history, SEED), Nemesis(ground, SEED)
        flows = FlowWorkload(clients, history, SEED, ground.notes)
        async with asyncio.TaskGroup() as group:  # one that fails ends the others
            watching = group.create_task(watch_claims(ground.url, history))
            working = [group.create_task(it.run()) for it in (workload, flows)]
            await nemesis.run(MINUTES * 60)
            workload.stop()
            flows.stop()
            await asyncio.gather(*working)
            history.drained = await until_drained(ground.url)
            watching.cancel()
        await read_records(ground, history)
        await clients.close()
    print(summary(history, nemesis))
    judge(ground, history, SEED)


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


def summary(history: History, nemesis: Nemesis) -> str:
    statuses = {status: sum(run.status == status for run in history.runs) for status in sorted(ENDED)}
    exits = [(left.name, left.code) for left in history.exits]
    return (
        f"{len(history.accepted)} jobs accepted, {len(history.runs)} runs {statuses}, {len(history.notes)} notes, "
        f"{len(history.charges)} charges, {len(history.answers)} other calls\n"
        f"{flows_in_words(history)}\nfaults: {nemesis.done}\nexits: {exits}"
    )
