"""Jobs: what is submitted, changed and shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from rota.contract.fields import (
    NOT_GIVEN,
    CalendarNames,
    ChosenId,
    Dependencies,
    Dst,
    FormerName,
    Headers,
    In,
    Jitter,
    JobId,
    JobStatusName,
    Key,
    Limit,
    MisfirePolicy,
    Moment,
    Name,
    OnDuplicate,
    OnFailure,
    Out,
    Payload,
    PoolName,
    Positive,
    PriorityName,
    Retries,
    Seconds,
    Tags,
    TaskName,
    fill_created,
)
from rota.contract.problems import Problem
from rota.domain.business_days import OnExcludedDay
from rota.domain.cron import ClockChange
from rota.domain.job import ScheduleType
from rota.domain.policies import Overlap

MOST_FIRE_TIMES = 100


class Retry(In, kw_only=True):
    """How long to wait between attempts."""

    strategy: Literal["exponential", "linear", "fibonacci", "fixed"] = "exponential"
    """how the pauses grow"""
    base_seconds: Positive = 5.0
    """the first pause"""
    max_seconds: Positive = 3600.0
    """the longest pause"""
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """the part of a pause that is left to chance, from 0 to 1"""


class RateLimit(In, kw_only=True):
    """At most `limit` starts in `perSeconds` with the same key; by default per job (or per task, for jobs that run
    once). `burst`, by default `limit`, may start at once after a pause."""

    limit: Annotated[int, Meta(ge=1, le=1_000_000)]
    """how many may start per period"""
    per_seconds: Annotated[float, Meta(ge=0.001, le=366 * 86400.0)] = 1.0
    """the period"""
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """how many may start at once after a pause; `limit` if not given"""
    key: Key | None = None
    """jobs with the same key share the limit"""

    if TYPE_CHECKING:  # in the SDK, the key can be a function of the task's arguments

        def __init__(
            self,
            *,
            limit: int,
            per_seconds: float = 1.0,
            burst: int | None = None,
            key: str | Callable[..., str] | None = None,
        ) -> None: ...


class Breaker(In, kw_only=True):
    """After this many failed attempts in a row with the same key, nothing starts for a while; then one run tries. By
    default per job (or per task, for jobs that run once)."""

    failures: Annotated[int, Meta(ge=1, le=10_000)] = 5
    """how many in a row open it"""
    cooldown_seconds: Annotated[float, Meta(ge=0.1, le=366 * 86400.0)] = 60.0
    """how long nothing starts then"""
    key: Key | None = None
    """jobs with the same key share the breaker"""

    if TYPE_CHECKING:  # in the SDK, the key can be a function of the task's arguments

        def __init__(
            self, *, failures: int = 5, cooldown_seconds: float = 60.0, key: str | Callable[..., str] | None = None
        ) -> None: ...


class Misfire(In, kw_only=True):
    """Which times that were missed while everything was down still run: none, the latest, or all within the window, at
    most `cap`."""

    policy: MisfirePolicy = "latest"
    """`skip`: none, `latest`: the last one, `all`: each of them"""
    window_seconds: Annotated[float, Meta(ge=0, le=366 * 86400.0)] = 3600.0
    """how long ago a missed time may be"""
    cap: Annotated[int, Meta(ge=1, le=1000)] = 100
    """how many may run at most"""


class JobIn(In, kw_only=True, omit_defaults=True):
    """A job to submit. What is not given comes from the options of its task, if a worker has announced them; `null`
    means none, whatever the task says."""

    name: Name
    """a name for people; several jobs may have the same. The task's name if not given"""
    schedule_type: ScheduleType
    """`immediate`: now; `future`: at `scheduleTime` or after `delaySeconds`; `cron`; `interval`. Follows from what is
    given if it is missing"""
    schedule_time: Moment | None = None
    """when a `future` job runs; up to a minute ago counts as now. Beside a cron expression, its `startTime`"""
    delay_seconds: Positive | None = None
    """after how long a `future` job runs, by the server's clock"""
    cron_expression: str | None = None
    """five fields, or six with seconds first: [schedules](schedules.md)"""
    every_seconds: float | None = None
    """the interval, one second or more"""
    timezone: str | None = None
    """the IANA zone of the cron expression; UTC if not given"""
    task: TaskName | None = None
    """a registered task, or `script`, `shell`, `http` ([runners](runners.md)); `script` if the payload names one"""
    payload: Payload | UnsetType = UNSET
    """the task's parameters"""
    max_retries: Retries | UnsetType = UNSET
    """how many times a failed run is retried; 3 if not given"""
    retry: Retry | UnsetType | None = UNSET
    """the pauses between attempts"""
    timeout_seconds: Seconds | UnsetType | None = UNSET
    """an attempt that takes longer is stopped and fails"""
    expires_seconds: Seconds | UnsetType | None = UNSET
    """skipped if it has not started this long after it was due"""
    priority: PriorityName | UnsetType = UNSET
    """a level is worth five minutes of waiting; `normal` if not given"""
    pool: PoolName | UnsetType = UNSET
    """which workers may take it; `default` if not given"""
    tags: Tags | UnsetType = UNSET
    """to find it by"""
    start_time: Moment | None = None
    """a schedule does not fire before it"""
    end_time: Moment | None = None
    """a schedule does not fire after it"""
    jitter_seconds: Jitter | None = None
    """starts each run up to this much later, by a fixed amount per run"""
    dst: Dst | None = None
    """the rule at a clock change; `shift` if not given"""
    misfire: MisfirePolicy | Misfire | None = None
    """which missed times still run; `latest` within an hour if not given"""
    exclude_calendars: CalendarNames | None = None
    """[calendars](schedules.md#business-days) whose days a schedule leaves out"""
    exclude_weekends: bool | None = None
    """whether a schedule leaves out Saturdays and Sundays"""
    on_excluded_day: OnExcludedDay | None = None
    """`skip`: a time on such a day does not fire; `next`: it moves to the next business day. `skip` if not given"""
    overlap: Overlap | None = None
    """what to do if the previous run has not ended; `allow` if not given"""
    ordering_key: Key | UnsetType | None = UNSET
    """runs with the same key run one after the other: [policies](policies.md)"""
    ordering_on_failure: OnFailure | UnsetType | None = UNSET
    """whether a run that waits for a retry keeps its key; `hold` if not given"""
    concurrency_key: Key | UnsetType | None = UNSET
    """what `concurrencyLimit` counts; by default the job, or the task for jobs that run once"""
    concurrency_limit: Limit | UnsetType | None = UNSET
    """how many may run at a time"""
    rate_limit: RateLimit | UnsetType | None = UNSET
    """how many may start per period"""
    breaker: Breaker | UnsetType | None = UNSET
    """pauses starts after failures in a row"""
    unique_key: Key | UnsetType | None = UNSET
    """only one waiting job may have it"""
    unique_seconds: Seconds | UnsetType | None = UNSET
    """how long after submission the key stays taken in any case"""
    on_duplicate: OnDuplicate | UnsetType | None = UNSET
    """what to do with a second job with the key; `reject` if not given"""
    dependencies: Dependencies | None = None
    """jobs that must succeed first, by id, or schedules by name:
    [dependencies](policies.md#after-other-jobs-dependencies)"""
    dependency_window_seconds: Seconds | None = None
    """how long before its own time a run of these counts, the latest in that time; only the same time if not given"""
    headers: Headers | UnsetType | None = UNSET
    """for [middleware](tasks.md#middleware)"""
    job_id: ChosenId | None = None
    """of your choice, if no other job of the namespace has it; else generated: [ids](api.md#ids)"""


class BatchJobIn(JobIn, kw_only=True):
    """A job in a batch, with its own idempotency key."""

    idempotency_key: Key | None = None
    """a repeat with the same key and job gets the first answer, for 24 hours"""


class JobSetIn(In, kw_only=True):
    """Many jobs that differ in their payloads alone."""

    job: JobIn
    """what they have alike: a job that runs once, without payload and uniqueKey"""
    payloads: list[Payload]
    """one for each job"""
    positions: list[Annotated[int, Meta(ge=0, le=9_999)]] | None = None
    """where these stood in a set that was sent before with the same key: only these are repeated"""


class JobPatch(In, kw_only=True):
    """Fields of a job to change; missing fields stay unchanged."""

    name: Name | UnsetType = UNSET
    job_id: str | UnsetType = UNSET
    """the id in the path, if it is repeated here: a job keeps its id"""
    schedule_type: ScheduleType | UnsetType = UNSET
    """the type that the job has with these changes, if it is repeated here: the other fields decide it"""
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
    tags: Tags | UnsetType = UNSET
    start_time: Moment | UnsetType | None = UNSET
    end_time: Moment | UnsetType | None = UNSET
    jitter_seconds: Jitter | UnsetType | None = UNSET
    dst: Dst | UnsetType | None = UNSET
    misfire: MisfirePolicy | Misfire | UnsetType | None = UNSET
    exclude_calendars: CalendarNames | UnsetType | None = UNSET
    exclude_weekends: bool | UnsetType | None = UNSET
    on_excluded_day: OnExcludedDay | UnsetType | None = UNSET
    overlap: Overlap | UnsetType | None = UNSET
    ordering_key: Key | UnsetType | None = UNSET
    ordering_on_failure: OnFailure | UnsetType | None = UNSET
    concurrency_key: Key | UnsetType | None = UNSET
    concurrency_limit: Limit | UnsetType | None = UNSET
    rate_limit: RateLimit | UnsetType | None = UNSET
    breaker: Breaker | UnsetType | None = UNSET
    dependencies: Dependencies | UnsetType | None = UNSET
    dependency_window_seconds: Seconds | UnsetType | None = UNSET
    headers: Headers | UnsetType | None = UNSET


class Submitted(Out, kw_only=True):
    """The answer to a submission. `duplicate`: nothing was created, because another job has the same uniqueKey."""

    job_id: str
    status: str
    run_id: str | None = None
    """the run of a job that runs once"""
    duplicate: bool | None = None


class BatchResult(Out, kw_only=True):
    """The result of one item of a batch. `replayed`: the item repeats an earlier one with the same idempotency key, and
    this is the earlier answer."""

    job_id: str | None = None
    status: str | None = None
    run_id: str | None = None
    """the run of a job that runs once"""
    duplicate: bool | None = None
    replayed: bool | None = None
    error: Problem | None = None
    """why it was refused"""


class BatchOut(Out, kw_only=True):
    """Results in the order of the items."""

    results: list[BatchResult]
    """one for each item, in their order"""


class AcceptedJobs(Out, kw_only=True):
    """Jobs of a set that were accepted: `count` of them, from `position` on. Their ids follow each other: each is the
    one before plus one, as a hexadecimal number. `replayed`: the set repeats an earlier one, and this is the earlier
    answer."""

    position: int
    count: int
    job_id: str
    """the id of the first job; each is the one before plus one"""
    run_id: str
    """the id of the first run; each is the one before plus one"""
    status: str
    """the status of all of them"""
    replayed: bool | None = None


class RefusedJobs(Out, kw_only=True):
    """Jobs of a set that were refused: `count` of them, from `position` on, for one reason."""

    position: int
    count: int
    error: Problem
    """why they were refused"""


class JobSetOut(Out, kw_only=True):
    """What became of the jobs of a set."""

    accepted: list[AcceptedJobs]
    """jobs that were accepted, in their order"""
    refused: list[RefusedJobs]
    """jobs that were refused, in their order"""


class BreakerState(Out, kw_only=True):
    """The state of a job's circuit breaker."""

    state: Literal["closed", "open", "half-open"]
    """`closed`: runs start; `open`: none does; `half-open`: one run tries"""
    failures: int
    """how many there were in a row"""
    open_until: datetime | None
    """when one run will try"""


class JobOut(Out, kw_only=True):
    """A job: what to run, when, and its status."""

    job_id: str
    """the job's id"""
    name: str
    owner: str
    """who submitted it"""
    status: JobStatusName
    """a recurring job's own, or that of a one-shot's latest run"""
    schedule_type: ScheduleType
    schedule_time: datetime | None = None
    """when a one-shot is due"""
    cron_expression: str | None = None
    every_seconds: float | None = None
    timezone: str | None = None
    task: str
    payload: Any = None
    max_retries: int
    retry: Retry
    timeout_seconds: float | None
    expires_seconds: float | None
    priority: PriorityName
    pool: str
    tags: list[str]
    version: int
    """grows with every change; give it as `If-Match` to change just this version"""
    created_at: datetime = NOT_GIVEN
    """when it was created"""
    created_time: FormerName = NOT_GIVEN
    """the same as `createdAt`, by its former name; the next release leaves it out"""
    updated_time: datetime | None = None
    """when it was last changed"""
    next_fire_times: list[datetime] | None = None
    """the next times of a schedule, at most five"""
    overdue: bool = False
    """whether a schedule has not fired a minute after its time"""
    description: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    jitter_seconds: float | None = None
    dst: Dst | None = None
    misfire: Misfire | None = None
    exclude_calendars: list[str] | None = None
    exclude_weekends: bool | None = None
    on_excluded_day: OnExcludedDay | None = None
    overlap: Overlap | None = None
    ordering_key: str | None = None
    ordering_on_failure: OnFailure | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    rate_limit: RateLimit | None = None
    breaker: Breaker | None = None
    breaker_state: BreakerState | None = None
    """the state of its circuit breaker"""
    dependencies: list[str] | None = None
    """the ids of jobs that must succeed first"""
    dependency_window_seconds: float | None = None
    headers: dict[str, str] | None = None
    declared_by: str | None = None
    """the application that declares it, and its version"""
    note: str | None = None
    """what its owner should know"""
    run_id: str | None = None
    """a one-shot's latest run"""
    storage_error: str | None = None

    def __post_init__(self) -> None:
        fill_created(self)


class JobStatusOut(Out, kw_only=True):
    """The latest run of a job, in short. While it waits for its retry, `error` is that of its last attempt."""

    job_id: str
    """the job's id"""
    run_id: str | None
    """its latest run; null: none yet"""
    status: JobStatusName
    start_time: datetime | None
    """when the latest attempt started"""
    end_time: datetime | None
    """when it ended"""
    progress: str | None
    executor_id: str | None
    attempt: int | None
    error: str | None
    """the error of the latest attempt"""


class JobList(Out, kw_only=True):
    """A page of jobs."""

    items: list[JobOut]
    """jobs, latest first"""
    next_cursor: str | None


class JobCancelled(Out, kw_only=True):
    """The result of a request to cancel: `cancelled`, or the status of a job that runs once and that its worker was
    asked to stop. `stopping`: how many of its runs workers were asked to stop; these may still end in another way."""

    job_id: str
    """the job's id"""
    status: str
    """`cancelled`, or the status of a job that its worker was asked to stop"""
    stopping: int = 0
    """how many runs workers were asked to stop"""


class RunStarted(Out, kw_only=True):
    """A run that was started on request."""

    job_id: str
    run_id: str
    status: str


class ScheduleOut(Out, kw_only=True):
    """A recurring job in short, with its next fire time and its latest run."""

    job_id: str
    """the job's id"""
    name: str
    owner: str
    status: Literal["scheduled", "paused", "cancelled", "completed"]
    task: str
    cron_expression: str | None = None
    every_seconds: float | None = None
    timezone: str | None = None
    next_fire_time: datetime | None
    """when it fires next; null: it is paused or over"""
    last_run_id: str | None
    """its latest run; null: none yet"""
    last_status: str | None
    """the status of that run"""
    last_start_time: datetime | None
    """when that run's latest attempt started"""
    last_end_time: datetime | None
    """when that run ended"""
    exclude_calendars: list[str] | None = None
    exclude_weekends: bool | None = None
    on_excluded_day: OnExcludedDay | None = None
    declared_by: str | None = None
    note: str | None = None


class ScheduleList(Out, kw_only=True):
    """A page of schedules."""

    items: list[ScheduleOut]
    """schedules, latest made first"""
    next_cursor: str | None


class SchedulePreviewIn(In, kw_only=True):
    """A schedule to preview: a cron expression or an interval. `jobId` decides the value of `H`."""

    cron_expression: str | None = None
    """the expression; or give `everySeconds`"""
    every_seconds: float | None = None
    """the interval; or give `cronExpression`"""
    timezone: str = "UTC"
    """the IANA zone of the expression"""
    dst: ClockChange = "shift"
    """the rule at a clock change"""
    start_time: Moment | None = None
    """no time before it"""
    end_time: Moment | None = None
    """no time after it"""
    exclude_calendars: CalendarNames | None = None
    """calendars whose days are left out"""
    exclude_weekends: bool | None = None
    """whether Saturdays and Sundays are left out"""
    on_excluded_day: OnExcludedDay | None = None
    """what becomes of times on such a day; `skip` if not given"""
    job_id: JobId | None = None
    """decides the value of `H`"""
    after: Moment | None = None
    """times after this one; now if not given"""
    count: Annotated[int, Meta(ge=1, le=MOST_FIRE_TIMES)] = 10
    """how many times"""


class SchedulePreview(Out, kw_only=True):
    """When the schedule fires next, and what it means in words."""

    fire_times: list[datetime]
    description: str
