"""Keys and limits hold while schedulers and workers are killed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress

import asyncpg
import pytest
from grounds import on

from support import eventually

pytestmark = pytest.mark.scenario

KEYS = 12
RUNS_PER_KEY = 8
LIMITED = 60
LIMIT = 3


async def watch_limit(database_url, seen):
    """How many claims of the limited key there are, over and over."""
    sql = await asyncpg.connect(database_url)
    claims = "SELECT count(*) FROM rota.live_runs WHERE policies ->> 'limit' = 'key:few' AND claim IS NOT NULL"
    try:
        while True:
            seen.append(await sql.fetchval(claims))
            await asyncio.sleep(0.01)
    finally:
        await sql.close()


@on("direct", "pgbouncer")
async def test_keys_and_limits_hold_while_schedulers_and_workers_are_killed(fleet, sql, database_url, tmp_path):
    await fleet.start_api()
    schedulers = [await fleet.start("scheduler") for _ in range(2)]
    workers = [await fleet.start_worker() for _ in range(2)]
    jobs = []
    for number in range(RUNS_PER_KEY):
        for key in range(KEYS):
            payload = {"file": str(tmp_path / f"key-{key}"), "seconds": 0.02}
            jobs.append({"orderingKey": f"key-{key}", "payload": payload, "name": f"{key}-{number}", "maxRetries": 20})
    few = {
        "concurrencyKey": "few",
        "concurrencyLimit": LIMIT,
        "payload": {"file": str(tmp_path / "few"), "seconds": 0.1},
    }
    jobs += [{**few, "name": "few", "maxRetries": 20} for _ in range(LIMITED)]
    body = [{"scheduleType": "immediate", "task": "note"} | job for job in jobs]
    answers = (await fleet.post("/v1/jobs/batch", body))["results"]
    assert not [answer for answer in answers if "error" in answer]
    seen: list[int] = []
    watching = asyncio.create_task(watch_limit(database_url, seen))

    async def ended(share):
        done = await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'")
        return done >= share * len(jobs)

    await eventually(lambda: ended(0.2), within=60)
    await workers[0].kill()
    await fleet.start_worker()
    await eventually(lambda: ended(0.5), within=60)
    await schedulers[0].kill()
    await fleet.start("scheduler")
    await eventually(lambda: ended(1.0), within=90)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    assert max(seen) == LIMIT, "the limit is used, and never passed"
    order = defaultdict(list)
    for job, answer in zip(jobs, answers, strict=True):
        order[job.get("orderingKey")].append(answer["runId"])
    for key in range(KEYS):
        assert_one_after_the_other((tmp_path / f"key-{key}").read_text().splitlines(), order[f"key-{key}"])
    assert await sql.fetchval("SELECT count(*) FROM rota.held_runs") == 0


def assert_one_after_the_other(lines, expected):
    """Every run ended before the next one started; one that was cut off was started again before any other."""
    ended = []
    running = None
    for line in lines:
        what, run_id, _ = line.split()
        if what == "start":
            assert running in (None, run_id), f"{run_id} started while {running} had not ended"
            running = run_id
        else:
            assert run_id == running
            running = None
            if run_id not in ended:
                ended.append(run_id)
    assert ended == expected
