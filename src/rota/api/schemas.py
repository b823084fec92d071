"""What the API takes and gives: camelCase, unknown fields refused."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.domain.job import ScheduleType
from rota.domain.policies import Overlap

PriorityName = Literal["critical", "high", "normal", "low"]
RunStatusName = Literal[
    "scheduled", "blocked", "queued", "running", "retrying", "success", "failed", "cancelled", "skipped"
]
JobStatusName = Literal[
    "scheduled",
    "blocked",
    "queued",
    "running",
    "retrying",
    "success",
    "failed",
    "cancelled",
    "skipped",
    "paused",
    "completed",
]

# A plain $ would also match before a last line break.
_PLAIN = r"^[^\x00-\x1f\x7f]*(?!\n)$"
_WORD = r"^[A-Za-z0-9][A-Za-z0-9_.:-]*(?!\n)$"
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=_PLAIN)]
TaskName = Annotated[str, Meta(min_length=1, max_length=200, pattern=_WORD)]
PoolName = Annotated[str, Meta(min_length=1, max_length=100, pattern=_WORD)]
Tag = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f,]+(?!\n)$")]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=_PLAIN)]
Moment = Annotated[datetime, Meta(tz=True)]
Payload = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
Retries = Annotated[int, Meta(ge=0, le=1000)]
Positive = Annotated[float, Meta(ge=0, le=366 * 86400.0)]
Seconds = Annotated[float, Meta(gt=0, le=366 * 86400.0)]
JobId = Annotated[str, Meta(pattern=r"^job_[0-9a-f]{32}(?!\n)$")]
RunId = Annotated[str, Meta(pattern=r"^run_[0-9a-f]{32}(?!\n)$")]


Jitter = Annotated[float, Meta(ge=0, le=86400.0)]
Limit = Annotated[int, Meta(ge=1, le=1_000_000)]
Dst = Literal["shift", "skip", "strict"]
MisfirePolicy = Literal["skip", "latest", "all"]
OnFailure = Literal["hold", "release"]
OnDuplicate = Literal["reject", "replace", "keep"]


class _In(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    pass


class _Out(msgspec.Struct, rename="camel", omit_defaults=True):
    pass


class Retry(_In, kw_only=True):
    """How long to wait between attempts."""

    strategy: Literal["exponential", "linear", "fibonacci", "fixed"] = "exponential"
    base_seconds: Positive = 5.0
    max_seconds: Positive = 3600.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1


class RateLimit(_In, kw_only=True):
    """So many starts in so many seconds, with the same key; without one, of the same job (or task, for jobs that run
    once). `burst` may start at once after a pause; it is `limit` if not given."""

    limit: Annotated[int, Meta(ge=1, le=1_000_000)]
    per_seconds: Annotated[float, Meta(ge=0.001, le=366 * 86400.0)] = 1.0
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    key: Key | None = None


class BreakerIn(_In, kw_only=True):
    """After so many failed attempts in a row nothing starts for a while; then one run tries."""

    failures: Annotated[int, Meta(ge=1, le=10_000)] = 5
    cooldown_seconds: Annotated[float, Meta(ge=0.1, le=366 * 86400.0)] = 60.0


class Misfire(_In, kw_only=True):
    """What becomes of times that were missed while everything was down: none, the latest, or all of those that are not
    older than the window, the latest `cap` of them."""

    policy: MisfirePolicy = "latest"
    window_seconds: Annotated[float, Meta(ge=0, le=366 * 86400.0)] = 3600.0
    cap: Annotated[int, Meta(ge=1, le=1000)] = 100


class JobIn(_In, kw_only=True):
    """A job to submit."""

    name: Name
    schedule_type: ScheduleType
    schedule_time: Moment | None = None
    cron_expression: str | None = None
    every_seconds: float | None = None
    timezone: str | None = None
    task: TaskName | None = None
    payload: Payload | UnsetType = UNSET
    max_retries: Retries = 3
    retry: Retry | None = None
    timeout_seconds: Seconds | None = None
    expires_seconds: Seconds | None = None
    priority: PriorityName = "normal"
    pool: PoolName = "default"
    tags: Annotated[list[Tag], Meta(max_length=50)] = []
    start_time: Moment | None = None
    end_time: Moment | None = None
    jitter_seconds: Jitter | None = None
    dst: Dst | None = None
    misfire: MisfirePolicy | Misfire | None = None
    overlap: Overlap | None = None
    ordering_key: Key | None = None
    ordering_on_failure: OnFailure | None = None
    concurrency_key: Key | None = None
    concurrency_limit: Limit | None = None
    rate_limit: RateLimit | None = None
    breaker: BreakerIn | None = None
    unique_key: Key | None = None
    unique_seconds: Seconds | None = None
    on_duplicate: OnDuplicate | None = None


class BatchJobIn(JobIn, kw_only=True):
    """A job in a batch, with an idempotency key of its own."""

    idempotency_key: Key | None = None


class JobPatch(_In, kw_only=True):
    """Fields of a job to change; what is not there stays as it is."""

    name: Name | UnsetType = UNSET
    schedule_time: Moment | UnsetType = UNSET
    cron_expression: str | UnsetType = UNSET
    every_seconds: float | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    task: TaskName | UnsetType = UNSET
    payload: Payload | UnsetType = UNSET
    max_retries: Retries | UnsetType = UNSET
    retry: Retry | UnsetType = UNSET
    timeout_seconds: Seconds | UnsetType | None = UNSET
    expires_seconds: Seconds | UnsetType | None = UNSET
    priority: PriorityName | UnsetType = UNSET
    pool: PoolName | UnsetType = UNSET
    tags: Annotated[list[Tag], Meta(max_length=50)] | UnsetType = UNSET
    start_time: Moment | UnsetType | None = UNSET
    end_time: Moment | UnsetType | None = UNSET
    jitter_seconds: Jitter | UnsetType | None = UNSET
    dst: Dst | UnsetType | None = UNSET
    misfire: MisfirePolicy | Misfire | UnsetType | None = UNSET
    overlap: Overlap | UnsetType | None = UNSET
    ordering_key: Key | UnsetType | None = UNSET
    ordering_on_failure: OnFailure | UnsetType | None = UNSET
    concurrency_key: Key | UnsetType | None = UNSET
    concurrency_limit: Limit | UnsetType | None = UNSET
    rate_limit: RateLimit | UnsetType | None = UNSET
    breaker: BreakerIn | UnsetType | None = UNSET


class Submitted(_Out, kw_only=True):
    """The answer to a submission. `duplicate`: nothing was made, another job has the same uniqueKey and is kept."""

    job_id: str
    status: str
    run_id: str | UnsetType = UNSET
    duplicate: bool | UnsetType = UNSET


class FieldProblem(_Out, kw_only=True):
    """What is wrong with one field."""

    field: str
    message: str


class Problem(_Out, kw_only=True):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] | UnsetType = UNSET


class BatchResult(_Out, kw_only=True):
    """One item of a batch: what it became, or why it was refused."""

    job_id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    run_id: str | UnsetType = UNSET
    duplicate: bool | UnsetType = UNSET
    error: Problem | UnsetType = UNSET


class BatchOut(_Out, kw_only=True):
    """Results in the order of the items."""

    results: list[BatchResult]


class BreakerState(_Out, kw_only=True):
    """How a job's circuit breaker stands."""

    state: Literal["closed", "open", "half-open"]
    failures: int
    open_until: datetime | None


class JobOut(_Out, kw_only=True):
    """A job: what, when, and how it stands."""

    job_id: str
    name: str
    owner: str
    status: JobStatusName
    schedule_type: ScheduleType
    schedule_time: datetime | UnsetType = UNSET
    cron_expression: str | UnsetType = UNSET
    every_seconds: float | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    task: str
    payload: msgspec.Raw | UnsetType = UNSET
    max_retries: int
    retry: Retry
    timeout_seconds: float | None
    expires_seconds: float | None
    priority: PriorityName
    pool: str
    tags: list[str]
    version: int
    created_time: datetime
    updated_time: datetime | UnsetType = UNSET
    next_fire_times: list[datetime] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    start_time: datetime | UnsetType = UNSET
    end_time: datetime | UnsetType = UNSET
    jitter_seconds: float | UnsetType = UNSET
    dst: Dst | UnsetType = UNSET
    misfire: Misfire | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    ordering_key: str | UnsetType = UNSET
    ordering_on_failure: OnFailure | UnsetType = UNSET
    concurrency_key: str | UnsetType = UNSET
    concurrency_limit: int | UnsetType = UNSET
    rate_limit: RateLimit | UnsetType = UNSET
    breaker: BreakerIn | UnsetType = UNSET
    breaker_state: BreakerState | UnsetType = UNSET
    run_id: str | UnsetType = UNSET
    storage_error: str | UnsetType = UNSET


class JobStatusOut(_Out, kw_only=True):
    """The latest run of a job, in short."""

    job_id: str
    run_id: str | None
    status: JobStatusName
    start_time: datetime | None
    end_time: datetime | None
    progress: str | None
    executor_id: str | None
    attempt: int | None
    error: str | None


class AttemptOut(_Out, kw_only=True):
    """An attempt that did not succeed."""

    attempt: int
    outcome: str
    start_time: datetime | None
    end_time: datetime
    executor_id: str | None
    error: str | None
    traceback: str | UnsetType = UNSET


class TimelineEntry(_Out, kw_only=True):
    """Something that happened to a run."""

    time: datetime
    event: str
    detail: str | UnsetType = UNSET


class RunOut(_Out, kw_only=True):
    """A run. `attempts`, `timeline`, `traceback` and `waitingFor` are given for a single run only."""

    run_id: str
    job_id: str
    name: str
    owner: str
    status: RunStatusName
    task: str
    cause: str
    pool: str
    priority: PriorityName
    tags: list[str]
    payload: msgspec.Raw | UnsetType = UNSET
    nominal_time: datetime
    scheduled_time: datetime
    created_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    attempt: int
    max_retries: int
    timeout_seconds: float | None
    expires_time: datetime | UnsetType = UNSET
    snoozes: int | UnsetType = UNSET
    progress: str | None
    progress_message: str | UnsetType = UNSET
    executor_id: str | None
    cancel_requested: bool
    retry_of: str | UnsetType = UNSET
    idempotency_key: str
    error: str | None
    reason: str | UnsetType = UNSET
    result: msgspec.Raw | UnsetType = UNSET
    checkpoint: msgspec.Raw | UnsetType = UNSET
    storage_error: str | UnsetType = UNSET
    traceback: str | UnsetType = UNSET
    attempts: list[AttemptOut] | UnsetType = UNSET
    timeline: list[TimelineEntry] | UnsetType = UNSET
    waiting_for: str | UnsetType = UNSET


class PoolIn(_In, kw_only=True):
    """What to change about a pool."""

    most_waiting: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None


class PoolOut(_Out, kw_only=True):
    """A pool: whether it is paused, who serves it, how much may wait in it (null: any number)."""

    pool: str
    status: Literal["open", "paused"]
    paused_time: datetime | None
    workers: int
    slots: int
    most_waiting: int | None


class PoolList(_Out, kw_only=True):
    """The pools that live workers serve or that somebody said something about."""

    items: list[PoolOut]


class EventOut(_Out, kw_only=True):
    """Something that happened to a breaker or a pool."""

    event_id: int
    time: datetime
    event: str
    subject: str
    detail: str | None


class EventList(_Out, kw_only=True):
    """Events, latest first."""

    items: list[EventOut]
    next_cursor: str | None


class LogLine(_Out, kw_only=True):
    """A line that a run wrote: to `stdout` or `stderr`, or with a logger (`log`)."""

    run_id: str
    attempt: int
    time: str
    stream: str
    text: str


class LogList(_Out, kw_only=True):
    """Lines that were found."""

    items: list[LogLine]
    next_cursor: str | None


class LogUrl(_Out, kw_only=True):
    """Where a log can be read for a while without a token."""

    url: str
    expires_time: datetime


class JobList(_Out, kw_only=True):
    """A page of jobs."""

    items: list[JobOut]
    next_cursor: str | None


class RunList(_Out, kw_only=True):
    """A page of runs."""

    items: list[RunOut]
    next_cursor: str | None


class RunSelection(_In, kw_only=True):
    """Which runs: all given must match."""

    status: RunStatusName | None = None
    owner: Name | None = None
    name: Name | None = None
    tag: Name | None = None
    task: Name | None = None
    start_time: Moment | None = None
    end_time: Moment | None = None


class CountOut(_Out, kw_only=True):
    """How many were touched."""

    count: int


class RunStarted(_Out, kw_only=True):
    """A run that was made on request."""

    job_id: str
    run_id: str
    status: str


class RunCancelled(_Out, kw_only=True):
    """What became of a request to cancel: `cancelled`, or `running` until its worker has stopped it."""

    run_id: str
    status: str
    cancel_requested: bool


class JobCancelled(_Out, kw_only=True):
    """A job that was cancelled."""

    job_id: str
    status: str


class DeadLetterOut(_Out, kw_only=True):
    """A failed run that waits for somebody to decide."""

    run_id: str
    job_id: str
    name: str
    task: str
    owner: str | None
    attempts: int | None
    error: str | None
    traceback: str | None
    nominal_time: datetime | None
    buried_time: datetime
    payload: msgspec.Raw | UnsetType = UNSET


class DeadLetterList(_Out, kw_only=True):
    """A page of dead letters."""

    items: list[DeadLetterOut]
    next_cursor: str | None


class DeadLetterSelection(_In, kw_only=True):
    """Which dead letters: by ids, or all that match the filter. One of the two must be given."""

    run_ids: Annotated[list[RunId], Meta(min_length=1, max_length=10_000)] | None = None
    task: Name | None = None
    job_id: JobId | None = None
    name: Name | None = None
    all: bool = False


class WorkerOut(_Out, kw_only=True):
    """A worker of the fleet."""

    worker_id: str
    host: str
    pid: int
    pools: list[str]
    tasks: list[str]
    slots: int
    busy: int
    fenced_reports: int
    status: str
    detail: str | UnsetType = UNSET
    start_time: datetime
    last_beat: datetime
    gone_time: datetime | None
    gone_reason: str | None


class WorkerList(_Out, kw_only=True):
    """The fleet."""

    items: list[WorkerOut]


class ShardOut(_Out, kw_only=True):
    """A shard and who looks after it."""

    shard: int
    epoch: int
    scheduler_id: str | None
    host: str | None
    pid: int | None
    last_beat: datetime | None


class ShardList(_Out, kw_only=True):
    """All shards."""

    items: list[ShardOut]


class Health(_Out, kw_only=True):
    """Whether the server is there."""

    status: str
    detail: Any = UNSET
