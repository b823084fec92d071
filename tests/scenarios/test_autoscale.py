"""`rota autoscale` on one host: real workers follow a load that comes in bursts."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from itertools import pairwise

import pytest
from fleet import Fleet

from support import eventually

TARGET_SECONDS = 4.0
RUN_SECONDS = 0.5
BURST = 24
SLOTS = 2
MOST = 3
LEAST_BURSTS, MOST_BURSTS = 4, 8
LIMITS = ("--min", "0", "--max", str(MOST), "--slots", str(SLOTS), "--target-lag", str(TARGET_SECONDS))


@pytest.fixture
def ground(database_url):
    """One is enough. Workers would give up what runs after a second."""
    return {"ROTA_DATABASE_URL": database_url, "ROTA_DRAIN_SECONDS": "1", "ROTA_LOG_JSON": "on"}


async def burst(fleet: Fleet, tmp_path) -> float:
    """Submits many at once; returns the longest start lag when all have ended."""
    jobs = [
        {"name": "b", "scheduleType": "immediate", "task": "note"}
        | {"payload": {"file": str(tmp_path / "notes"), "seconds": RUN_SECONDS}}
    ] * BURST
    made = [one["runId"] for one in (await fleet.post("/v1/jobs/batch", jobs))["results"]]
    runs = [await fleet.until(run, "success", within=120) for run in made]
    assert {run["attempt"] for run in runs} == {1}
    return max(
        (datetime.fromisoformat(run["startTime"]) - datetime.fromisoformat(run["scheduledTime"])).total_seconds()
        for run in runs
    )


def changes(process) -> list[int]:
    """The numbers of workers that it decided on, in order."""
    lines = [json.loads(line) for line in process.log.read_text().splitlines() if line.startswith("{")]
    return [line["workers"] for line in lines if line["event"] in ("more workers", "fewer workers")]


async def wanted_now(fleet: Fleet) -> int:
    query = {"targetLagSeconds": TARGET_SECONDS, "slotsPerWorker": SLOTS, "holdSeconds": 0}
    return (await fleet.get("/v1/pools/default/scale", **query))["wantedWorkers"]


async def test_workers_follow_bursts_without_flapping_and_no_long_run_is_killed(fleet, tmp_path):
    await fleet.start_api()
    await fleet.start("scheduler")
    autoscale = await fleet.start(
        "autoscale", *LIMITS, "--cooldown", "20", "--interval", "1", "--app", "tasks:app", "--drain", "3600"
    )
    done = tmp_path / "done"
    long = (await fleet.submit("hold", payload={"file": str(done)}))["runId"]
    lags = []
    while len(lags) < MOST_BURSTS:
        lags.append(await burst(fleet, tmp_path))

        async def is_calm() -> bool:
            return await wanted_now(fleet) <= 1

        await eventually(is_calm, within=60)  # without a memory it would drain now
        if len(lags) >= LEAST_BURSTS and lags[-1] <= TARGET_SECONDS:
            break
    assert lags[-1] <= TARGET_SECONDS, lags
    numbers = changes(autoscale)
    assert all(before < after for before, after in pairwise(numbers)), f"it only went up: {numbers}"
    assert numbers[-1] * SLOTS >= BURST * RUN_SECONDS / TARGET_SECONDS
    assert numbers[-1] <= MOST

    async def has_drained() -> bool:
        return changes(autoscale)[-1] == 1 and len([one for one in await fleet.workers() if not one["goneTime"]]) == 1

    await eventually(has_drained, within=120)
    more, fewer = numbers, changes(autoscale)[len(numbers) :]
    assert fewer == sorted(fewer, reverse=True), f"it only went down: {more}, {fewer}"
    assert (await fleet.run(long))["status"] == "running", "the worker that has it stays"

    stopping = asyncio.create_task(autoscale.terminate())

    async def is_draining() -> bool:
        return "draining" in {one["status"] for one in await fleet.workers()}

    await eventually(is_draining, within=60)
    done.touch()
    assert await stopping == 0
    found = await fleet.until(long, "success")
    assert found["attempt"] == 1
    assert all(one["goneTime"] for one in await fleet.workers())
