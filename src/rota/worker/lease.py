"""A worker's lease: how long its claims are certainly its own.

The lease is measured by the machine's uptime, including the time it was suspended (`rota.clock.uptime`). It counts from
the moment a beat is sent, so for the worker the lease always ends earlier than for the reaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from uuid import UUID

CUT_OFF = 0.6  # of the lease without an answered beat: stop everything, begin nothing
EXIT = 0.9  # of the lease: leave the process if something still runs


class Lease:
    """The worker's id, and how long its beats have gone unanswered."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self.seconds = seconds
        self.worker_id: UUID | None = None  # None: not joined, or declared lost
        self.cut_off = False
        self.monotonic = monotonic
        self._beaten_at: float | None = None
        self._begin_until = -math.inf

    @property
    def beaten_at(self) -> float | None:
        """When the last answered beat was sent."""
        return self._beaten_at

    @beaten_at.setter
    def beaten_at(self, sent: float) -> None:
        self._beaten_at = sent
        self._begin_until = sent + CUT_OFF * self.seconds

    @property
    def silence(self) -> float:
        """Time since the last answered beat, as a share of the lease; 0 before the first join."""
        return 0.0 if self._beaten_at is None else (self.monotonic() - self._beaten_at) / self.seconds

    @property
    def is_kept(self) -> bool:
        """Whether the worker may claim."""
        return self.worker_id is not None and not self.cut_off

    def may_begin(self) -> bool:
        """Whether a run may begin now. Asked right before each start, from any thread, so it compares two numbers."""
        return self.monotonic() < self._begin_until
