"""The executor: one attempt from its start to its report.

Stopping has three steps: ask, wait for the grace period, kill. Asking cancels the runner's call and sets the context's
`cancelled`. Runners of subprocesses send SIGTERM, then SIGKILL after the grace period, and return when no process of
the attempt is left. A function in a thread, or one that swallows its cancellation, can't be killed: after the grace
period the attempt is abandoned and reported as stopped, and its record says that it may still be running.

A worker that is cut off asks all its attempts to stop, and leaves the process if one does not (worker.py). If the lease
is kept again before that, the claim is still current: an attempt that did not stop goes on, and can be cancelled or
timed out as before.

An attempt that exceeds its timeout has failed, whatever it returns afterwards.
"""

from __future__ import annotations

import asyncio
import math
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rota.blobs import BlobError, Blobs
from rota.clock import DatabaseClock
from rota.domain.ids import day_of, show_run
from rota.domain.job import STORED_BYTES, decode_options
from rota.domain.run import SUCCESS, Claim, Outcome, Report
from rota.domain.text import clean_text
from rota.domain.workflows.references import STORED_MARK, MissingValueError, fill, stored_in
from rota.gateway.protocol import JobGateway, SyncJobGateway
from rota.gateway.thread import ThreadGateway
from rota.task.arguments import encode
from rota.task.context import Context, Final, NotBegunError, PlainError, Snooze, says_final
from rota.task.output import current
from rota.task.retry_rule import members_of
from rota.telemetry import get_logger
from rota.tracing import AttemptSpan, Tracing
from rota.worker.lease import Lease
from rota.worker.run_log import LogWriter, RunLog
from rota.worker.runners import Runner
from rota.worker.secret_mask import Mask

GRACE_SECONDS = 10.0
# How long a kill may take before the run is abandoned.
_KILLING_SECONDS = 2.0
_RESULT_LIMIT_BYTES = 10 * 1024 * 1024
LOG_LIMIT_BYTES = 2 * 1024 * 1024
_ERROR_LIMIT = 10_000
# Reasons to stop that are the worker's: what has not begun by then is given back, as if it had never been started.
_NOT_ITS_FAULT = (None, Outcome.cut_off, Outcome.interrupted)
_OURS = Path(__file__).parents[1]
_log = get_logger("worker")


class Attempt:
    """A run in a slot."""

    __slots__ = (
        "abandoned",
        "began",
        "begun",
        "claim",
        "context",
        "noted",
        "span",
        "spared",
        "started",
        "stop_as",
        "task",
        "timers",
    )

    def __init__(self, claim: Claim, started: float, began: float) -> None:
        self.claim = claim
        self.context = Context(claim)
        self.started = self.context.started = started
        self.began = began
        self.begun = False
        self.noted = False
        self.abandoned = False
        self.stop_as: Outcome | None = None
        self.span: AttemptSpan | None = None
        self.spared = False  # it was to stop because of a cut-off, and goes on because that is over
        self.task: asyncio.Task[None] | None = None
        self.timers: list[asyncio.TimerHandle] | None = None


class Executor:
    """Runs attempts and reports how they ended."""

    def __init__(
        self,
        *,
        runners: Mapping[str, Runner],
        lease: Lease,
        clock: DatabaseClock,
        logs: LogWriter,
        on_end: Callable[[Attempt, Report], None],
        blobs: Blobs | None = None,
        secrets: Mapping[str, str] | None = None,
        hidden: Iterable[str] = (),
        grace_seconds: float = GRACE_SECONDS,
        log_limit_bytes: int = LOG_LIMIT_BYTES,
        on_change: Callable[[Context], None] | None = None,
        gateways: Callable[[Claim], JobGateway] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._tracing = tracing
        self.running: dict[int, Attempt] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.abandoned = 0  # attempts that were reported as stopped, but may still be running
        self._runners = runners
        self._lease = lease
        self._clock = clock
        self._logs = logs
        self._on_end = on_end
        self._blobs = blobs
        self._secrets = secrets
        self._mask = Mask([*(secrets or {}).values(), *hidden])
        self._grace = grace_seconds
        self._log_limit = log_limit_bytes
        self._on_change = on_change
        self._gateways = gateways
        self._open_gateways: dict[int, JobGateway] = {}

    def start(self, claim: Claim) -> None:
        """Starts an attempt now."""
        attempt = Attempt(claim, self._clock.now(), self._lease.monotonic())
        self.running[claim.number] = attempt
        attempt.task = self._loop.create_task(self._execute(attempt))

    def stop(self, attempt: Attempt, outcome: Outcome, *, within: float = math.inf) -> None:
        """Asks an attempt to stop within this many seconds; the first reason given is the one recorded."""
        if attempt.stop_as is not None and not attempt.spared:
            return
        attempt.stop_as = outcome
        attempt.spared = False
        attempt.context.ask_to_stop(within, late=outcome is Outcome.timed_out)
        # Of the others, what does not stop ends with the process, which is about to end.
        if outcome not in _NOT_ITS_FAULT:
            self._later(attempt, min(self._grace, within) + _KILLING_SECONDS, self._abandon)
        # A task cancelled before its first step would never report; `_execute` checks `stop_as` itself.
        if attempt.task and attempt.begun:
            attempt.task.cancel()

    def disown(self, attempt: Attempt) -> None:
        """Stops an attempt whose run another worker may have."""
        self.stop(attempt, Outcome.cut_off)
        self._later(attempt, self._grace + _KILLING_SECONDS, self._abandon)

    def spare(self) -> None:
        """A cut-off is over and the claims are still ours: attempts that did not stop go on."""
        for attempt in self.running.values():
            if attempt.stop_as is Outcome.cut_off:
                attempt.spared = True
                if deadline := attempt.context.deadline:  # it may have passed meanwhile
                    self._limit(attempt, max(0.0, deadline.timestamp() - self._clock.now()))

    async def _execute(self, attempt: Attempt) -> None:
        claim, context = attempt.claim, attempt.context
        result = blob = error = trace = None
        snooze = 0.0
        outcome = SUCCESS
        attempt.begun = True
        try:
            if attempt.stop_as or not self._lease.may_begin():
                raise NotBegunError  # noqa: TRY301 - handled like what a runner raises
            self._enter(attempt)
            payload = await self._payload(claim) if claim.payload is None else msgspec.json.decode(claim.payload)
            if STORED_MARK in claim.options:
                payload = await self._filled(claim, payload)
            value = await self._runners[claim.task].run(claim.task, payload, context)
            if context.must_not_succeed and not context.recorded:
                raise asyncio.CancelledError  # noqa: TRY301 - it stopped on request, or returned too late
            if isinstance(value, Snooze):
                outcome, snooze = Outcome.snoozed, value.seconds
            elif value is not None and not context.recorded:
                result, blob = await self.store_result(claim, value)
        except GeneratorExit:
            raise
        except BaseException as problem:  # noqa: BLE001 - anything a task raises, SystemExit included, is its outcome
            outcome, error, trace = self._outcome_of(problem, attempt)
        if attempt.abandoned:
            self.abandoned -= 1
            _log.info("an abandoned run has ended", run_id=show_run(claim.run_id))
            return
        self._end(attempt, outcome, result=result, blob=blob, error=error, trace=trace, snooze=snooze)

    def _enter(self, attempt: Attempt) -> None:
        """Makes the attempt's context, and its span, those of this asyncio task."""
        context = attempt.context
        current.set(context)
        context.host = self
        if self._secrets:
            context.secrets = self._secrets
        if self._tracing:
            attempt.span = self._tracing.begin(attempt.claim)

    def _outcome_of(self, problem: BaseException, attempt: Attempt) -> tuple[Outcome, str | None, str | None]:
        """The outcome of an attempt that ended with this exception, with its error and traceback."""
        if isinstance(problem, asyncio.CancelledError):
            if not attempt.context.has_begun and attempt.stop_as in _NOT_ITS_FAULT:
                return Outcome.released, None, None
            if attempt.stop_as:
                return attempt.stop_as, self._why_stopped(attempt), None
        is_final = says_final(problem) or attempt.context.is_final
        outcome = attempt.stop_as or (Outcome.final if is_final else Outcome.failed)
        return outcome, *describe(problem, self._mask)

    # The context's host; all but store_result can be called from any thread

    def begin(self, claim: Claim) -> float | None:
        """Starts the timeout, if the run has one; raises NotBegunError if the lease is over."""
        if not self._lease.may_begin():
            raise NotBegunError
        if claim.options == "{}":
            return None
        timeout = decode_options(claim.options).timeout_seconds
        attempt = self.running.get(claim.number)
        if timeout is None or attempt is None:
            return None
        attempt.started = attempt.context.started = self._clock.now()
        if threading.get_ident() == self._thread:
            self._limit(attempt, timeout)
        else:
            self._loop.call_soon_threadsafe(self._limit, attempt, timeout)
        return attempt.started + timeout

    def mask(self, text: str) -> str:
        return self._mask(text)

    def changed(self, context: Context) -> None:
        if self._on_change:
            self._on_change(context)

    def gateway(self, claim: Claim) -> JobGateway | None:
        """The gateway through which this run submits jobs; one per run, because it counts them."""
        if self._gateways is None:
            return None
        found = self._open_gateways.get(claim.number)
        if found or claim.number not in self.running:
            return found or self._gateways(claim)
        return self._open_gateways.setdefault(claim.number, self._gateways(claim))

    def sync_gateway(self, claim: Claim) -> SyncJobGateway | None:
        gateway = self.gateway(claim)
        return ThreadGateway(gateway, self._loop) if gateway else None

    def open_log(self, claim: Claim) -> RunLog:
        return RunLog(
            claim, limit_bytes=self._log_limit, mask=self._mask, now=self._clock.now, on_lines=self._logs.note
        )

    def _limit(self, attempt: Attempt, timeout: float) -> None:
        if attempt.claim.number in self.running:
            self._later(attempt, timeout, lambda late: self.stop(late, Outcome.timed_out))

    def _later(self, attempt: Attempt, seconds: float, do: Callable[[Attempt], None]) -> None:
        timer = self._loop.call_later(seconds, do, attempt)
        attempt.timers = [*(attempt.timers or ()), timer]

    def _abandon(self, attempt: Attempt) -> None:
        """Gives up an attempt that did not stop: frees its slot, while its thread goes on."""
        attempt.abandoned = True
        self.abandoned += 1
        attempt.context.abandon()
        error = (
            f"{self._why_stopped(attempt)}; it did not stop within {self._grace:g} s of being asked, can't be "
            "killed, and may still be running"
        )
        _log.warning(
            "a run did not stop and was abandoned", run_id=show_run(attempt.claim.run_id), task=attempt.claim.task
        )
        self._end(attempt, attempt.stop_as or Outcome.failed, error=error)

    def _end(
        self,
        attempt: Attempt,
        outcome: Outcome,
        *,
        result: str | None = None,
        blob: str | None = None,
        error: str | None = None,
        trace: str | None = None,
        snooze: float = 0.0,
    ) -> None:
        for timer in attempt.timers or ():
            timer.cancel()
        attempt.context.close_log()
        if attempt.span:
            attempt.span.end(outcome, error)
        said = None if outcome is SUCCESS else attempt.context.take_said()
        report = Report(
            attempt.claim,
            outcome,
            None if outcome is Outcome.released else attempt.started,
            self._clock.now(),
            result,
            error,
            trace,
            blob,
            snooze,
            said.checkpoint if said else None,
            outcome is SUCCESS and attempt.context.recorded,
        )
        del self.running[attempt.claim.number]
        self._open_gateways.pop(attempt.claim.number, None)
        self._on_end(attempt, report)

    async def _payload(self, claim: Claim) -> Any:
        if claim.payload_blob is not None:
            if self._blobs is None:
                raise BlobError(
                    "the run's payload is in object storage, and this worker has no object storage (ROTA_BLOBS)"
                )
            return msgspec.json.decode(await self._blobs.get(claim.payload_blob))
        if claim.payload_id is not None:
            raise LookupError("the run's payload is gone from the database")
        return None

    async def _filled(self, claim: Claim, payload: Any) -> Any:
        """The payload of a node with results of others that are in object storage."""
        stored = stored_in(claim.options)
        if self._blobs is None:
            raise BlobError("a result that the run needs is in object storage, and this worker has none (ROTA_BLOBS)")
        objects = {key: msgspec.json.decode(await self._blobs.get(key)) for key in {one.key for one in stored}}
        try:
            return fill(payload, stored, objects)
        except MissingValueError as error:
            raise Final(f"its payload could not be made: {error}") from None

    async def store_result(self, claim: Claim, value: Any) -> tuple[str | None, str | None]:
        """Returns the result as JSON for the run's row, or its key in object storage."""
        encoded = encode(value)
        try:  # a task can return raw JSON that it wrote itself
            encoded.decode()
            msgspec.json.decode(encoded)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Final(f"the result is not valid JSON: {error}") from None
        if self._mask.longest:
            encoded = self._mask.in_json(encoded.decode()).encode()
        if len(encoded) <= STORED_BYTES:
            return encoded.decode(), None
        if len(encoded) > _RESULT_LIMIT_BYTES:
            raise Final(f"the result is too large: {len(encoded)} bytes; the limit is {_RESULT_LIMIT_BYTES}")
        if self._blobs is None:
            raise Final(
                f"the result has {len(encoded)} bytes: that needs object storage, and there is none (ROTA_BLOBS)"
            )
        key = f"results/{day_of(claim.run_id)}/{claim.namespace}/{show_run(claim.run_id)}-{claim.number}.json"
        await self._blobs.put(key, encoded)
        return None, key

    def _why_stopped(self, attempt: Attempt) -> str:
        if attempt.stop_as is Outcome.timed_out:
            return f"timed out after {decode_options(attempt.claim.options).timeout_seconds:g} s"
        return _STOP_WORDS[attempt.stop_as or Outcome.cancelled]


_STOP_WORDS = {
    Outcome.cancelled: "cancelled on request",
    Outcome.interrupted: "stopped: the worker shut down",
    Outcome.cut_off: "stopped: the worker lost the database",
}


class RemoteError(Exception):
    """An error of a task in another process, as described there."""

    def __init__(self, error: str, trace: str) -> None:
        super().__init__(error)
        self.error = error
        self.trace = trace


def describe(problem: BaseException, mask: Callable[[str], str] = str) -> tuple[str, str]:
    """An error's message and traceback, without secrets and without the worker's own frames."""
    if isinstance(problem, RemoteError):
        return mask(clean_text(problem.error))[:_ERROR_LIMIT], mask(clean_text(problem.trace))[-_ERROR_LIMIT:]
    try:
        words = _words_of(problem)
        frames = problem.__traceback__
        while frames and frames.tb_next and is_ours(frames.tb_frame.f_code.co_filename):
            frames = frames.tb_next
        trace = "".join(traceback.format_exception(type(problem), problem, frames))
    except BaseException:  # noqa: BLE001 - even str() of an error can fail
        words, trace = "an error that can't be described", ""
    error = words if isinstance(problem, (Final, PlainError, BlobError)) else f"{type(problem).__name__}: {words}"
    return mask(clean_text(error))[:_ERROR_LIMIT], mask(clean_text(trace))[-_ERROR_LIMIT:]


def _words_of(problem: BaseException) -> str:
    """Its message; a group's own says how many there are, but not what happened."""
    words = str(problem) or "no message"
    if not isinstance(problem, BaseExceptionGroup):
        return words
    first, _ = next(members_of(problem))
    return f"{words}: {type(first).__name__}: {first}"


def is_ours(file: str) -> bool:
    """Whether a file is Rota's."""
    return Path(file).is_relative_to(_OURS)
