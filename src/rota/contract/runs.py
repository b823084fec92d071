"""Runs, their attempts, and dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from rota.contract.fields import (
    NOT_GIVEN,
    FormerName,
    In,
    JobId,
    Moment,
    Out,
    PriorityName,
    RunId,
    RunStatusName,
    StoredName,
    fill_created,
)


class AttemptOut(Out, kw_only=True):
    """An attempt that did not succeed."""

    attempt: int
    outcome: str
    start_time: datetime | None
    end_time: datetime
    executor_id: str | None
    error: str | None
    traceback: str | None = None


class TimelineEntry(Out, kw_only=True):
    """An event of a run."""

    time: datetime
    event: str
    detail: str | None = None


class RunOut(Out, kw_only=True):
    """A run. `attempts`, `timeline`, `traceback` and `waitingFor` are only given for a single run."""

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
    payload: Any = None
    nominal_time: datetime
    scheduled_time: datetime
    created_at: datetime = NOT_GIVEN
    """when it was created"""
    created_time: FormerName = NOT_GIVEN
    """the same as `createdAt`, by its former name; the next release leaves it out"""
    start_time: datetime | None
    end_time: datetime | None
    attempt: int
    max_retries: int
    timeout_seconds: float | None
    expires_time: datetime | None = None
    snoozes: int | None = None
    progress: str | None
    progress_message: str | None = None
    executor_id: str | None
    cancel_requested: bool
    headers: dict[str, str] | None = None
    retry_of: str | None = None
    idempotency_key: str
    error: str | None
    reason: str | None = None
    result: Any = None
    checkpoint: Any = None
    storage_error: str | None = None
    traceback: str | None = None
    attempts: list[AttemptOut] | None = None
    timeline: list[TimelineEntry] | None = None
    waiting_for: str | None = None

    def __post_init__(self) -> None:
        fill_created(self)


class RunList(Out, kw_only=True):
    """A page of runs."""

    items: list[RunOut]
    next_cursor: str | None


class RunSelection(In, kw_only=True):
    """Selects runs that match all given fields."""

    status: RunStatusName | None = None
    owner: StoredName | None = None
    name: StoredName | None = None
    tag: StoredName | None = None
    task: StoredName | None = None
    start_time: Moment | None = None
    end_time: Moment | None = None


class RunCancelled(Out, kw_only=True):
    """The result of a request to cancel: `cancelled`, or `running` (`queued` if claimed ahead of its time) until the
    worker has stopped it; it may still end in another way."""

    run_id: str
    status: str
    cancel_requested: bool


class CountOut(Out, kw_only=True):
    """How many were affected."""

    count: int


class DeadLetterOut(Out, kw_only=True):
    """A failed run that waits for a decision."""

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
    payload: Any = None


class DeadLetterList(Out, kw_only=True):
    """A page of dead letters."""

    items: list[DeadLetterOut]
    next_cursor: str | None


class DeadLetterGroup(Out, kw_only=True):
    """Dead letters of one task with the same error (its first line, with # for numbers), and the latest run."""

    task: str
    error: str
    count: int
    first_time: datetime
    last_time: datetime
    run_id: str


class DeadLetterGroups(Out, kw_only=True):
    """Groups of dead letters, largest first."""

    items: list[DeadLetterGroup]


class DeadLetterSelection(In, kw_only=True):
    """Selects dead letters by ids or by filter; one of the two is required.

    `error` is text that the error contains. `most` limits how many matching ones are affected, latest first.
    """

    run_ids: Annotated[list[RunId], Meta(min_length=1, max_length=10_000)] | None = None
    task: StoredName | None = None
    job_id: JobId | None = None
    name: StoredName | None = None
    error: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    all: bool = False
    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class LogLine(Out, kw_only=True):
    """A line that a run wrote to `stdout`, `stderr` or a logger (`log`)."""

    run_id: str
    attempt: int
    time: str
    stream: str
    text: str


class LogList(Out, kw_only=True):
    """Matching log lines."""

    items: list[LogLine]
    next_cursor: str | None


class LogUrl(Out, kw_only=True):
    """A URL for reading a log without a token, for a while."""

    url: str
    expires_time: datetime
