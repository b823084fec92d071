"""The base of services that work on the shards their scheduler owns.

Awake, a service makes a round every `interval_seconds`. The outlook (outlook.py) lets it sleep until its next piece of
work is due. A hint that there may be something sooner ends the sleep.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import abstractmethod
from collections.abc import Mapping

from rota.scheduler.lease_keeper import LeaseKeeper
from rota.service import Service

# For so long after a hint a service stays awake, whatever the outlook says: one hint is enough for what is written
# within half of this (store/postgres/wakeups.py).
AWAKE_SECONDS = 1.0


class ShardService(Service):
    """Runs `serve` over the shards that its scheduler owns, if there are any."""

    interval_seconds: float = 1.0

    def __init__(self, *, leases: LeaseKeeper) -> None:
        super().__init__()
        self._leases = leases
        self._alarm: asyncio.TimerHandle | None = None  # the end of its sleep
        self._roused_at = -math.inf

    @property
    def is_asleep(self) -> bool:
        """Whether it makes no rounds, because nothing is due."""
        return self._alarm is not None

    @property
    def pause_seconds(self) -> float:
        """The usual interval; asleep, until woken."""
        return math.inf if self._alarm else self.interval_seconds

    def wake(self) -> None:
        self._roused_at = time.monotonic()
        self._end_sleep()

    def rouse(self) -> None:
        """Makes the next round start now if it sleeps; awake, it comes to it by itself."""
        self._roused_at = time.monotonic()
        if self._alarm:
            self._end_sleep()

    def sleep(self, until: float, *, known_at: float) -> None:
        """Sleeps until then, on the monotonic clock, unless a hint came since it was known that nothing is due."""
        if known_at < self._roused_at + AWAKE_SECONDS:
            return
        seconds = until - time.monotonic()
        if seconds <= 0:
            if self._alarm:
                self._end_sleep()
            return
        if self._alarm:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._end_sleep)

    async def tick(self) -> int:
        owned = {} if self._alarm else self._leases.owned
        return await self.serve(owned) if owned else 0

    async def close(self) -> None:
        if self._alarm:
            self._alarm.cancel()

    @abstractmethod
    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round over these shards (with their epochs); returns how many things it did."""

    def _end_sleep(self) -> None:
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None
        super().wake()
