"""What a running task can know and say."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import msgspec

from rota.domain.ids import show_run
from rota.domain.job import decode_options, show_job_of
from rota.domain.run import Claim
from rota.domain.text import clean_text
from rota.errors import FanOutError, SetupError
from rota.gateway.protocol import JobGateway, SyncJobGateway
from rota.task.output import current
from rota.task.retry_rule import members_of

_MESSAGE_LIMIT = 500
_CHECKPOINT_LIMIT_BYTES = 64 * 1024
_LONGEST_SNOOZE_SECONDS = 366 * 86400.0
_NOTHING: Mapping[str, str] = MappingProxyType({})
_logger = logging.getLogger("rota.task")
_opening = threading.Lock()


class Final(Exception):  # noqa: N818 - reads as a word: raise rota.Final("no such customer")
    """Raised by a task: it failed, and another try would not help."""


_FINAL = (Final, FanOutError)


def says_final(problem: BaseException) -> bool:
    """Whether a task says by this exception, or by one in a group, that another try would not help."""
    return any(isinstance(member, _FINAL) for member, _ in members_of(problem))


class PlainError(Exception):
    """Raised by runners: shown by its message alone, without the class name."""


class NotBegunError(asyncio.CancelledError):
    """Raised to runners: the run was asked to stop, or the worker's lease ended, before the work began."""


class Snooze:
    """Returned by a task: run it again after this many seconds. No attempt is charged."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= _LONGEST_SNOOZE_SECONDS:
            raise ValueError(f"a snooze must be a number of seconds from 0 to a year, not {seconds!r}")
        self.seconds = float(seconds)


def _check_checkpoint(text: str) -> str:
    """Returns the text of a checkpoint; raises ValueError if it is too long or not JSON."""
    size = len(text.encode())
    if size > _CHECKPOINT_LIMIT_BYTES:
        raise ValueError(f"the checkpoint has {size} bytes; the limit is {_CHECKPOINT_LIMIT_BYTES}")
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"a checkpoint must be JSON: {error}") from None
    return text


class Said(NamedTuple):
    """Progress and checkpoint of a task; None: nothing new."""

    progress: float | None
    message: str | None
    checkpoint: str | None


class RunWriter(Protocol):
    """A run's log."""

    def write(self, stream: str, text: str) -> None:
        """Adds whole lines."""

    def feed(self, stream: str, data: bytes) -> None:
        """Adds raw output."""

    def close(self) -> None:
        """Ends the log."""


class Host(Protocol):
    """Runs the task on behalf of a context; not called for a task that says nothing."""

    def begin(self, claim: Claim) -> float | None:
        """The work begins now; returns its deadline. Raises NotBegunError if another worker may have the run."""

    def changed(self, context: Context) -> None:
        """There is something to record soon."""

    def open_log(self, claim: Claim) -> RunWriter:
        """Opens the run's log, before its first line."""

    def mask(self, text: str) -> str:
        """The text without secrets."""

    async def store_result(self, claim: Claim, value: Any) -> tuple[str | None, str | None]:
        """Returns the result as JSON for the run's row, or its key in object storage."""

    def gateway(self, claim: Claim) -> JobGateway | None:
        """The gateway through which the task submits jobs; None: it has none."""

    def sync_gateway(self, claim: Claim) -> SyncJobGateway | None:
        """The same, for a task that can't await."""


class Transaction(Protocol):
    """The database transaction of a transactional task."""

    connection: Any

    async def complete(self, began: float, result: str | None, blob: str | None) -> None:
        """Records the run's success in it; raises if the claim is no longer current."""

    @property
    def is_over(self) -> bool:
        """Whether the task has ended it."""

    def abandon(self) -> None:
        """Ends it, whatever the task is doing."""


class Context:
    """Passed to tasks that have a parameter annotated with it."""

    __slots__ = (
        "_cancelled",
        "_changed",
        "_checkpoint",
        "_claim",
        "_deadline",
        "_late",
        "_message",
        "_progress",
        "_transaction",
        "_writer",
        "has_begun",
        "host",
        "is_final",
        "noticed",
        "quiet",
        "recorded",
        "secrets",
        "started",
        "stop_within",
    )

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._cancelled = False
        self._deadline: float | None = None
        self._progress: float | None = None
        self._message: str | None = None
        self._checkpoint: str | None = None
        self._changed = False
        self._late = False
        self._transaction: Transaction | None = None
        self._writer: RunWriter | None = None
        self.stop_within = math.inf
        self.started = 0.0  # by the broker's clock
        self.has_begun = False
        self.noticed = False
        self.quiet = False  # its start is not recorded while it runs
        self.is_final = False  # by its task's rule, its failure is not worth another attempt
        self.recorded = False  # its success is already in the database, with its writes
        self.secrets: Mapping[str, str] = _NOTHING
        self.host: Host | None = None

    @classmethod
    def outside(cls, task: str) -> Context:
        """A context without a run, for a task that is called like a function."""
        none, now = UUID(int=0), time.time()
        return cls(Claim("", none, none, 0, task, 0, None, None, "{}", None, now, now, 0, 0))

    @property
    def run_id(self) -> str:
        """`run_…`"""
        return show_run(self._claim.run_id)

    @property
    def job_id(self) -> str:
        """The id that was chosen for the job, or `job_…`"""
        return show_job_of(self._claim.job_id, self._claim.options)

    @property
    def task(self) -> str:
        """The task's name."""
        return self._claim.task

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._claim.attempt + 1

    @property
    def nominal_time(self) -> datetime:
        """The time this run was planned for, whenever it really started."""
        return self._claim.nominal_at

    @property
    def idempotency_key(self) -> str:
        """The same on every attempt, retry and redrive: pass it to services that support such keys."""
        return self._claim.idempotency_key.hex

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that middleware added when the job was submitted."""
        return decode_options(self._claim.options).headers or _NOTHING

    @property
    def connection(self) -> Any:
        """For a task with `transactional=True`: a connection to Rota's database, in the transaction that also records
        the run's success. From asyncpg for async functions, from psycopg for others."""
        if self._transaction is None:
            raise SetupError("Only a task with transactional=True has a connection.")
        return self._transaction.connection

    @property
    def deadline(self) -> datetime | None:
        """When the run will be stopped; None without a timeout."""
        return None if self._deadline is None else datetime.fromtimestamp(self._deadline, UTC)

    @property
    def logger(self) -> logging.Logger:
        """A logger that writes to the run's log, as any other logger does."""
        return _logger

    @property
    def cancelled(self) -> bool:
        """Whether this run was asked to stop. A synchronous function should check regularly.

        A task that has seen True and returns counts as stopped, not as successful.
        """
        self.noticed |= self._cancelled
        return self.noticed

    @property
    def last_checkpoint(self) -> Any:
        """The latest `checkpoint` of this run, from this attempt or an earlier one; None: there is none."""
        text = self._checkpoint if self._checkpoint is not None else self._claim.checkpoint
        return None if text is None else msgspec.json.decode(text)

    def progress(self, share: float, message: str | None = None) -> None:
        """Reports progress from 0 to 1; recorded with the next heartbeat."""
        self._progress = min(1.0, max(0.0, share))
        self._message = self.mask(clean_text(str(message)))[:_MESSAGE_LIMIT] if message else None
        self._changed = True

    def checkpoint(self, value: Any) -> None:
        """Stores a JSON value of up to 64 KiB for later attempts.

        It is recorded within a fraction of a second, and always before this attempt's end. A worker that is killed can
        lose the last one.
        """
        self._checkpoint = _check_checkpoint(clean_text(msgspec.json.encode(value).decode()))
        self._changed = True
        if self.host:
            self.host.changed(self)

    def write(self, stream: str, text: str) -> None:
        """For runners and the log handler: adds whole lines to the run's log."""
        if writer := self._opened():
            writer.write(stream, text)

    def feed(self, stream: str, data: bytes) -> None:
        """For runners: adds raw output to the run's log."""
        if writer := self._opened():
            writer.feed(stream, data)

    def mask(self, text: str) -> str:
        """For runners: masks secrets; must come before any cutting."""
        return self.host.mask(text) if self.host else text

    def begin(self) -> None:
        """For runners: the work begins now, and with it the timeout; raises NotBegunError if it must not begin."""
        if self._cancelled:
            raise NotBegunError
        if self.host:
            self._deadline = self.host.begin(self._claim)
        self.has_begun = True

    def ask_to_stop(self, within: float = math.inf, *, late: bool = False) -> None:
        """For the worker: sets `cancelled` and the seconds left to stop; `late`: the run timed out."""
        self.stop_within = within
        self._late = late
        self._cancelled = True

    def keep_said(self) -> None:
        """For the worker: what was taken could not be recorded, and must be later."""
        self._changed = True

    def take_said(self) -> Said | None:
        """For the worker: takes what is not recorded yet."""
        if not self._changed:
            return None
        self._changed = False
        return Said(self._progress, self._message, self._checkpoint)

    def take_in(self, said: Said) -> None:
        """For the worker: takes in what the task said in another process; raises ValueError if invalid."""
        if said.checkpoint is not None:
            self._checkpoint = _check_checkpoint(clean_text(said.checkpoint))
        if said.progress is not None and not 0 <= said.progress <= 1:
            raise ValueError("progress is a number from 0 to 1")
        self._progress = said.progress
        self._message = self.mask(clean_text(said.message))[:_MESSAGE_LIMIT] if said.message else None
        self._changed = True
        if said.checkpoint is not None and self.host:
            self.host.changed(self)

    def _opened(self) -> RunWriter | None:
        if self._writer is None and self.host:
            with _opening:  # two threads of a task can write its first lines at once
                if self._writer is None:
                    self._writer = self.host.open_log(self._claim)
        return self._writer

    @property
    def gateway(self) -> JobGateway | None:
        """For the SDK: the gateway for submissions."""
        return self.host.gateway(self._claim) if self.host else None

    @property
    def sync_gateway(self) -> SyncJobGateway | None:
        """For the SDK: the gateway for submissions without await."""
        return self.host.sync_gateway(self._claim) if self.host else None

    async def store_result(self, value: Any) -> tuple[str | None, str | None]:
        """For runners: stores a result, see `Host.store_result`."""
        return await self.host.store_result(self._claim, value) if self.host else (None, None)

    def attach_transaction(self, transaction: Transaction | None) -> None:
        """For runners: sets the transaction of a transactional task; None removes it."""
        self._transaction = transaction

    def abandon(self) -> None:
        """For the worker: the task did not stop and lost its slot; ends its transaction."""
        if self._transaction is not None:
            self._transaction.abandon()

    @property
    def must_not_succeed(self) -> bool:
        """For runners: it saw the request to stop, or timed out, so its result is not a success."""
        return self._cancelled and (self.noticed or self._late)

    @property
    def claim(self) -> Claim:
        """For runners: the claim behind it."""
        return self._claim

    def close_log(self) -> None:
        """For the worker: the attempt has ended."""
        if self._writer is not None:
            self._writer.close()


def current_context() -> Context | None:
    """The context of the current run; None outside of runs."""
    context = current.get()
    return context if isinstance(context, Context) else None
