"""What a run is, and the verdict on an attempt that ended: where the run goes next.

The same pure rules judge the reports of workers and the lost runs that the reaper finds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

import msgspec

from rota.domain.job import AGING_SECONDS, Timetable, decode_options
from rota.domain.retry import MAX_LOSSES

# Statuses of ended runs, as in the view rota.runs.
ENDED_STATUSES = frozenset({"success", "failed", "cancelled", "skipped"})
# A run due within this time goes straight to the live runs; promotion looks this far ahead too.
LOOKAHEAD = timedelta(seconds=1)
# The reason of a run that expired, whether a worker or the scheduler finds it.
EXPIRED = "expired: it was not started in time"


class Outcome(StrEnum):
    """How an attempt ended."""

    success = "success"
    failed = "failed"
    final = "final"  # failed, and a retry would not help
    cancelled = "cancelled"
    released = "released"  # never started: not charged
    interrupted = "interrupted"  # stopped by its worker's shutdown
    cut_off = "cut_off"  # stopped because its worker lost the database
    lost = "lost"  # its worker died; it may have started
    timed_out = "timed_out"  # stopped because it exceeded its timeout
    expired = "expired"  # never started: it had waited too long
    snoozed = "snoozed"  # asked to run again later; not charged


# Enum lookups are slow before Python 3.12, and this one happens several times per run.
SUCCESS = Outcome.success


class Disposition(StrEnum):
    """Where a claimed run goes."""

    succeed = "succeed"
    retry = "retry"
    bury = "bury"
    release = "release"
    cancel = "cancel"
    skip = "skip"
    snooze = "snooze"


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A worker's right to one attempt. `number` never repeats; every report names it. Times are seconds since the
    epoch on the broker's clock."""

    namespace: str
    run_id: UUID
    job_id: UUID
    number: int
    task: str
    priority: int
    payload: str | None
    payload_id: UUID | None
    options: str
    root_id: UUID | None
    nominal: float
    ready: float
    attempt: int
    losses: int
    expires: float | None = None
    checkpoint: str | None = None
    pool: str = "default"
    payload_blob: str | None = None

    @property
    def rank(self) -> float:
        """Smaller goes first: the time it became ready, five minutes earlier for each level of priority."""
        return self.ready - self.priority * AGING_SECONDS

    @property
    def nominal_at(self) -> datetime:
        """The time this run was planned for."""
        return datetime.fromtimestamp(self.nominal, UTC)

    @property
    def idempotency_key(self) -> UUID:
        """The same on every attempt, and on every retry or redrive of the run."""
        return self.root_id or self.run_id


class Verdict(msgspec.Struct, frozen=True):
    """Where a run goes, whether the attempt counts, and how long it waits."""

    disposition: Disposition
    charged: bool = False
    delay_seconds: float = 0.0
    loss: bool = False


def judge(
    outcome: Outcome,
    *,
    options: str,
    attempt: int,
    losses: int,
    started: bool = True,
    snooze_seconds: float = 0.0,
) -> Verdict:
    """The verdict on an attempt; `attempt` counts the ones charged before it."""
    if outcome is Outcome.snoozed:
        return Verdict(Disposition.snooze, delay_seconds=snooze_seconds)
    if outcome is Outcome.cancelled:
        return Verdict(Disposition.cancel, charged=started)
    if outcome in _PLAIN_VERDICTS:
        return _PLAIN_VERDICTS[outcome]
    known = decode_options(options)
    if outcome in (Outcome.interrupted, Outcome.cut_off):
        return _judge_stopped(outcome, max_retries=known.max_retries, losses=losses)
    if attempt >= known.max_retries:
        return Verdict(Disposition.bury, charged=True)
    delay = 0.0 if outcome is Outcome.lost else known.retry.delay(attempt + 1)
    return Verdict(Disposition.retry, charged=True, delay_seconds=delay)


_PLAIN_VERDICTS = {
    Outcome.success: Verdict(Disposition.succeed, charged=True),
    Outcome.released: Verdict(Disposition.release),
    Outcome.final: Verdict(Disposition.bury, charged=True),
    Outcome.expired: Verdict(Disposition.skip),
}


def _judge_stopped(outcome: Outcome, *, max_retries: int, losses: int) -> Verdict:
    """Stopped through no fault of its own: not charged, but a run without retries is not run again."""
    loss = outcome is Outcome.cut_off
    if max_retries == 0 or (loss and losses + 1 >= MAX_LOSSES):
        return Verdict(Disposition.bury, charged=True, loss=loss)
    return Verdict(Disposition.release, loss=loss)


class Report(msgspec.Struct, frozen=True):
    """How an attempt ended. Times are seconds since the epoch on the broker's clock. `recorded`: its success is
    committed, with the writes of its task."""

    claim: Claim
    outcome: Outcome
    started: float | None
    ended: float
    result: str | None = None
    error: str | None = None
    traceback: str | None = None
    result_blob: str | None = None
    snooze_seconds: float = 0.0
    checkpoint: str | None = None
    recorded: bool = False

    def verdict(self) -> Verdict:
        claim = self.claim
        return judge(
            self.outcome,
            options=claim.options,
            attempt=claim.attempt,
            losses=claim.losses,
            started=self.started is not None,
            snooze_seconds=self.snooze_seconds,
        )


class Progress(msgspec.Struct, frozen=True):
    """The start, progress or checkpoint of a running attempt."""

    claim: Claim
    started: float
    progress: float | None
    message: str | None
    checkpoint: str | None = None


class LogChunk(msgspec.Struct, frozen=True):
    """Lines that a run wrote; `number` counts the chunks of an attempt from 0, `last` marks the last one."""

    claim: Claim
    number: int
    body: str
    last: bool


class RecalledRun(msgspec.Struct, frozen=True):
    """A run that its worker released because its job changed, with the job's current state."""

    namespace: str
    id: UUID
    job_id: UUID
    cause: str
    started: bool  # ever, charged or not
    nominal_at: datetime
    version: int
    state: str
    timetable: Timetable
    database_time: datetime


def judge_recalled(run: RecalledRun) -> str:
    """'go', 'hold', 'drop' or 'cancel', by the job's current state.

    Only what its schedule will make again, or no longer has, is dropped: a run that has never started and whose nominal
    time is still to come. One that snoozed waits for its time too, and keeps what it has done.
    """
    if run.state == "cancelled":
        return "cancel"
    future = run.cause == "schedule" and not run.started and run.nominal_at > run.database_time
    if run.state == "paused":
        return "drop" if future else "hold"
    just_before = run.nominal_at - timedelta(microseconds=1)
    is_dropped = future and run.timetable.schedule(run.job_id).next_after(just_before) != run.nominal_at
    return "drop" if is_dropped else "go"
