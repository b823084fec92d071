"""A submitter faster than the machine is refused politely; memory stays bounded, and nothing accepted is lost."""

from __future__ import annotations

import asyncio
import time

import msgspec
import psutil
import pytest

from rota.client.retries import retry_after
from rota.ops.bench_load import Connections
from support import LONG

pytestmark = [pytest.mark.scenario, pytest.mark.alone, pytest.mark.parametrize("ground", ["direct"], indirect=True)]

# Long enough for every connection to be refused many times.
FLOOD_SECONDS = 60 if LONG else 15
SMALL_CONNECTIONS, LARGE_CONNECTIONS, LARGE_JOBS = 40, 8, 300
MOST_MEMORY_BYTES = 400 * 1024 * 1024
JOB = {"name": "flood", "scheduleType": "immediate", "task": "nobody.serves.this"}


class Flood:
    """Sends the same request again and again, as a submitter does who does not listen."""

    def __init__(self) -> None:
        self.accepted = 0
        self.refused = 0
        self.without_retry_after = 0

    async def send(self, connections: Connections, request: bytes, ends: float) -> None:
        while time.monotonic() < ends:
            answer = await connections.send(request)
            if answer.status in (429, 503):
                self.refused += 1
                self.without_retry_after += not retry_after(answer)
                await asyncio.sleep(0.02)
                continue
            assert answer.status == 200, answer.content
            results = msgspec.json.decode(answer.content)["results"]
            assert not any("error" in result for result in results), results[:3]
            self.accepted += len(results)


async def peaks(processes, ends: float) -> dict[str, list[int]]:
    """Resident memory of each process, looked at every half second."""
    seen: dict[str, list[int]] = {process.name: [] for process in processes}
    while time.monotonic() < ends:
        for process in processes:
            seen[process.name].append(psutil.Process(process.pid).memory_info().rss)
        await asyncio.sleep(0.5)
    return seen


async def test_a_flood_is_refused_in_part_and_kept_in_full(fleet, sql):
    processes = [await fleet.start_api(), await fleet.start("scheduler"), await fleet.start_worker()]
    small = msgspec.json.encode([JOB] * 1000)
    large = msgspec.json.encode([JOB | {"payload": {"text": "x" * 20_000}}] * LARGE_JOBS)
    token = (fleet.home / "admin.token").read_text().strip()
    flood = Flood()
    ends = time.monotonic() + FLOOD_SECONDS
    async with Connections(str(fleet.client.base_url), token, SMALL_CONNECTIONS + LARGE_CONNECTIONS) as connections:
        bodies = [small] * SMALL_CONNECTIONS + [large] * LARGE_CONNECTIONS
        requests = [connections.request("POST", "/v1/jobs/batch", body) for body in bodies]
        watching = asyncio.create_task(peaks(processes, ends))
        await asyncio.gather(*(flood.send(connections, request, ends) for request in requests))
        seen = await watching
    memory = {name: max(values) // 2**20 for name, values in seen.items()}
    print(f"{flood.accepted} accepted, {flood.refused} requests refused, most memory in MiB: {memory}")
    assert flood.refused > 0
    assert flood.without_retry_after == 0
    for name, values in seen.items():
        assert max(values) < MOST_MEMORY_BYTES, f"{name} grew to {max(values)} bytes"
    assert await sql.fetchval("SELECT count(*) FROM rota.runs") == flood.accepted
    # It was only busy: what comes now is taken and run at once.
    run = await fleet.submit("rota.echo", payload={"still": "here"})
    assert (await fleet.until(run["runId"], "success"))["result"] == {"still": "here"}
