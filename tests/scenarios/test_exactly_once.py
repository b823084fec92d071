"""A ledger is charged by transactional tasks while their workers are killed: every charge is there exactly once."""

from __future__ import annotations

import asyncio
import random
import signal

import pytest
from grounds import on

from support import eventually

pytestmark = pytest.mark.scenario

CHARGES = 400
KILLS = 5


@on("direct", "pgbouncer")
async def test_every_charge_is_there_exactly_once_while_workers_are_killed_and_paused(fleet, sql):
    # No constraint helps: a second charge of the same run would be there, and be seen.
    await sql.execute("CREATE TABLE ledger (run text NOT NULL, account integer NOT NULL, cents integer NOT NULL)")
    await fleet.start_api()
    await fleet.start("scheduler")
    workers = [await fleet.start_worker("--slots", "10") for _ in range(2)]
    body = [
        {
            "name": "charge",
            "scheduleType": "immediate",
            "task": "charge" if number % 4 else "charge_sync",
            "payload": {"account": number % 7, "cents": number},
            "maxRetries": 1000,
            "retry": {"strategy": "fixed", "baseSeconds": 0.1},
        }
        for number in range(CHARGES)
    ]
    runs = [answer["runId"] for answer in (await fleet.post("/v1/jobs/batch", body))["results"]]

    async def recorded(share):
        done = await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'")
        return done >= share * CHARGES

    for kill in range(KILLS):
        await eventually(lambda kill=kill: recorded((kill + 1) / (KILLS + 2)), within=90)
        victim = workers.pop(random.randrange(len(workers)))
        if kill % 2:
            victim.send(signal.SIGSTOP)  # it wakes up when others have its runs
            await asyncio.sleep(0)
        else:
            await victim.kill()
        workers.append(await fleet.start_worker("--slots", "10"))
        if kill % 2:
            await eventually(lambda pid=victim.pid: gone(fleet, pid), within=60)
            victim.send(signal.SIGCONT)
            workers.append(victim)
    await eventually(lambda: recorded(1.0), within=120)
    charged = await sql.fetch("SELECT run, account, cents FROM ledger ORDER BY cents")
    assert [row["run"] for row in charged] == runs
    assert [row["cents"] for row in charged] == list(range(CHARGES))
    attempts = await sql.fetchval("SELECT count(*) FROM rota.attempts WHERE outcome IN ('lost', 'failed', 'cut_off')")
    assert attempts > 0, "nothing went wrong, so nothing was shown"


async def gone(fleet, pid):
    """Whether the fleet has given this worker up."""
    return all(worker["status"] == "gone" for worker in await fleet.workers() if worker["pid"] == pid)
