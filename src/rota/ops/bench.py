"""Benchmarks of a running server over its public API.

Jobs run the built-in task `rota.echo` on the server's workers. The figures come from the records of the runs (created,
due, started, ended), so they don't depend on this machine's clock or on the polling interval.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import msgspec

from rota.errors import RotaError
from rota.ops.bench_load import Connections, Spread, Submitter

TASK = "rota.echo"
BATCH = 1000
_AT_ONCE = 3
_SINGLE_CONNECTIONS = 64
_PER_SECOND = 500
_AHEAD_SECONDS = 5.0
_PAGE = 500
_UNFINISHED = "scheduled,queued,running,retrying,blocked"


class NotFinishedError(RotaError):
    """The workers did not run all jobs in time."""


class Throughput(msgspec.Struct, rename="camel"):
    """A burst of jobs, submitted and run as fast as possible."""

    jobs: int
    accepted_per_second: float
    end_to_end_per_second: float
    refused: int


class _Posts(msgspec.Struct, rename="camel"):
    """Single submissions, one request each."""

    accepted_per_second: float
    latency: Spread
    refused: int


class BenchFigures(msgspec.Struct, rename="camel"):
    """All measurements."""

    throughput: Throughput
    instant: Spread
    steady: Spread
    http: _Posts


class _Run(msgspec.Struct, rename="camel"):
    scheduled_time: datetime
    created_at: datetime
    start_time: datetime | None
    end_time: datetime | None
    status: str


class _Page(msgspec.Struct, rename="camel"):
    items: list[_Run]
    next_cursor: str | None


class ServerBench:
    """Measures one server; calls `say` before each phase."""

    def __init__(self, url: str, token: str | None, *, patience_seconds: float, say: Callable[[str], None]) -> None:
        self._url = url
        self._token = token
        self._patience = patience_seconds
        self._say = say

    async def measure(self, *, jobs: int, seconds: float) -> BenchFigures:
        """Runs all phases in turn."""
        self._say(f"{jobs:,} jobs as fast as possible")
        throughput = await self._throughput(jobs)
        self._say(f"{jobs // 10:,} jobs due at one instant")
        instant = await self._lags([timedelta()] * (jobs // 10))
        self._say(f"{_PER_SECOND} jobs a second for {seconds:g} s")
        count = int(_PER_SECOND * seconds)
        steady = await self._lags([timedelta(seconds=number / _PER_SECOND) for number in range(count)])
        self._say(f"single jobs on {_SINGLE_CONNECTIONS} connections for {seconds:g} s")
        return BenchFigures(throughput, instant, steady, await self._posts(seconds))

    async def _throughput(self, jobs: int) -> Throughput:
        tag = _tag()
        async with self._connect(_AT_ONCE) as connections:
            done = await Submitter(connections, at_once=_AT_ONCE).submit(_batches([_job(tag)] * jobs))
            runs = await self._finished(connections, tag, done.accepted)
        first = min(run.created_at for run in runs)
        last = max(run.end_time for run in runs if run.end_time)
        rate = len(runs) / max((last - first).total_seconds(), 1e-6)
        return Throughput(done.accepted, done.per_second, rate, done.refused)

    async def _lags(self, offsets: Sequence[timedelta]) -> Spread:
        tag = _tag()
        start = datetime.now(UTC) + timedelta(seconds=_AHEAD_SECONDS + len(offsets) / 2000)
        jobs = [
            _job(tag) | {"scheduleType": "future", "scheduleTime": (start + offset).isoformat()} for offset in offsets
        ]
        async with self._connect(_AT_ONCE) as connections:
            done = await Submitter(connections, at_once=_AT_ONCE).submit(_batches(jobs))
            await asyncio.sleep(max(0.0, (start + offsets[-1] - datetime.now(UTC)).total_seconds()))
            runs = await self._finished(connections, tag, done.accepted)
        return Spread.of([(run.start_time - run.scheduled_time).total_seconds() for run in runs if run.start_time])

    async def _posts(self, seconds: float) -> _Posts:
        tag = _tag()
        async with self._connect(_SINGLE_CONNECTIONS) as connections:
            request = connections.request("POST", "/v1/jobs", msgspec.json.encode(_job(tag)))
            ends = time.perf_counter() + seconds

            def requests() -> Iterator[bytes]:
                while time.perf_counter() < ends:
                    yield request

            done = await Submitter(connections, at_once=_SINGLE_CONNECTIONS).send(requests())
            await self._finished(connections, tag, done.accepted)
        return _Posts(done.per_second, Spread.of(done.latencies), done.refused)

    async def _finished(self, connections: Connections, tag: str, count: int) -> list[_Run]:
        """All runs with this tag, once all have finished."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            asked = time.monotonic()
            page = await self._page(connections, tag=tag, status=_UNFINISHED, limit=1)
            if not page.items:
                return await self._all(connections, tag, count)
            # Polling costs the server time: keep it from distorting the result.
            await asyncio.sleep(max(0.2, 10 * (time.monotonic() - asked)))
        raise NotFinishedError(
            f"the server did not run everything within {self._patience:g} s; are there workers in the pool 'default'?"
        )

    async def _all(self, connections: Connections, tag: str, count: int) -> list[_Run]:
        query = {"tag": tag, "limit": _PAGE, "status": "success,failed"}
        page = await self._page(connections, **query)
        runs = page.items
        while page.next_cursor:
            page = await self._page(connections, **query, cursor=page.next_cursor)
            runs += page.items
        failed = sum(run.status != "success" for run in runs)
        if failed or len(runs) != count:
            raise NotFinishedError(f"{count} jobs were accepted, {len(runs)} are recorded, {failed} of them failed")
        return runs

    async def _page(self, connections: Connections, **query: Any) -> _Page:
        return msgspec.convert(await connections.get(f"/v1/runs?{urlencode(query)}"), _Page)

    def _connect(self, count: int) -> Connections:
        return Connections(self._url, self._token, count)


def _tag() -> str:
    return f"bench-{secrets.token_hex(4)}"


def _job(tag: str) -> dict[str, Any]:
    return {"name": "rota bench", "scheduleType": "immediate", "task": TASK, "tags": [tag]}


def _batches(jobs: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    for first in range(0, len(jobs), BATCH):
        yield jobs[first : first + BATCH]
