"""What a running task may know and say."""

from __future__ import annotations

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

from rota.domain.ids import show_job, show_run
from rota.domain.job import decode_options
from rota.domain.run import Claim
from rota.domain.text import clean_text
from rota.errors import FanOutError, SetupError
from rota.gateway.protocol import JobGateway, SyncJobGateway
from rota.task.output import current

_MESSAGE_LIMIT = 500
_CHECKPOINT_LIMIT_BYTES = 64 * 1024
_LONGEST_SNOOZE_SECONDS = 366 * 86400.0
_NOTHING: Mapping[str, str] = MappingProxyType({})
_logger = logging.getLogger("rota.task")
_opening = threading.Lock()


class Final(Exception):  # noqa: N818 - reads as a word: raise rota.Final("no such customer")
    """Raised by a task: it failed, and another try would not help."""


FINAL = (Final, FanOutError)  # what is not tried again


class PlainError(Exception):
    """Raised by runners: its words say all; the name of its class would add nothing."""


class Snooze:
    """Returned by a task: run it again after so many seconds. No attempt is charged."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds <= _LONGEST_SNOOZE_SECONDS:
            raise ValueError(f"a snooze must be a number of seconds from 0 to a year, not {seconds!r}")
        self.seconds = float(seconds)


def _check_checkpoint(text: str) -> str:
    """The text of a checkpoint; raises ValueError when it is too long or no JSON: others read it as part of theirs."""
    size = len(text.encode())
    if size > _CHECKPOINT_LIMIT_BYTES:
        raise ValueError(f"a checkpoint of {size} bytes; at most {_CHECKPOINT_LIMIT_BYTES} are kept")
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"a checkpoint that is no JSON: {error}") from None
    return text


class Said(NamedTuple):
    """What a task said of itself since it was asked last; None: nothing new."""

    progress: float | None
    message: str | None
    checkpoint: str | None


class RunWriter(Protocol):
    """A run's log."""

    def write(self, stream: str, text: str) -> None:
        """Whole lines."""

    def feed(self, stream: str, data: bytes) -> None:
        """Output as it came."""

    def close(self) -> None:
        """Nothing comes any more."""


class Host(Protocol):
    """Who runs the task: what a context turns to. Nothing of it is asked for a task that says nothing."""

    def begin(self, claim: Claim) -> float | None:
        """The work begins now; when it must have ended."""

    def changed(self, context: Context) -> None:
        """There is something to be written soon."""

    def open_log(self, claim: Claim) -> RunWriter:
        """The first line is about to be written."""

    def mask(self, text: str) -> str:
        """The text without secrets."""

    async def store_result(self, claim: Claim, value: Any) -> tuple[str | None, str | None]:
        """A result as it is stored: in the run's row, or where in object storage it was put."""

    def gateway(self, claim: Claim) -> JobGateway | None:
        """Through which the task submits others; None: it has to find its own."""

    def sync_gateway(self, claim: Claim) -> SyncJobGateway | None:
        """The same for a task that can't await."""


class Transaction(Protocol):
    """A transaction of the database that a task works in."""

    connection: Any

    async def complete(self, began: float, result: str | None, blob: str | None) -> None:
        """Records the run's success in it; raises when the claim is not current any more."""

    @property
    def is_over(self) -> bool:
        """Whether the task has ended it by itself."""

    def abandon(self) -> None:
        """Ends it, whatever the task is doing in it."""


class Context:
    """Handed to tasks that have a parameter annotated with it."""

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
        "host",
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
        self.noticed = False
        self.quiet = False  # nothing is written about it while it runs unless it says something
        self.recorded = False  # its success is in the database already, with what it wrote
        self.secrets: Mapping[str, str] = _NOTHING
        self.host: Host | None = None

    @classmethod
    def outside(cls, task: str) -> Context:
        """One that belongs to no run: for a task that is called like a function."""
        none, now = UUID(int=0), time.time()
        return cls(Claim("", none, none, 0, task, 0, None, None, "{}", None, now, now, 0, 0))

    @property
    def run_id(self) -> str:
        """`run_…`"""
        return show_run(self._claim.run_id)

    @property
    def job_id(self) -> str:
        """`job_…`"""
        return show_job(self._claim.job_id)

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
        """The time this run stands for, whenever it really started."""
        return self._claim.nominal_at

    @property
    def idempotency_key(self) -> str:
        """The same on every attempt, retry and redrive: hand it to services that know such keys."""
        return self._claim.idempotency_key.hex

    @property
    def headers(self) -> Mapping[str, str]:
        """What middleware put along when the job was submitted."""
        return decode_options(self._claim.options).headers or _NOTHING

    @property
    def connection(self) -> Any:
        """For a task with `transactional=True`: a connection to Rota's database, in the transaction that also carries
        the run's completion. asyncpg's for async functions, psycopg's for the others."""
        if self._transaction is None:
            raise SetupError("Only a task with transactional=True has a connection.")
        return self._transaction.connection

    @property
    def deadline(self) -> datetime | None:
        """When it will be stopped; None without a timeout."""
        return None if self._deadline is None else datetime.fromtimestamp(self._deadline, UTC)

    @property
    def logger(self) -> logging.Logger:
        """A logger whose lines go to the run's log. Any other logger's do as well."""
        return _logger

    @property
    def cancelled(self) -> bool:
        """Whether this run was asked to stop. A synchronous function should look now and then.

        A task that has seen it and returns has stopped as it was asked to: what it returns is no success.
        """
        self.noticed |= self._cancelled
        return self.noticed

    @property
    def last_checkpoint(self) -> Any:
        """What this run left behind with `checkpoint` last, in this attempt or an earlier one; None: nothing."""
        text = self._checkpoint if self._checkpoint is not None else self._claim.checkpoint
        return None if text is None else msgspec.json.decode(text)

    def progress(self, share: float, message: str | None = None) -> None:
        """Says how far it is, from 0 to 1; written with the next heartbeat."""
        self._progress = min(1.0, max(0.0, share))
        self._message = self.mask(clean_text(str(message)))[:_MESSAGE_LIMIT] if message else None
        self._changed = True

    def checkpoint(self, value: Any) -> None:
        """Leaves a value (what JSON can hold, up to 64 KiB) for later attempts.

        It is written within a fraction of a second, and in any case before this attempt's end is told. A worker that
        is killed may lose the very last one.
        """
        self._checkpoint = _check_checkpoint(clean_text(msgspec.json.encode(value).decode()))
        self._changed = True
        if self.host:
            self.host.changed(self)

    def write(self, stream: str, text: str) -> None:
        """For runners and the log handler: whole lines for the run's log."""
        if writer := self._opened():
            writer.write(stream, text)

    def feed(self, stream: str, data: bytes) -> None:
        """For runners: output as it came."""
        if writer := self._opened():
            writer.feed(stream, data)

    def mask(self, text: str) -> str:
        """For runners: the text without secrets; before anything is cut off it."""
        return self.host.mask(text) if self.host else text

    def begin(self) -> None:
        """For runners: the work begins now; its time counts from here."""
        if self.host and self._claim.options != "{}":
            self._deadline = self.host.begin(self._claim)

    def ask_to_stop(self, within: float = math.inf, *, late: bool = False) -> None:
        """For the worker: sets `cancelled`, and how many seconds are left before the run must be gone; `late`: its own
        time is over."""
        self.stop_within = within
        self._late = late
        self._cancelled = True

    def keep_said(self) -> None:
        """For the worker: what was taken could not be written; it is still to be."""
        self._changed = True

    def take_said(self) -> Said | None:
        """For the worker: what was not written yet."""
        if not self._changed:
            return None
        self._changed = False
        return Said(self._progress, self._message, self._checkpoint)

    def take_in(self, said: Said) -> None:
        """For the worker: what the task said in another process. Raises ValueError for what no task can say."""
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
            with _opening:  # two threads of one task may write its first lines at once
                if self._writer is None:
                    self._writer = self.host.open_log(self._claim)
        return self._writer

    @property
    def gateway(self) -> JobGateway | None:
        """For the SDK: through which it submits."""
        return self.host.gateway(self._claim) if self.host else None

    @property
    def sync_gateway(self) -> SyncJobGateway | None:
        """For the SDK: through which it submits without awaiting."""
        return self.host.sync_gateway(self._claim) if self.host else None

    async def store_result(self, value: Any) -> tuple[str | None, str | None]:
        """For runners: a result as it is stored."""
        return await self.host.store_result(self._claim, value) if self.host else (None, None)

    def attach_transaction(self, transaction: Transaction | None) -> None:
        """For runners: the transaction of a transactional task; None takes it back."""
        self._transaction = transaction

    def abandon(self) -> None:
        """For the worker: the task did not stop, and its slot is given to others; its transaction must not go on."""
        if self._transaction is not None:
            self._transaction.abandon()

    @property
    def must_not_succeed(self) -> bool:
        """For runners: it was asked to stop and has seen it, or its time is over: whatever it returns is no success."""
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
    """That of the run in which this is called; None outside of runs."""
    context = current.get()
    return context if isinstance(context, Context) else None
