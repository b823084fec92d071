"""Punctuality: how late runs start, by the database's clock, as their records say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bench.lab import Lab
from bench.progress import Progress
from rota.ops.bench_load import Spread, Submitter

BATCH = 1000
AT_ONCE = 2
AHEAD_SECONDS = 3.0
PER_SECOND = 500
LATE_SECONDS = 60.0


class Punctuality(msgspec.Struct):
    """Start lags: all due at one instant; evenly spread; of schedules that share a second."""

    instant: Spread
    steady: Spread
    schedules: Spread


async def measure_punctuality(
    progress: Progress, *, at_one_instant: int, steady_seconds: float, schedules: int
) -> Punctuality:
    """All three, one after the other, on two workers."""
    async with Lab(workers=2) as lab:
        progress.say(f"{at_one_instant:,} jobs due at one instant")
        instant = await lags_of_instant(lab, at_one_instant)
        _show(progress, instant)
        progress.say(f"{PER_SECOND} jobs a second for {steady_seconds:g} s")
        steady = await lags_of_stream(lab, steady_seconds)
        _show(progress, steady)
        progress.say(f"{schedules:,} cron schedules on the same second")
        together = await _lags_of_schedules(lab, schedules)
        _show(progress, together)
    return Punctuality(instant, steady, together)


async def lags_of_instant(lab: Lab, count: int) -> Spread:
    """Jobs that are all due at the same moment."""
    return await _lags(lab, "instant", count, lambda start: [start] * count)


async def lags_of_stream(lab: Lab, seconds: float, per_second: int = PER_SECOND, *, name: str = "steady") -> Spread:
    """Jobs due one after the other at an even distance."""
    count = int(seconds * per_second)

    def moments(start: datetime) -> list[datetime]:
        return [start + timedelta(seconds=number / per_second) for number in range(count)]

    return await _lags(lab, name, count, moments)


async def _lags(lab: Lab, name: str, count: int, moments: Callable[[datetime], Sequence[datetime]]) -> Spread:
    # Submitting them takes a while; the first must still lie ahead when the last is in.
    start = datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS + count / 5000)
    due = moments(start)
    jobs = [
        {"name": name, "scheduleType": "future", "scheduleTime": moment.isoformat(), "task": "noop"} for moment in due
    ]
    await _submit(lab, jobs)
    return await _read(lab, name, count, due[-1])


async def _lags_of_schedules(lab: Lab, count: int) -> Spread:
    at = (datetime.now(UTC) + timedelta(seconds=8 + count / 500)).replace(microsecond=0)
    cron = f"{at.second} {at.minute} {at.hour} * * *"
    job = {"name": "schedules", "scheduleType": "cron", "cronExpression": cron, "task": "noop"}
    await _submit(lab, [job] * count)
    return await _read(lab, "schedules", count, at)


async def _submit(lab: Lab, jobs: Sequence[dict[str, Any]]) -> None:
    def batches() -> Iterator[Sequence[dict[str, Any]]]:
        for first in range(0, len(jobs), BATCH):
            yield jobs[first : first + BATCH]

    async with lab.connect(AT_ONCE) as connections:
        await Submitter(connections, at_once=AT_ONCE).submit(batches())


async def _read(lab: Lab, name: str, count: int, last: datetime) -> Spread:
    """The lags of all runs of this name, once they are recorded."""
    deadline = last + timedelta(seconds=LATE_SECONDS)
    while datetime.now(UTC) < deadline:
        await asyncio.sleep(max(0.2, (last - datetime.now(UTC)).total_seconds()))
        rows = await lab.database.fetch(
            "SELECT extract(epoch FROM started_at - nominal_at)::float8 FROM rota.finished_runs WHERE name = $1", name
        )
        if len(rows) >= count:
            return Spread.of([row[0] for row in rows])
    raise TimeoutError(f"{len(rows)} of {count} runs ({name}) were recorded {LATE_SECONDS:g} s after the last was due")


def _show(progress: Progress, lag: Spread) -> None:
    progress.figure(
        f"p50 {lag.p50:.1f} ms, p99 {lag.p99:.1f}, p99.9 {lag.p999:.1f}, last {lag.highest:.1f}, early {lag.negative}"
    )
