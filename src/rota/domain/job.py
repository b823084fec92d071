"""What a job is: what to run (the definition) and when (the schedule)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import IntEnum
from typing import ClassVar, Literal
from uuid import UUID

import msgspec

from rota.domain.business_days import Exclusion, decode_exclusion, exclude_days
from rota.domain.cron import ClockChange, Cron
from rota.domain.ids import show_job
from rota.domain.retry import RetryPolicy
from rota.domain.schedule import Every, Schedule, parse_bounds
from rota.errors import BadInputError

ScheduleType = Literal["immediate", "future", "cron", "interval"]

# How late a one-shot's time may be at submission: clocks differ and requests take time.
LATE_SUBMISSION_SECONDS = 60.0
# A payload up to INLINE_PAYLOAD_BYTES is in the run's row; a larger one has its own row, which is not rewritten when
# the run moves; above STORED_BYTES it goes to object storage. The latter applies to results too.
INLINE_PAYLOAD_BYTES = 2048
SURELY_INLINE = INLINE_PAYLOAD_BYTES // 4  # characters: one has at most four bytes
STORED_BYTES = 64 * 1024
MAX_SCRIPT_NAME = 255
# Task names of runners, not registered functions.
SCRIPT_TASK = "script"
SHELL_TASK = "shell"
HTTP_TASK = "http"
NODE_CAUSES = ("node", "member")  # of runs that belong to a workflow run: its id is their job_id
WORKFLOW_TASK = "workflow"  # of a workflow run: no worker runs it
RESERVED_TASKS = frozenset({SCRIPT_TASK, SHELL_TASK, HTTP_TASK})
# Waiting this long is worth one level of priority (also in claim.sql).
AGING_SECONDS = 300.0


class Priority(IntEnum):
    """Levels of priority. Waiting five minutes is worth one level (see live_runs.ready_at)."""

    low = -1
    normal = 0
    high = 1
    critical = 2


def check_script_name(name: object) -> str:
    """Checks the name of a script; refuses paths that leave the scripts directory."""
    if not isinstance(name, str) or not name or len(name) > MAX_SCRIPT_NAME:
        raise BadInputError("must be the name of a script in the scripts directory", field="payload.script")
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or "\x00" in name or any(part in ("", ".", "..") for part in parts):
        raise BadInputError("must be a plain path below the scripts directory", field="payload.script")
    return name


def check_command(command: object, field: str = "payload.command") -> str:
    """Checks the text of a shell command."""
    if not isinstance(command, str) or not command.strip() or "\x00" in command:
        raise BadInputError("must be the text of a shell command", field=field)
    return command


_DEFAULT_RETRY = RetryPolicy()


class RunOptions(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A job's options, stored with its runs as JSON in one column. The database itself reads only expiresSeconds."""

    max_retries: int = 3
    retry: RetryPolicy = _DEFAULT_RETRY
    timeout_seconds: float | None = None
    expires_seconds: float | None = None
    headers: dict[str, str] | None = None  # from middleware at the submission to middleware at the run
    linked: bool = False  # it did not run at once: its trace links to that of the submission
    job_id: str | None = None  # the id that the job's submitter chose; rota.chosen_ids finds the job by it


_options_decoder = msgspec.json.Decoder(RunOptions)
_options_encoder = msgspec.json.Encoder()
_DEFAULT_OPTIONS = RunOptions()
_UNREADABLE_OPTIONS = RunOptions(max_retries=0)


def decode_options(text: str) -> RunOptions:
    """Decodes options; unreadable ones must not stop other runs, and mean no retries."""
    if text == "{}":
        return _DEFAULT_OPTIONS
    try:
        return _options_decoder.decode(text)
    except msgspec.MsgspecError:
        return _UNREADABLE_OPTIONS


def show_job_of(job_id: UUID, options: str | None) -> str:
    """The id of a job as people see it: the one they chose, which is among its options, or the generated one."""
    return (decode_options(options).job_id if options else None) or show_job(job_id)


def encode_options(options: RunOptions) -> str:
    """Encodes options; defaults are left out."""
    if options.retry == _DEFAULT_OPTIONS.retry:
        # msgspec leaves out a nested default only if it is the same object.
        options = msgspec.structs.replace(options, retry=_DEFAULT_OPTIONS.retry)
    return _options_encoder.encode(options).decode()


class Definition(msgspec.Struct, frozen=True):
    """What to run; copied to every run of the job."""

    owner: str
    name: str
    task: str
    pool: str
    priority: int
    tags: tuple[str, ...]
    payload: str | None
    options: str
    policies: str | None = None  # JSON, see policies.py; None for plain runs
    blob: str | None = None  # the key of a large payload in object storage


class SubmissionKey(msgspec.Struct, frozen=True):
    """An idempotency key, the hash of its request, and the answer for repeats."""

    key: str
    request_hash: bytes
    answer: str


class Unique(msgspec.Struct, frozen=True):
    """A key that only one job may have, while it waits or for some seconds."""

    key: str
    seconds: float | None
    on_duplicate: Literal["reject", "replace", "keep"]


class OneShot(msgspec.Struct, frozen=True):
    """A job that runs once: now (`run_at` None) or at a moment. It is its own run."""

    namespace: str
    id: UUID
    shard: int
    definition: Definition
    run_at: datetime | None
    key: SubmissionKey | None = None
    unique: Unique | None = None
    chosen_id: str | None = None
    needs: tuple[UUID, ...] = ()  # the jobs it depends on; its policies say so to admission


class JobSet(msgspec.Struct, frozen=True):
    """Jobs that run once and go in together or not at all, under one idempotency key. Their ids follow each other."""

    items: Sequence[OneShot]
    key: SubmissionKey | None = None

    unique: ClassVar[None] = None
    chosen_id: ClassVar[None] = None
    needs: ClassVar[tuple[UUID, ...]] = ()

    @property
    def id(self) -> UUID:
        return self.items[0].id

    @property
    def namespace(self) -> str:
        return self.items[0].namespace

    @property
    def definition(self) -> Definition:
        """What the first one runs; the others differ in their payloads."""
        return self.items[0].definition


class PlainSet(msgspec.Struct, frozen=True):
    """The same for jobs that run now, without policies and with small payloads, by columns: large sets take half of the
    time that way."""

    namespace: str
    ids: range  # as numbers, each greater than the one before by one
    shards: int  # how many there are: the jobs are in one after the other
    definition: Definition  # without a payload
    payloads: Sequence[str | None]
    key: SubmissionKey | None = None

    unique: ClassVar[None] = None
    chosen_id: ClassVar[None] = None
    needs: ClassVar[tuple[UUID, ...]] = ()

    @property
    def id(self) -> UUID:
        return UUID(int=self.ids[0])


class MisfireRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which missed times still run: none, the latest or all, within the window, at most `cap`."""

    policy: Literal["skip", "latest", "all"] = "latest"
    window_seconds: float = 3600.0
    cap: int = 100


_DEFAULT_MISFIRE = MisfireRule()
_NO_DAYS = Exclusion()


class Timetable(msgspec.Struct, frozen=True):
    """When a recurring job fires, as stored."""

    schedule_type: str
    cron_expression: str | None
    every_seconds: float | None
    timezone: str
    anchor_at: datetime
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter_seconds: float = 0.0
    dst: ClockChange | None = None
    misfire: str | None = None
    excluded: str | None = None

    def schedule(self, job_id: UUID) -> Schedule:
        """The schedule; the job's id decides the value of H."""
        schedule: Schedule
        if self.cron_expression is not None:
            schedule = Cron(self.cron_expression, self.timezone, self.dst or "shift", job_id)
        else:
            assert self.every_seconds is not None  # noqa: S101 - a constraint of the table
            schedule = Every(self.every_seconds, self.anchor_at)
        schedule = parse_bounds(schedule, self.start_at, self.end_at)
        return schedule if self.excluded is None else exclude_days(schedule, self.exclusion, self.timezone)

    @property
    def exclusion(self) -> Exclusion:
        """The days that it leaves out."""
        return _NO_DAYS if self.excluded is None else decode_exclusion(self.excluded)

    @property
    def misfire_rule(self) -> MisfireRule:
        """The rule for missed times."""
        return _DEFAULT_MISFIRE if self.misfire is None else msgspec.json.decode(self.misfire, type=MisfireRule)


class Recurring(msgspec.Struct, frozen=True):
    """A job with a schedule."""

    namespace: str
    id: UUID
    shard: int
    definition: Definition
    timetable: Timetable
    next_fire_at: datetime
    key: SubmissionKey | None = None
    unique: Unique | None = None
    chosen_id: str | None = None
    needs: tuple[UUID, ...] = ()


SingleJob = OneShot | Recurring
Submission = SingleJob | JobSet | PlainSet
