"""Figures: the six that operators ask for, their history, of tasks and jobs, and what a pool needs."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from rota.contract.fields import Out

HistoryRange = Literal["10m", "1h", "24h", "7d", "30d"]


class Quantiles(Out, kw_only=True):
    """Seconds within which so many of 100 attempts are; null without samples. In figures over time they are rounded up
    to a power of two of milliseconds."""

    p50: float | None
    """half of them are within it"""
    p95: float | None
    """95 of 100 are within it"""
    p99: float | None
    """99 of 100 are within it"""
    samples: int
    """how many there were"""


class Figures(Out, kw_only=True):
    """The six figures. Null: nothing ended, or nothing is known."""

    success_rate: float | None
    """the share of runs that succeeded, of those that ended"""
    start_lag: Quantiles
    """how many seconds after their time attempts started"""
    queue_depth: float | None
    """runs that could start and wait for a worker"""
    worker_utilisation: float | None
    """the share of the workers' slots that are busy"""
    retry_rate: float | None
    """the share of ended attempts that are retried"""
    dead_letters: float | None
    """failed runs that wait for a decision; of a namespace, not of a pool or task"""


class HistoryPoint(Figures, kw_only=True):
    """The figures from a moment on; counts of what there was are means of the looks in that time."""

    time: datetime
    """when it began"""
    started: int
    succeeded: int
    failed: int
    retried: int
    run_seconds: Quantiles
    """how long attempts took"""
    mean_run_seconds: float | None
    """how long they took on average"""
    most_queued: int | None
    """the deepest queue that was seen"""
    running: float | None
    slots: float | None
    blocked: dict[str, float]
    """runs that wait at a gate, by what they wait for: `order`, `limit`, `rate`, `breaker`, `overlap`, `dependency`,
    `pause`, …"""


class FigureHistory(Out, kw_only=True):
    """Figures over time, oldest first. Where a time is missing, nothing was recorded; in a point without runs nothing
    went on."""

    time: datetime
    """when it was read"""
    range: HistoryRange
    """how far it goes back"""
    step_seconds: int
    """from one point to the next"""
    pool: str | None
    """the pool it is of; null: of all"""
    task: str | None
    """the task it is of; null: of all"""
    points: list[HistoryPoint]
    """the figures, oldest first"""


class RecentRun(Out, kw_only=True):
    """A run that has ended."""

    run_id: str
    status: str
    start_time: datetime | None
    """when its last attempt started; null: it never did"""
    seconds: float | None
    """how long that took"""
    attempts: int
    """how often it was tried"""


class RunFigures(Out, kw_only=True):
    """Numbers of the latest 100 runs that have ended, and these runs, latest first."""

    success_rate: float | None
    """the share of them that succeeded, of those that succeeded or failed"""
    retry_rate: float | None
    """the share of their attempts that were retried"""
    run_seconds: Quantiles
    """how long their last attempts took, exactly"""
    mean_run_seconds: float | None
    """how long they took on average"""
    statuses: dict[str, int]
    """how many ended in which status"""
    runs: list[RecentRun]
    """the runs, latest first"""


class PoolScale(Out, kw_only=True):
    """How many workers a pool needs, and why. All are numbers, 0 for a pool of which nothing is known."""

    wanted_workers: int
    """workers that are needed to start runs within the target lag"""
    wanted_slots: float
    """slots that are needed now; `wantedWorkers` does not fall at once"""
    queued: int
    running: int
    slots: int
    """slots of its workers; those that drain are left out"""
    workers: int
    """its workers; those that drain are left out"""
    oldest_queued_seconds: float
    mean_run_seconds: float | None
    """how long attempts of the last five minutes took on average; null: none ended"""
