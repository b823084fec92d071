"""What a client sends: jobs and filters with Python names, turned into the contract's fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Required, TypedDict
from uuid import uuid4

import msgspec

from rota.contract.access import LimitsIn
from rota.contract.destinations import DestinationKind
from rota.contract.fields import (
    Dst,
    JobStatusName,
    MisfirePolicy,
    OnDuplicate,
    OnFailure,
    PriorityName,
    RunStatusName,
    wire_name,
)
from rota.contract.jobs import BatchJobIn, Breaker, JobIn, JobPatch, Misfire, RateLimit, Retry
from rota.contract.operations import Order
from rota.domain.backfills import Existing, Unknown
from rota.domain.business_days import OnExcludedDay
from rota.domain.events import Severity
from rota.domain.policies import Overlap
from rota.errors import BadInputError

MOST_PER_BATCH = 10_000
_BATCH_BYTES = 8 * 1024 * 1024
# Short names for the fields of a schedule.
_TIMES = {"at": "schedule_time", "after": "delay_seconds", "cron": "cron_expression", "every": "every_seconds"}
_encoder = msgspec.json.Encoder()


class JobFields(TypedDict, total=False):
    """The other fields of a job; None means not given."""

    timezone: str | None
    max_retries: int | None
    retry: Retry | None
    timeout_seconds: float | None
    expires_seconds: float | None
    priority: PriorityName | None
    pool: str | None
    tags: Sequence[str] | None
    start_time: datetime | None
    end_time: datetime | None
    jitter_seconds: float | None
    dst: Dst | None
    misfire: MisfirePolicy | Misfire | None
    exclude_calendars: Sequence[str] | None
    exclude_weekends: bool | None
    on_excluded_day: OnExcludedDay | None
    overlap: Overlap | None
    ordering_key: str | None
    ordering_on_failure: OnFailure | None
    concurrency_key: str | None
    concurrency_limit: int | None
    rate_limit: RateLimit | None
    breaker: Breaker | None
    dependencies: Sequence[str] | None
    dependency_window_seconds: float | None
    unique_key: str | None
    unique_seconds: float | None
    on_duplicate: OnDuplicate | None
    headers: Mapping[str, str] | None
    job_id: str | None


class NewJob(JobFields, total=False):
    """A job for `submit_many`, with the parameters of `submit`."""

    name: Required[str]
    task: str | None
    payload: Any
    at: datetime | None
    after: float | timedelta | None
    cron: str | None
    every: float | timedelta | None
    idempotency_key: str | None


class KeyedJob(NamedTuple):
    """A job with its idempotency key, and as it is sent."""

    job: NewJob | BatchJobIn
    content: bytes


class JobChanges(TypedDict, total=False):
    """Fields of a job to change; None removes a field that is optional."""

    name: str
    at: datetime
    cron: str
    every: float | timedelta
    timezone: str
    task: str
    payload: Any
    max_retries: int
    retry: Retry
    timeout_seconds: float | None
    expires_seconds: float | None
    priority: PriorityName
    pool: str
    tags: Sequence[str]
    start_time: datetime | None
    end_time: datetime | None
    jitter_seconds: float | None
    dst: Dst | None
    misfire: MisfirePolicy | Misfire | None
    exclude_calendars: Sequence[str] | None
    exclude_weekends: bool | None
    on_excluded_day: OnExcludedDay | None
    overlap: Overlap | None
    ordering_key: str | None
    ordering_on_failure: OnFailure | None
    concurrency_key: str | None
    concurrency_limit: int | None
    rate_limit: RateLimit | None
    breaker: Breaker | None
    dependencies: Sequence[str] | None
    dependency_window_seconds: float | None
    headers: Mapping[str, str] | None


class _Filters(TypedDict, total=False):
    owner: str | None
    name: str | None
    tag: str | None
    task: str | None
    start_time: datetime | None
    end_time: datetime | None


class JobFilters(_Filters, total=False):
    """Which jobs to list: all filters must match."""

    status: JobStatusName | Sequence[JobStatusName] | None


class ScheduleFilters(TypedDict, total=False):
    """Which schedules to list: all filters must match."""

    owner: str | None
    name: str | None
    tag: str | None
    task: str | None
    status: JobStatusName | Sequence[JobStatusName] | None


class RunFilters(_Filters, total=False):
    """Which runs to list: all filters must match."""

    status: RunStatusName | Sequence[RunStatusName] | None


class RunChoice(_Filters, total=False):
    """Which runs to cancel: all filters must match."""

    status: RunStatusName | None


class EventFilters(TypedDict, total=False):
    """Which events to list: all filters must match."""

    kind: str | None
    subject: str | None
    since: datetime | None
    until: datetime | None


class DestinationFields(TypedDict, total=False):
    """What to give a destination; what is left out stays as it is."""

    kind: DestinationKind | None
    url: str | None
    secret: str | None
    kinds: Sequence[str] | None
    least_severity: Severity | None
    enabled: bool | None


class DeadLetterFilters(TypedDict, total=False):
    """Which dead letters: all filters must match."""

    task: str | None
    job_id: str | None
    name: str | None
    error: str | None


class LogFilters(TypedDict, total=False):
    """Which log lines: all filters must match."""

    owner: str | None
    task: str | None
    job_id: str | None
    pool: str | None
    name: str | None
    tag: str | None
    stream: str | None
    level: str | None


class _Pace(TypedDict, total=False):
    concurrency: int | None
    rate_per_second: float | None
    stop_at_failure_share: float | None


class BackfillFields(_Pace, total=False):
    """The other fields of a backfill; None means not given."""

    order: Order | None
    existing: Existing | None
    unknown: Unknown | None


class ReplayChoice(_Filters, _Pace, total=False):
    """Which runs to run again: all filters must match."""

    status: RunStatusName | None
    most: int | None


class OperationChoice(ReplayChoice, total=False):
    """Which runs or dead letters: all filters must match."""

    job_id: str | None
    error: str | None


class LimitChanges(TypedDict, total=False):
    """Limits to change; None removes a limit."""

    requests_per_second: float | None
    request_burst: int | None
    jobs_per_second: float | None
    job_burst: int | None
    most_waiting: int | None
    largest_payload_bytes: int | None
    largest_batch: int | None
    most_fan_out: int | None


def job_body(job: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a submission; raises BadInputError for unknown fields or two times."""
    given = {name: value for name, value in job.items() if value is not None}
    times = [word for word in _TIMES if word in given]
    if len(times) > 1:
        raise BadInputError(f"give one of at, after, cron and every, not {' and '.join(times)}", field=times[1])
    kinds = {"at": "future", "after": "future", "cron": "cron", "every": "interval"}
    return {"scheduleType": kinds[times[0]] if times else "immediate"} | _renamed(given, BatchJobIn)


def changes_body(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a change; raises BadInputError for unknown fields."""
    return _renamed(changes, JobPatch)


def limits_body(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a limit change; raises BadInputError for unknown limits."""
    return _renamed(changes, LimitsIn)


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with the contract's names, without None."""
    return {wire_name(name): value for name, value in given.items() if value is not None}


def query_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Query parameters with the contract's names and notation."""
    return {name: _query_value(value) for name, value in fields_of(given).items()}


def batches(jobs: Iterable[NewJob | JobIn]) -> Iterator[tuple[list[KeyedJob], list[KeyedJob]]]:
    """As many jobs as fit into a request, each with a key, so that retries are safe; and the one taken ahead."""
    some: list[KeyedJob] = []
    size = 0
    for job in jobs:
        keyed = with_key(job)
        found = KeyedJob(keyed, encode(keyed if isinstance(keyed, BatchJobIn) else job_body(keyed)))
        if some and (len(some) == MOST_PER_BATCH or size + len(found.content) > _BATCH_BYTES):
            yield some, [found]
            some, size = [], 0
        some.append(found)
        size += len(found.content) + 1
    if some:
        yield some, []


def with_key(job: NewJob | JobIn) -> NewJob | BatchJobIn:
    """The job with an idempotency key, its own or a new one."""
    if isinstance(job, BatchJobIn):
        return job if job.idempotency_key else msgspec.structs.replace(job, idempotency_key=new_key())
    if isinstance(job, JobIn):
        return BatchJobIn(**msgspec.structs.asdict(job), idempotency_key=new_key())
    return job if job.get("idempotency_key") else {**job, "idempotency_key": new_key()}


def new_key() -> str:
    """A new idempotency key."""
    return uuid4().hex


def encode(body: Any) -> bytes:
    """JSON; raises BadInputError for values that JSON can't express."""
    try:
        try:
            return _encoder.encode(body)
        except OverflowError:  # an integer of more than 64 bits
            return json.dumps(msgspec.to_builtins(body)).encode()
    except (TypeError, ValueError) as error:
        raise BadInputError(f"can't be written as JSON: {error}") from None


def _renamed(given: Mapping[str, Any], contract: type[msgspec.Struct]) -> dict[str, Any]:
    renamed: dict[str, Any] = {}
    for name, value in given.items():
        field = _TIMES.get(name, name)
        if field not in contract.__struct_fields__:
            raise BadInputError(f"there is no field {name!r}", field=name)
        renamed[wire_name(field)] = value.total_seconds() if isinstance(value, timedelta) else value
    return renamed


def _query_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str | int | float) else ",".join(value)


def array_of(jobs: Iterable[KeyedJob]) -> bytes:
    """A JSON array."""
    return b"[" + b",".join(job.content for job in jobs) + b"]"


def set_body(job: bytes, payloads: Sequence[bytes], positions: Sequence[int] | None) -> bytes:
    """The body of a set of jobs."""
    array = b",".join([payload or b"null" for payload in payloads])
    where = b"" if positions is None else b',"positions":' + _encoder.encode(positions)
    return b'{"job":' + job + b',"payloads":[' + array + b"]" + where + b"}"
