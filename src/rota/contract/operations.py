"""Backfills, replays and bulk acts: what is asked for and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.contract.fields import In, JobId, Moment, Out, RunStatusName, StoredName
from rota.domain.backfills import Existing, Unknown
from rota.domain.operations import MOST_CONCURRENCY, MOST_RUNS

OperationStatus = Literal["running", "paused", "stopped", "aborting", "completed", "aborted"]
OperationKind = Literal["backfill", "replay", "redrive", "cancel"]
Order = Literal["oldest", "newest"]
Concurrency = Annotated[int, Meta(ge=1, le=MOST_CONCURRENCY)]
RatePerSecond = Annotated[float, Meta(ge=0.001, le=10_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Most = Annotated[int, Meta(ge=1, le=MOST_RUNS)]


class BackfillIn(In, kw_only=True):
    """Asks for runs of a job's or workflow's past times; one of the two is required."""

    job: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """a recurring job, by its id or name"""
    workflow: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """a workflow that has a schedule, by its id or name"""
    from_: Moment
    """times of its calendar from here on"""
    to: Moment | None = None
    """up to here; now if not given"""
    order: Order = "oldest"
    """which times come first"""
    concurrency: Concurrency | None = None
    """how many of its runs may wait and run at a time; a quarter of the slots of the job's pool if not given"""
    rate_per_second: RatePerSecond | None = None
    """how many runs a second it makes at most"""
    existing: Existing = "skip"
    """times that have run: `skip` leaves them out, `failed` runs those again that failed, `rerun` all of them"""
    unknown: Unknown | None = None
    """times whose history was removed: `run` or `skip`; required if there are any"""
    stop_at_failure_share: Share | None = None
    """stops when more than this share of its runs failed: 0.1 for a tenth"""
    preview: bool = False
    """only says what would be done"""


class ReplayIn(In, kw_only=True):
    """Asks for finished runs to be run again: those that match all fields given and ended before. Those of the last 24
    hours, unless a time is given."""

    owner: StoredName | None = None
    """only of this owner"""
    status: RunStatusName | None = None
    """only that ended so: success, failed, cancelled or skipped"""
    name: StoredName | None = None
    """only with this name"""
    tag: StoredName | None = None
    """only with this tag"""
    task: StoredName | None = None
    """only of this task"""
    start_time: Moment | None = None
    """planned at or after this time"""
    end_time: Moment | None = None
    """planned before this time"""
    most: Most = 10_000
    """how many at most, latest first"""
    concurrency: Concurrency | None = None
    """how many of its runs may wait and run at a time; a quarter of all slots if not given"""
    rate_per_second: RatePerSecond | None = None
    """how many runs a second it makes at most"""
    stop_at_failure_share: Share | None = None
    """stops when more than this share of its runs failed"""
    preview: bool = False
    """only says what would be done"""


class OperationIn(In, kw_only=True):
    """Asks for many dead letters to be redriven, or many runs to be cancelled: those that match all fields given and
    were there before."""

    kind: Literal["redrive", "cancel"]
    """what to do"""
    owner: StoredName | None = None
    """only of this owner"""
    status: RunStatusName | None = None
    """cancel: only in this status"""
    name: StoredName | None = None
    """only with this name"""
    tag: StoredName | None = None
    """cancel: only with this tag"""
    task: StoredName | None = None
    """only of this task"""
    job_id: JobId | None = None
    """redrive: only of this job"""
    error: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    """redrive: text that the error contains"""
    start_time: Moment | None = None
    """planned at or after this time"""
    end_time: Moment | None = None
    """planned before this time"""
    all: bool = False
    """all of them; required if no other field is given"""
    most: Most | None = None
    """how many at most, latest first"""
    concurrency: Concurrency | None = None
    """redrive: how many of its runs may wait and run at a time; a quarter of all slots if not given"""
    rate_per_second: RatePerSecond | None = None
    """how many a second at most"""
    stop_at_failure_share: Share | None = None
    """redrive: stops when more than this share of its runs failed again"""
    preview: bool = False
    """only says what would be done"""


class OperationCounts(Out, kw_only=True):
    """How far it is."""

    total: int | None = None
    """times or runs that it is about, if known"""
    made: int
    """runs that it made, or cancelled"""
    left_out: int
    """times or runs that it left out"""
    running: int
    """runs of it that have not ended"""
    success: int
    """runs that succeeded"""
    failed: int
    """runs that failed or expired"""
    cancelled: int
    """runs that were cancelled"""


class OperationFailure(Out, kw_only=True):
    """A run of it that did not succeed."""

    run_id: str
    nominal_time: datetime
    status: RunStatusName


class OperationOut(Out, kw_only=True):
    """A backfill, replay, redrive or cancel."""

    operation_id: str
    """the operation's id, `op_…`"""
    kind: OperationKind
    """what it does"""
    status: OperationStatus
    reason: str | None = None
    """why it was stopped or aborted"""
    owner: str
    """who asked for it"""
    job_id: str | None = None
    """backfill: the job"""
    workflow_id: str | None = None
    """backfill: the workflow"""
    name: str | None = None
    """backfill: the name of the job or workflow"""
    from_: datetime | None = None
    """backfill: its times, from here"""
    to: datetime | None = None
    """backfill: up to here; later times belong to the schedule"""
    position: datetime | None = None
    """backfill: the time that was dealt with last"""
    order: Order | None = None
    """backfill: which times come first"""
    existing: Existing | None = None
    """backfill: what happens to times that have run"""
    unknown: Unknown | None = None
    """backfill: what happens to times whose history was removed"""
    filter: dict[str, Any] | None = None
    """the others: which runs"""
    concurrency: int | None = None
    """how many of its runs may wait and run at a time"""
    rate_per_second: float | None = None
    """how many runs a second it makes at most"""
    stop_at_failure_share: float | None = None
    """it stops when more than this share of its runs failed"""
    counts: OperationCounts
    """how far it is"""
    failures: list[OperationFailure] = msgspec.field(default_factory=list)
    """runs that did not succeed, latest times first, at most 20; only given for a single operation"""
    created_at: datetime
    """when it was created"""
    end_time: datetime | None = None
    """when it ended"""


class OperationList(Out, kw_only=True):
    """A page of operations."""

    items: list[OperationOut]
    """operations, latest first"""
    next_cursor: str | None


class OperationPreview(Out, kw_only=True):
    """What an operation would do."""

    runs: int
    """runs that it would make, or cancel"""
    is_more: bool = False
    """whether there may be more than were counted"""
    times: list[datetime] = msgspec.field(default_factory=list)
    """backfill: the first and last times that it would make, in its order"""
    existing: int | None = None
    """backfill: times that have run"""
    open: int | None = None
    """backfill: times whose runs have not ended; these are left alone"""
    unknown: int | None = None
    """backfill: times whose history was removed"""
    run_ids: list[str] = msgspec.field(default_factory=list)
    """the others: some of the runs"""
    concurrency: int | None = None
    """how many would wait and run at a time"""
    seconds: float | None = None
    """how long it would take, by the rate and by how long recent runs took, if known"""
