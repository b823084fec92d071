"""The fleet: workers, shards, pools, events and statistics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from rota.contract.fields import In, Out
from rota.contract.figures import Figures


class WorkerOut(Out, kw_only=True):
    """A worker of the fleet."""

    worker_id: str
    """the worker's id"""
    host: str
    pid: int
    namespaces: list[str]
    """the namespaces it works for"""
    pools: list[str]
    """the pools it takes runs from"""
    tasks: list[str]
    """the tasks it knows"""
    slots: int
    busy: int
    fenced_reports: int
    """reports that came too late and were ignored"""
    status: str
    """`live`, `draining`, `ailing`, `silent` or `gone`"""
    detail: str | None = None
    """what ails it"""
    start_time: datetime
    """when it joined"""
    last_beat: datetime
    gone_time: datetime | None
    """when it left or was declared lost"""
    gone_reason: str | None
    """why"""
    app: str | None = None
    app_version: str | None = None


class WorkerList(Out, kw_only=True):
    """The fleet."""

    items: list[WorkerOut]
    """workers"""


class ShardOut(Out, kw_only=True):
    """A shard and the scheduler that owns it."""

    shard: int
    """its number"""
    epoch: int
    scheduler_id: str | None
    """the scheduler that owns it; null: none"""
    host: str | None
    pid: int | None
    last_beat: datetime | None


class ShardList(Out, kw_only=True):
    """All shards."""

    items: list[ShardOut]
    """shards"""


class PoolIn(In, kw_only=True):
    """What to change about a pool."""

    most_waiting: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None
    """the backlog limit: how many runs may wait; null: no limit"""


class PoolOut(Out, kw_only=True):
    """A pool: whether it is paused, its workers, and its backlog limit (null: none)."""

    pool: str
    """its name"""
    status: Literal["open", "paused"]
    """`paused`: workers take no runs of it"""
    paused_time: datetime | None
    """since when"""
    workers: int
    slots: int
    """how many runs its workers can execute at a time"""
    most_waiting: int | None


class PoolList(Out, kw_only=True):
    """Pools that live workers serve, or that have settings."""

    items: list[PoolOut]
    """pools"""


class EventOut(Out, kw_only=True):
    """Something that happened."""

    event_id: int
    """grows from event to event"""
    namespace: str | None = None
    """where it happened; `*`: it concerns the whole installation"""
    time: datetime
    event: str
    """what happened"""
    subject: str
    """to which job, worker, pool, key, …"""
    detail: str | None
    """more about it"""
    data: dict[str, Any] | None = None
    """the same for programs"""


class EventList(Out, kw_only=True):
    """Events, latest first."""

    items: list[EventOut]
    """events, latest first"""
    next_cursor: str | None


class Health(Out, kw_only=True):
    """The server's health."""

    status: str
    """`ok` or `ready`"""
    detail: Any = None
    """what is not"""


class Counts(Out, kw_only=True):
    """How many there are now; counts named in `atLeast` may be higher."""

    scheduled: int
    """runs that wait for their time"""
    retrying: int
    """runs that wait for their next attempt"""
    blocked: int
    """runs that wait at a gate"""
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
    """half of them started within it"""
    p90: float | None
    """nine of ten started within it"""
    p99: float | None
    """99 of 100 started within it"""
    samples: int
    """how many there were"""


class PoolStats(Out, kw_only=True):
    """One pool. `oldestQueuedSeconds`: how long the oldest run that could start has waited."""

    pool: str
    """its name"""
    paused: bool
    """whether it is paused"""
    workers: int
    slots: int
    """how many runs its workers can execute at a time"""
    queued: int
    running: int
    oldest_queued_seconds: float | None
    per_second: Rates
    start_lag: StartLag
    figures: Figures | None = None  # a server of an older release gives none
    """the six figures of this pool, over the window"""


class Moment(Out, kw_only=True):
    """Activity in the five seconds from this time on."""

    time: datetime
    """when the five seconds began"""
    started: int
    succeeded: int
    failed: int
    retried: int


class Stats(Out, kw_only=True):
    """Statistics of a namespace. `atLeast` names the counts that stopped at `countedUpTo`; if it names `queued`, the
    counts of pools stopped too, and some pools may be missing."""

    time: datetime
    """when it was counted"""
    window_seconds: float
    """how far back rates and lags look"""
    counted_up_to: int
    """where counting stops"""
    counts: Counts
    """how many runs there are"""
    at_least: list[str]
    """counts that stopped"""
    workers: dict[str, int]
    """how many workers there are, by status"""
    oldest_queued_seconds: float | None
    per_second: Rates
    retry_rate: float | None
    """the part of all attempts that were retried"""
    start_lag: StartLag
    pools: list[PoolStats]
    history: list[Moment]
    """activity of the last minutes"""
    figures: Figures | None = None
    """the six figures, over the window"""
