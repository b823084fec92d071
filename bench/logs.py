"""Logs: a search in a day of many lines must be fast, its index small, and lines must not cost noticeably more.

A day of logs is put into object storage and into the index directly, with the code by which schedulers do it; runs of
four owners in one namespace, and a few in another. To save time, each text stands there COPIES times. Then texts are
asked for over HTTP: one that is there once, one that is nowhere, one in nearly every line, a part of a number. After
that, logs are written and copied with the index and without, in turns: what a line costs.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode
from uuid import UUID, uuid4

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from rota.blobs import Blobs
from rota.client import AsyncClient
from rota.domain.ids import new_id
from rota.domain.log_index import Block, pack_members, read_members, shared_key
from rota.domain.run import Claim, LogChunk
from rota.ops.bench_load import Connections, Spread, percentile
from rota.scheduler import log_uploader
from rota.scheduler.block_maker import CopiedLog, blocks_of, place_blocks
from rota.scheduler.log_uploader import LogUploader
from rota.store.logs import Logs
from rota.store.logs.blocks import LogBlocks, PlacedBlock
from rota.store.postgres.database import Database
from rota.store.schema.migrate import bring_up_to_date

LINES_PER_LOG = 10
LOGS_PER_OBJECT = 500
COPIES = 10
OWNERS = 4
ASKED = 15
NEEDLE = "Wolpertinger"
_WORDS = ("shipped", "received", "refused", "packed", "weighed", "charged", "refunded", "queued", "scanned", "moved")
_PLACES = (
    "Aachen",
    "Bergen",
    "Cardiff",
    "Dublin",
    "Essen",
    "Florence",
    "Ghent",
    "Helsinki",
    "Jena",
    "Krakow",
    "Lisbon",
)
_COLUMNS = ("namespace", "last_run", "blob", "first", "length", "first_run", "owner", "members", "filter")


class Searched(msgspec.Struct):
    """One text: how long a page took, and how many lines it had."""

    text: str
    tenant: str
    found: int
    took: Spread


class LineCost(msgspec.Struct):
    """Microseconds of processor time that a line costs, from the worker's write to its copy, with the index and
    without: of Rota's processes and of PostgreSQL."""

    with_index: float
    without: float
    share: float


class LogFigures(msgspec.Struct):
    """The scenario's figures."""

    lines: int
    text_bytes: int
    index_bytes: int
    blocks: int
    searches: list[Searched]
    cost: LineCost


async def measure_logs(progress: Progress, *, lines: int, written: int, turns: int) -> LogFigures:
    """Searches in a day of so many lines; then what lines cost, `written` at a time."""
    async with Lab() as lab:
        progress.say(f"planting {lines:,} lines of yesterday")
        day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
        text_bytes = await _plant(lab, day, lines)
        index_bytes = await lab.database.fetchval(
            "SELECT sum(pg_total_relation_size(inhrelid))::bigint FROM pg_inherits"
            " WHERE inhparent = 'rota.log_blocks'::regclass"
        )
        blocks = await lab.database.fetchval("SELECT count(*) FROM rota.log_blocks")
        progress.figure(
            f"{blocks:,} blocks; the index has {index_bytes / text_bytes:.0%} of {text_bytes / 1e6:,.0f} MB"
        )
        progress.say("searching")
        searches = await _search(lab, day)
        for one in searches:
            progress.figure(f"{one.text!r} ({one.tenant}): {one.found} lines, {one.took.p50:.0f} ms")
        cost = await _cost(lab, progress, written, turns)
    return LogFigures(lines, text_bytes, index_bytes, blocks, searches, cost)


async def _plant(lab: Lab, day: datetime, lines: int) -> int:
    """Returns the size of the text."""
    logs = lines // LINES_PER_LOG // COPIES
    step = timedelta(days=1) / COPIES / max(1, logs)
    size = 0
    await lab.database.execute("SELECT rota.make_day($1)", day.date())
    # Not forked: this process has threads.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        make = partial(_make_objects, lab.home / "blobs", day, step, logs)
        loop = asyncio.get_running_loop()
        coming = [loop.run_in_executor(pool, make, first) for first in (-1, *range(0, logs, LOGS_PER_OBJECT))]
        for made in coming:
            rows = await made
            size += sum(row[4] for row in rows)
            await lab.database.copy_records_to_table("log_blocks", schema_name="rota", records=rows, columns=_COLUMNS)
    await lab.database.execute("VACUUM rota.log_blocks", timeout=600)
    await lab.database.execute("CHECKPOINT", timeout=600)
    return size


def _make_objects(directory: Path, day: datetime, step: timedelta, logs: int, first: int) -> list[tuple[Any, ...]]:
    """Objects with logs from this one on, as an uploader lays them out; the rows of their blocks. -1: the one log with
    the rare word."""
    chance = random.Random(first)  # noqa: S311 - repeatable
    numbers = range(first, min(first + LOGS_PER_OBJECT, logs)) if first >= 0 else (logs // 3,)
    made = sorted((_tenant(number), number) for number in numbers)
    texts = ["".join(_lines(chance, day)).encode() for _ in made]
    if first < 0:
        texts = [f"{_stamp(day)} stdout the {NEEDLE} was here\n".encode()]
    whole = b"".join(texts)
    rows: list[tuple[Any, ...]] = []
    blocks: list[PlacedBlock] = []
    for copy in range(COPIES if first >= 0 else 1):
        key = shared_key(day.date().isoformat(), uuid4().hex)
        path = directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole)
        ids = [new_id((day + (copy * logs + number) * step).timestamp()) for _, number in made]
        if not blocks:
            blocks = _blocks(made, ids, texts, key)
        rest = iter(ids)
        rows += [_row(block._replace(blob=key, block=_with_runs(block.block, rest, copy))) for block in blocks]
    return rows


def _blocks(
    made: list[tuple[tuple[str, str], int]], ids: list[UUID], texts: list[bytes], key: str
) -> list[PlacedBlock]:
    copied, runs, at = [], {}, 0
    for ((namespace, owner), number), run_id, text in zip(made, ids, texts, strict=True):
        copied.append(CopiedLog(namespace, run_id, number + 1, 1, key, at, text))
        runs[namespace, run_id] = _run(owner, run_id, number)
        at += len(text)
    return blocks_of(copied, runs)


def _with_runs(block: Block, ids: Iterator[UUID], copy: int) -> Block:
    """The block with runs of another time."""
    members = [(next(ids), member.claim + (copy << 40), 1, member.length) for member in read_members(block.members)]
    runs = [member[0] for member in members]
    return block._replace(first_run=min(runs), last_run=max(runs), members=pack_members(members))


def _tenant(number: int) -> tuple[str, str]:
    return ("small", "ann") if number % 100 == 1 else ("default", f"owner-{number % OWNERS}")


def _run(owner: str, run_id: UUID, number: int) -> dict[str, Any]:
    return {"owner": owner, "job_id": run_id, "task": f"task-{number % 50}", "pool": "default", "name": "n", "tags": []}


def _row(it: PlacedBlock) -> tuple[Any, ...]:
    block = it.block
    return (
        *(it.namespace, block.last_run, it.blob, block.first, block.length, block.first_run, it.owner),
        *(block.members, block.filter),
    )


def _lines(chance: random.Random, moment: datetime) -> Iterator[str]:
    stamp = _stamp(moment)
    for _ in range(LINES_PER_LOG):
        yield (
            f"{stamp} log INFO order {chance.randrange(10**8):08} of customer {chance.getrandbits(48):012x} was "
            f"{chance.choice(_WORDS)} in {chance.choice(_PLACES)} after {chance.randrange(5000)} ms\n"
        )


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _search(lab: Lab, day: datetime) -> list[Searched]:
    times = {"startTime": day.isoformat(), "endTime": (day + timedelta(days=1)).isoformat()}
    async with lab.connect(1) as connections:
        number = await _some_number(connections, times)
        wanted = (NEEDLE, number, "order", "Xanthippe", "4711 4711")
        of_all = [await _ask(connections, text, "all", times) for text in wanted]
    async with Connections(lab.url, await _key_of_small(lab), 1) as connections:
        return of_all + [
            await _ask(connections, text, "a tenant with 1 % of the lines", times)
            for text in (NEEDLE, "order", "Xanthippe")
        ]


async def _some_number(connections: Connections, times: dict[str, str]) -> str:
    """The number of an order that occurs."""
    page = await connections.get(f"/v1/logs?{urlencode({'search': 'order', 'limit': 1} | times)}")
    return str(page["items"][0]["text"].split()[2])


async def _key_of_small(lab: Lab) -> str:
    """A key of the small tenant, who sees its own lines only."""
    async with AsyncClient(lab.url, lab.token, namespace="small") as client:
        made = await client.create_key("small", role="submitter", owner="ann")
        return made.key


async def _ask(connections: Connections, text: str, tenant: str, times: dict[str, str]) -> Searched:
    taken = []
    for _ in range(ASKED):
        began = time.perf_counter()
        page = await connections.get(f"/v1/logs?{urlencode({'search': text} | times)}")
        taken.append(time.perf_counter() - began)
    return Searched(text, tenant, len(page["items"]), Spread.of(taken))


async def _cost(lab: Lab, progress: Progress, written: int, turns: int) -> LineCost:
    """In turns, so that a machine that is slower for a while is so for both; the median of each."""
    await lab.database.execute("CREATE DATABASE lines")
    database = await Database.connect(lab.database_url("lines"))
    try:
        await bring_up_to_date(database)
        found: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(2 * turns):
            with_index = turn % 2 == 0
            found[with_index].append(await _write_and_copy(lab, database, written, with_index=with_index))
    finally:
        await database.close()
    here, there = (percentile(sorted(found[which]), 0.5) for which in (True, False))
    progress.figure(f"a line takes {here:.1f} µs of processor time, {there:.1f} without the index")
    return LineCost(here, there, here / there - 1)


async def _write_and_copy(lab: Lab, database: Database, lines: int, *, with_index: bool) -> float:
    """Microseconds of processor time per line."""
    chance = random.Random(lines)  # noqa: S311 - repeatable
    now = datetime.now(UTC)
    logs = [_log_of(chance, now) for _ in range(lines // LINES_PER_LOG)]
    store = Logs(database)
    keeper = LogUploader(
        logs=store,
        blocks=LogBlocks(database),
        blobs=Blobs.open(str(lab.home / "lines")),
        leases=SimpleNamespace(owned={0: 1}),
    )
    await lab.look()
    began = time.process_time()
    with patch.object(log_uploader, "place_blocks", place_blocks if with_index else _no_blocks):
        for first in range(0, len(logs), 100):
            await store.add(logs[first : first + 100])
        await keeper.catch_up()
    ours = time.process_time() - began
    return (ours + (await lab.used()).postgres_cpu_seconds) / lines * 1e6


def _log_of(chance: random.Random, now: datetime) -> LogChunk:
    run_id = new_id(now.timestamp())
    claim = Claim("default", run_id, run_id, 1, "t", 0, None, None, "{}", None, 0.0, 0.0, 0, 0)
    return LogChunk(claim, 0, "".join(_lines(chance, now)), last=True)


async def _no_blocks(*_arguments: Any) -> list[PlacedBlock]:
    return []
