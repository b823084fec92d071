"""Figures and their history: what was there in samples, what went on per minute and per hour, what a pool needs.

Who writes. Workers tell what they did (tallies, decision 0017); a scheduler takes samples of what is there. From both,
the figures of a minute are written when it is over, and those of an hour from its minutes. Each is written by one
statement, whole or not at all: a scheduler that dies leaves nothing half done, and two at once write the same once. A
scheduler that was away makes up the minutes that tallies still have.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota.domain.figures import Totals, steps_of
from rota.domain.scaling import PoolLoad
from rota.store.postgres.database import Database

MOST_COUNTED = 100_000  # runs of one kind in a namespace
MINUTES_KEPT = timedelta(days=2)
HOURS_KEPT = timedelta(days=35)
GRACE = timedelta(seconds=10)  # a beat that was sent in time may take so long
_TALLIES_KEPT = timedelta(minutes=14)  # the sweeper leaves a little more
_HOURS_MADE_UP = timedelta(hours=47)
_MOST_TASKS = 100  # of a namespace, in a minute or hour
_FORGOTTEN_AT_A_TIME = 20_000
_RUNS_SINCE = timedelta(minutes=5)
_STARTS_SINCE = timedelta(minutes=1)


class Sample(msgspec.Struct, frozen=True):
    """One look: when it was, and in how many namespaces and pools there were runs."""

    moment: datetime
    active: int


class Point(msgspec.Struct, frozen=True):
    """What went on from a moment on."""

    at: datetime
    totals: Totals


class FigureWriter:
    """What schedulers write."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sample(self) -> Sample:
        """Looks at what is there now, and keeps it."""
        row: Any = await self._database.fetch_row("take_sample", most=MOST_COUNTED)
        return Sample(row["moment"], row["active"])

    async def roll_up(self) -> int:
        """Writes the minutes that are over, then the hours; returns how many."""
        minutes = await self._database.fetch("roll_up_minutes", kept=_TALLIES_KEPT, grace=GRACE, most_tasks=_MOST_TASKS)
        hours = await self._database.fetch("roll_up_hours", kept=_HOURS_MADE_UP, grace=GRACE, most_tasks=_MOST_TASKS)
        return len(minutes) + len(hours)

    async def forget(self) -> int:
        """Removes what is too old; returns how many figures went."""
        gone: int = await self._database.fetch_value(
            "forget_figures", minutes_kept=MINUTES_KEPT, hours_kept=HOURS_KEPT, limit=_FORGOTTEN_AT_A_TIME
        )
        return gone


class FigureReader:
    """What people and autoscalers look at."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def portions(self, namespace: str, pool: str | None, since: datetime) -> list[Point]:
        """Of a namespace or pool, in portions of five seconds; some minutes back."""
        rows = await self._database.fetch("recent_portions", namespace=namespace, pool=pool, since=since)
        return [_point(row) for row in rows]

    async def figures(self, namespace: str, kind: str, name: str, step: timedelta, since: datetime) -> list[Point]:
        """Of a namespace, pool or task, per minute or hour. What was not written is left out."""
        rows = await self._database.fetch(
            "figures_since",
            namespace=namespace,
            kind=kind,
            name=name,
            step=round(step.total_seconds()),
            since=since,
        )
        return [_point(row) for row in rows]

    async def pool_load(self, namespace: str, pool: str, seen_since: timedelta) -> PoolLoad:
        """What waits and runs in a pool, and what samples saw there in that time."""
        row: Any = await self._database.fetch_row(
            "measure_pool",
            namespace=namespace,
            pool=pool,
            most=MOST_COUNTED,
            runs_since=_RUNS_SINCE,
            starts_since=_STARTS_SINCE,
            seen_since=seen_since,
        )
        return PoolLoad(
            queued=row["queued"],
            running=row["running"],
            staying=row["staying"],
            oldest_seconds=row["oldest_seconds"] or 0.0,
            workers=row["workers"],
            slots=row["slots"],
            paused=row["paused"],
            run_seconds=row["run_seconds"] / row["ended"] if row["ended"] else None,
            starts_per_second=row["started"] / _STARTS_SINCE.total_seconds(),
            seen=[(queued, running, slots) for queued, running, slots in row["seen"]],
        )


def _point(row: Any) -> Point:
    """A row of figures; what is null in it was nothing."""
    totals = Totals(
        lags=steps_of(_counts(row["lags"])),
        durations=steps_of(_counts(row["durations"])),
        looks=row["looked"],
        blocked=_counts(row["blocked"]),
        run_seconds=row["run_seconds"] or 0.0,
    )
    for name in ("started", "succeeded", "failed", "retried", "queued", "most_queued", "running", "slots", "busy",
                 "dead_letters"):  # fmt: skip
        setattr(totals, name, int(row[name] or 0))
    return Point(row["at"], totals)


def _counts(text: str | None) -> dict[str, int]:
    return msgspec.json.decode(text, type=dict[str, int]) if text else {}
