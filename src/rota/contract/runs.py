"""Runs, their attempts, and dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, field

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
    """how it ended"""
    start_time: datetime | None
    """when it started"""
    end_time: datetime
    """when it ended"""
    executor_id: str | None
    """the worker that ran it"""
    error: str | None
    """what went wrong"""
    traceback: str | None = None


class TimelineEntry(Out, kw_only=True):
    """An event of a run."""

    time: datetime
    event: str
    """what happened"""
    detail: str | None = None
    """more about it"""


class RunOut(Out, kw_only=True):
    """A run. `attempts`, `timeline`, `traceback` and `waitingFor` are only given for a single run; so is, while it
    waits for its retry, the `error` of its last attempt."""

    run_id: str
    job_id: str
    name: str
    """its job's name"""
    owner: str
    """its job's owner"""
    status: RunStatusName
    task: str
    cause: str
    """what made it, such as `schedule`, `manual` or `retry`"""
    pool: str
    priority: PriorityName
    tags: list[str]
    payload: Any = None
    """the task's parameters"""
    nominal_time: datetime
    scheduled_time: datetime
    """when it may start: the planned time, or the end of its pause"""
    created_at: datetime = NOT_GIVEN
    """when it was created"""
    created_time: FormerName = NOT_GIVEN
    """the same as `createdAt`, by its former name; the next release leaves it out"""
    start_time: datetime | None
    """when the latest attempt started"""
    end_time: datetime | None
    """when it ended"""
    attempt: int
    max_retries: int
    """how many times it is retried if it fails"""
    timeout_seconds: float | None
    """an attempt that takes longer is stopped and fails"""
    expires_time: datetime | None = None
    """skipped if it has not started by then"""
    snoozes: int | None = None
    """how often it asked to be run later"""
    progress: str | None
    progress_message: str | None = None
    """what it says about its progress"""
    executor_id: str | None
    cancel_requested: bool
    headers: dict[str, str] | None = None
    workflow_run_id: str | None = None
    """of the run of a node: the workflow run that it belongs to"""
    node: str | None = None
    """the key of that node"""
    index: int | None = None
    """of a member of a map: the number of its item, from 0"""
    retry_of: str | None = None
    """the run that this one repeats"""
    idempotency_key: str
    """the same for all attempts and repetitions of it, for receivers of what it sends"""
    error: str | None
    """what went wrong in the latest attempt"""
    reason: str | None = None
    """why it was skipped or cancelled"""
    result: Any = None
    """what the task returned"""
    checkpoint: Any = None
    """what the task saved"""
    storage_error: str | None = None
    traceback: str | None = None
    attempts: list[AttemptOut] | None = None
    """attempts that did not succeed"""
    timeline: list[TimelineEntry] | None = None
    waiting_for: str | None = None
    """why it is not running"""
    archived: bool | None = None
    """true: its day is in the archive, which takes longer to read; it can't be run again before the day is restored"""

    def __post_init__(self) -> None:
        fill_created(self)


class RunList(Out, kw_only=True):
    """A page of runs."""

    items: list[RunOut]
    """runs, latest first"""
    next_cursor: str | None
    archive_read: bool | None = None
    """true: archived days were read as well, which takes longer"""
    partial: bool | None = None
    """true: so much was to be read in the archive that the page ends here; go on with `nextCursor`"""


class RunSelection(In, kw_only=True):
    """Selects runs that match all given fields."""

    status: RunStatusName | None = None
    """only in this status"""
    owner: StoredName | None = None
    """only of this owner"""
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


class RunCancelled(Out, kw_only=True):
    """The result of a request to cancel: `cancelled`, or `running` (`queued` if claimed ahead of its time) until the
    worker has stopped it; it may still end in another way."""

    run_id: str
    status: str
    """`cancelled`, or its status until the worker has stopped it"""
    cancel_requested: bool


class CountOut(Out, kw_only=True):
    """How many were affected."""

    count: int
    """how many were affected"""
    operation_id: str | None = None
    """the operation that goes on with the rest, if there are very many"""


class DeadLetterOut(Out, kw_only=True):
    """A failed run that waits for a decision."""

    run_id: str
    job_id: str
    name: str
    """its job's name"""
    task: str
    owner: str | None
    """its job's owner"""
    attempts: int | None
    """how many there were"""
    error: str | None
    """what went wrong in the last attempt"""
    traceback: str | None
    nominal_time: datetime | None
    buried_time: datetime
    """when it failed for good"""
    payload: Any = None
    """the task's parameters"""


class DeadLetterList(Out, kw_only=True):
    """A page of dead letters."""

    items: list[DeadLetterOut]
    """dead letters, latest first"""
    next_cursor: str | None


class DeadLetterGroup(Out, kw_only=True):
    """Dead letters of one task with the same error (its first line, with # for numbers), and the latest run."""

    task: str
    error: str
    """the first line of the error, with # for numbers"""
    count: int
    """how many dead letters"""
    first_time: datetime
    """the earliest"""
    last_time: datetime
    """the latest"""
    run_id: str
    """the latest run"""


class DeadLetterGroups(Out, kw_only=True):
    """Groups of dead letters, largest first."""

    items: list[DeadLetterGroup]
    """groups, largest first"""


class DeadLetterSelection(In, kw_only=True):
    """Selects dead letters by ids or by filter; one of the two is required.

    `error` is text that the error contains. `most` limits how many matching ones are affected, latest first.
    """

    run_ids: Annotated[list[RunId], Meta(min_length=1, max_length=10_000)] | None = None
    """these runs"""
    task: StoredName | None = None
    """only of this task"""
    job_id: JobId | None = None
    """only of this job"""
    name: StoredName | None = None
    """only with this name"""
    error: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    """text that the error contains"""
    all: bool = False
    """all dead letters"""
    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """how many at most, latest first"""


class LogLine(Out, kw_only=True):
    """A line that a run wrote to `stdout`, `stderr` or a logger (`log`)."""

    run_id: str
    attempt: int
    time: str
    """when it was written"""
    stream: str
    """`stdout`, `stderr` or `log`"""
    text: str
    """the line"""


class LogMatch(LogLine, kw_only=True):
    """A log line that contains the text that was searched for."""

    line: int = 0
    """its number within the log of the attempt, 1 for the first"""
    highlights: list[list[int]] = field(default_factory=list)
    """where the text occurs in it: begin and end of each place, in characters from 0"""
    before: list[str] = field(default_factory=list)
    """lines before it, as many as `context` says"""
    after: list[str] = field(default_factory=list)
    """lines after it"""


class LogList(Out, kw_only=True):
    """Matching log lines."""

    items: list[LogMatch]
    """matching lines: of the latest run first, within an attempt in their order"""
    next_cursor: str | None
    searched_to: datetime | None = None
    """up to runs planned then it was searched; the next page continues there. Null: everything was searched"""
    indexing: bool = False
    """true: logs of an earlier release are still being indexed, and those that are not are left out"""


class LogUrl(Out, kw_only=True):
    """A URL for reading a log without a token, for a while."""

    url: str
    """where to read the log"""
    expires_time: datetime
    """until when"""
