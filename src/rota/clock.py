"""The database's time, without asking for it; and deadlines by this machine's clock.

The database's clock decides what is due. A process learns the offset between that clock and its own monotonic one from
answers that carry `clock_timestamp()`. The database read its clock between our sending and our receiving, so the true
offset lies within that interval. We keep its lower end: our estimate is never ahead, and nothing starts early.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

# After this long even a slower answer replaces the measurement, to follow drift.
KEEP_SECONDS = 5.0
# Clocks that are being set right by NTP drift apart a little between two measurements.
_LEAST_JUMP_SECONDS = 1.0

# This machine's clock that never goes back and also counts the time that the machine is suspended: a lease that ends
# meanwhile must be over when it wakes up. On other systems than Linux we use the monotonic clock.
uptime: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic
)


class DatabaseClock:
    """Database time as seconds since the epoch, derived from the local monotonic clock."""

    def __init__(self, monotonic: Callable[[], float] = uptime) -> None:
        self._monotonic = monotonic
        # The interval in which the offset was at the last measurement that was kept.
        self._offset = self._highest = time.time() - monotonic()
        self._measured_at = float("-inf")

    @property
    def is_set(self) -> bool:
        """Whether the database's time is known; before, this machine's clock is used."""
        return self._measured_at > float("-inf")

    def observe(self, *, sent: float, received: float, database_time: datetime) -> float:
        """Takes one measurement (both ends on the monotonic clock); returns how far the database's clock jumped.

        A slow answer makes a wide interval. Only intervals that don't meet prove a jump.
        """
        lowest = database_time.timestamp() - received
        highest = database_time.timestamp() - sent
        jump = 0.0
        if self.is_set:
            jump = max(0.0, lowest - self._highest) or min(0.0, highest - self._offset)
        stale = received - self._measured_at > KEEP_SECONDS
        # A higher lower end is closer to the truth; an offset above the upper end would be ahead of the database.
        if stale or lowest > self._offset or highest < self._offset:
            self._offset, self._highest, self._measured_at = lowest, highest, received
        return jump if abs(jump) > _LEAST_JUMP_SECONDS else 0.0

    def now(self) -> float:
        """Seconds since the epoch on the database's clock, never ahead of it."""
        return self._monotonic() + self._offset

    def now_datetime(self) -> datetime:
        """`now()` as an aware datetime."""
        return datetime.fromtimestamp(self.now(), UTC)


class WallClock:
    """How far this machine's wall clock is ahead of the database's, as far as it is beyond doubt."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._began = 0.0
        self.skew: float | None = None  # seconds; None: not measured yet

    def ask(self) -> None:
        """The database is about to be asked for its time."""
        self._began = self._wall()

    def answered(self, database_time: datetime) -> None:
        """Its time came: it was read between the question and now, so a time in between proves no difference."""
        moment, ended = database_time.timestamp(), self._wall()
        self.skew = max(0.0, self._began - moment) or min(0.0, ended - moment)


class Deadline:
    """A moment on this machine's clock, in seconds from now; None: never."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._moment = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return self._moment is not None and time.monotonic() >= self._moment

    def within(self, seconds: float) -> float:
        """`seconds`, or less if the deadline comes first."""
        return seconds if self._moment is None else max(0.0, min(seconds, self._moment - time.monotonic()))
