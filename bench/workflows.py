"""Workflows: how soon a node follows the one before it, how many nodes and members a second run, and how long a cancel
of a large one, and a look at it, take."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from rota.client import AsyncClient
from rota.ops.bench_load import Spread

LEVELS = 50
LOOK_SECONDS = 0.05
_ENDED = ("success", "failed", "cancelled")


class WorkflowFigures(msgspec.Struct):
    """From the end of a node to the start of the next in a chain, in milliseconds; nodes a second of a graph in LEVELS
    levels; a map: its members, how long it took with its join, and the memory of the largest process; how long the
    answer to a look at it took, and the cancel of another one, in seconds."""

    chain: Spread
    nodes: int
    nodes_per_second: float
    members: int
    map_seconds: float
    scheduler_bytes: int
    look_ms: float
    cancel_seconds: float


async def measure_workflows(progress: Progress, *, chain: int, nodes: int, members: int) -> WorkflowFigures:
    """Each on two workers, started as a user does."""
    async with Lab(workers=2) as lab, AsyncClient(lab.url, lab.token) as client:
        objects = lab.home / "blobs" / "inputs" / "default"
        await asyncio.to_thread(_write_items, objects, members)
        await _create(client, "chain", {f"n{at:04}": _node(f"n{at - 1:04}" if at else None) for at in range(chain)})
        await _create(client, "graph", _graph(nodes))
        each = {"task": "noop", "payload": {}, "map": {"items": {"$object": "items.ndjson"}}, "maxRetries": 0}
        await _create(client, "map", {"each": each, "join": _node("each")})
        progress.say(f"a chain of {chain} nodes")
        run = await _run(client, "chain")
        gaps = await _gaps(lab, run.workflow_run_id)
        spread = Spread.of(gaps)
        progress.figure(f"end to start p50 {spread.p50:.1f} ms, p99 {spread.p99:.1f} ms")
        progress.say(f"a graph of {nodes} nodes in {LEVELS} levels")
        began = time.monotonic()
        await _run(client, "graph")
        rate = nodes / (time.monotonic() - began)
        progress.figure(f"{rate:,.0f} nodes/s")
        progress.say(f"a map of {members:,} members")
        began = time.monotonic()
        run = await _run(client, "map")
        took = time.monotonic() - began
        counts = run.nodes["each"].members
        assert counts.success == members, counts  # noqa: S101 - a mistake in the benchmark itself
        progress.figure(f"{took:.1f} s, {members / took:,.0f} members/s")
        began = time.monotonic()
        await client.workflow_run(run.workflow_run_id)
        look_ms = (time.monotonic() - began) * 1000
        cancel = await _cancel(client, members)
        progress.figure(f"a look at it {look_ms:.0f} ms; the cancel of one {cancel:.1f} s")
        largest = max(lab.peak_memory().values())
    return WorkflowFigures(spread, nodes, rate, members, took, largest, look_ms, cancel)


def _node(before: str | None) -> dict[str, Any]:
    return {"task": "noop", "maxRetries": 0, "after": [before] if before else []}


def _graph(nodes: int) -> dict[str, Any]:
    """Levels of the same width; each node comes after two of the level before."""
    width = max(1, nodes // LEVELS)
    found = {}
    for at in range(nodes):
        level, place = divmod(at, width)
        before = [] if not level else [f"n{level - 1:03}_{one % width}" for one in {place, place + 1}]
        found[f"n{level:03}_{place}"] = {"task": "noop", "maxRetries": 0, "after": list(dict.fromkeys(before))}
    return found


def _write_items(directory: Any, count: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "items.ndjson").open("w") as lines:
        lines.writelines(f"{number}\n" for number in range(count))


async def _create(client: AsyncClient, name: str, nodes: dict[str, Any]) -> None:
    await client.create_workflow({"name": name, "nodes": nodes})


async def _run(client: AsyncClient, name: str) -> Any:
    started = await client.run_workflow(name)
    while True:
        run = await client.workflow_run(started.workflow_run_id)
        if run.status in _ENDED:
            return run
        await asyncio.sleep(LOOK_SECONDS)


async def _cancel(client: AsyncClient, members: int) -> float:
    """How long it takes until a map that was just begun is cancelled."""
    started = await client.run_workflow("map")
    await asyncio.sleep(min(1.0, members / 200_000))  # some of it runs
    run = await client.workflow_run(started.workflow_run_id)
    began = time.monotonic()
    await client.cancel_workflow_run(started.workflow_run_id)
    while run.status not in _ENDED:
        run = await client.workflow_run(started.workflow_run_id)
        await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic() - began


async def _gaps(lab: Lab, flow: str) -> list[float]:
    """From the end of each node to the start of the next, in seconds."""
    rows = await lab.database.fetch(
        "SELECT started_at, finished_at FROM rota.finished_runs WHERE job_id = $1::uuid AND cause = 'node'"
        " ORDER BY started_at",
        flow.removeprefix("wfr_"),
    )
    return [(after["started_at"] - before["finished_at"]).total_seconds() for before, after in pairwise(rows)]
