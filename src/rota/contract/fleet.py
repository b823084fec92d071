"""The fleet: workers, shards, pools, events and statistics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from rota.contract.fields import In, Out


class WorkerOut(Out, kw_only=True):
    """A worker of the fleet."""

    worker_id: str
    host: str
    pid: int
    namespaces: list[str]
    pools: list[str]
    tasks: list[str]
    slots: int
    busy: int
    fenced_reports: int
    status: str
    detail: str | None = None
    start_time: datetime
    last_beat: datetime
    gone_time: datetime | None
    gone_reason: str | None
    app: str | None = None
    app_version: str | None = None


class WorkerList(Out, kw_only=True):
    """The fleet."""

    items: list[WorkerOut]


class ShardOut(Out, kw_only=True):
    """A shard and the scheduler that owns it."""

    shard: int
    epoch: int
    scheduler_id: str | None
    host: str | None
    pid: int | None
    last_beat: datetime | None


class ShardList(Out, kw_only=True):
    """All shards."""

    items: list[ShardOut]


class PoolIn(In, kw_only=True):
    """What to change about a pool."""

    most_waiting: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None


class PoolOut(Out, kw_only=True):
    """A pool: whether it is paused, its workers, and its backlog limit (null: none)."""

    pool: str
    status: Literal["open", "paused"]
    paused_time: datetime | None
    workers: int
    slots: int
    most_waiting: int | None


class PoolList(Out, kw_only=True):
    """Pools that live workers serve, or that have settings."""

    items: list[PoolOut]


class EventOut(Out, kw_only=True):
    """An event of a breaker or a pool."""

    event_id: int
    time: datetime
    event: str
    subject: str
    detail: str | None


class EventList(Out, kw_only=True):
    """Events, latest first."""

    items: list[EventOut]
    next_cursor: str | None


class Health(Out, kw_only=True):
    """The server's health."""

    status: str
    detail: Any = None


class Counts(Out, kw_only=True):
    """How many there are now; counts named in `atLeast` may be higher."""

    scheduled: int
    retrying: int
    blocked: int
    queued: int
    running: int
    dead_letters: int


class Rates(Out, kw_only=True):
    """Attempts per second over the window: started, succeeded, failed for good, and to be retried."""

    started: float
    succeeded: float
    failed: float
    retried: float


class StartLag(Out, kw_only=True):
    """How many seconds after their time attempts of the window started, rounded up to a power of two of milliseconds;
    null without samples."""

    p50: float | None
    p90: float | None
    p99: float | None
    samples: int


class PoolStats(Out, kw_only=True):
    """One pool. `oldestQueuedSeconds`: how long the oldest run that could start has waited."""

    pool: str
    paused: bool
    workers: int
    slots: int
    queued: int
    running: int
    oldest_queued_seconds: float | None
    per_second: Rates
    start_lag: StartLag


class Moment(Out, kw_only=True):
    """Activity in the five seconds from this time on."""

    time: datetime
    started: int
    succeeded: int
    failed: int
    retried: int


class Stats(Out, kw_only=True):
    """Statistics of a namespace. `atLeast` names the counts that stopped at `countedUpTo`; if it names `queued`, the
    counts of pools stopped too, and some pools may be missing."""

    time: datetime
    window_seconds: float
    counted_up_to: int
    counts: Counts
    at_least: list[str]
    workers: dict[str, int]
    oldest_queued_seconds: float | None
    per_second: Rates
    retry_rate: float | None
    start_lag: StartLag
    pools: list[PoolStats]
    history: list[Moment]
