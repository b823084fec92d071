"""What a running task may know and say."""

from __future__ import annotations

import math
from datetime import datetime

from rota.domain.ids import show_job, show_run
from rota.domain.run import Claim
from rota.domain.text import clean_text

MESSAGE_LIMIT = 500


class Final(Exception):  # noqa: N818 - reads as a word: raise rota.Final("no such customer")
    """Raised by a task: it failed, and another try would not help."""


class Context:
    """Handed to tasks that have a parameter annotated with it."""

    __slots__ = ("_cancelled", "_changed", "_claim", "_message", "_progress", "noticed", "stop_within")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._cancelled = False
        self.stop_within = math.inf
        self.noticed = False
        self._progress: float | None = None
        self._message: str | None = None
        self._changed = False

    @property
    def run_id(self) -> str:
        """`run_…`"""
        return show_run(self._claim.run_id)

    @property
    def job_id(self) -> str:
        """`job_…`"""
        return show_job(self._claim.job_id)

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
    def cancelled(self) -> bool:
        """Whether this run was asked to stop. A synchronous function should look now and then.

        A task that has seen it and returns has stopped as it was asked to: what it returns is no success.
        """
        self.noticed |= self._cancelled
        return self.noticed

    def progress(self, share: float, message: str | None = None) -> None:
        """Says how far it is, from 0 to 1; written with the next heartbeat."""
        self._progress = min(1.0, max(0.0, share))
        self._message = clean_text(str(message))[:MESSAGE_LIMIT] if message else None
        self._changed = True

    def ask_to_stop(self, within: float = math.inf) -> None:
        """For the worker: sets `cancelled`, and how many seconds are left before the run must be gone."""
        self.stop_within = within
        self._cancelled = True

    def keep_progress(self) -> None:
        """For the worker: what was taken could not be written; it is still to be."""
        self._changed = True

    def take_progress(self) -> tuple[float | None, str | None] | None:
        """For the worker: progress that was not written yet."""
        if not self._changed:
            return None
        self._changed = False
        return self._progress, self._message
