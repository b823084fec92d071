"""What is going on: what waits, how fast it is done, how late it starts."""

from __future__ import annotations

from datetime import datetime

from rota.contract.fields import Out


class Counts(Out, kw_only=True):
    """How many there are now; those that `atLeast` names may be more."""

    scheduled: int
    retrying: int
    blocked: int
    queued: int
    running: int
    dead_letters: int


class Rates(Out, kw_only=True):
    """Attempts per second over the window: those that started, succeeded, failed for good, and will be tried again."""

    started: float
    succeeded: float
    failed: float
    retried: float


class StartLag(Out, kw_only=True):
    """Within how many seconds of their time attempts of the window started, to the next power of two of milliseconds;
    null where none did. `samples` says how many these were."""

    p50: float | None
    p90: float | None
    p99: float | None
    samples: int


class PoolStats(Out, kw_only=True):
    """One pool. `oldestQueuedSeconds`: for how long the run has waited that has waited longest and could start."""

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
    """What was done in five seconds from this time on."""

    time: datetime
    started: int
    succeeded: int
    failed: int
    retried: int


class Stats(Out, kw_only=True):
    """What is going on in a namespace. `atLeast` names the counts that stopped at `countedUpTo`; with `queued`, those
    of pools as well, and pools that have nothing among the first so many may be missing."""

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
