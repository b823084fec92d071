"""The base of services that work on the shards their scheduler owns.

Awake, a service makes a round every `interval_seconds`. The outlook (outlook.py) lets it sleep until its next piece of
work is due. A hint that there may be something sooner ends the sleep.
"""

from __future__ import annotations

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
        self._asleep_until = -math.inf
        self._roused_at = -math.inf

    @property
    def pause_seconds(self) -> float:
        """The usual interval, or until the end of its sleep, whatever the jitter."""
        return max(self.interval_seconds, (self._asleep_until - time.monotonic()) / (1 + self.jitter))

    def wake(self) -> None:
        self._stay_awake()
        super().wake()

    def rouse(self) -> None:
        """Makes the next round start now if it sleeps; awake, it comes to it by itself."""
        is_asleep = self._asleep_until > time.monotonic()
        self._stay_awake()
        if is_asleep:
            super().wake()

    def sleep(self, until: float, *, known_at: float) -> None:
        """Sleeps until then, on the monotonic clock, unless a hint came after it was known that nothing is due."""
        if self._roused_at + AWAKE_SECONDS < known_at:
            self._asleep_until = until

    async def tick(self) -> int:
        owned = self._leases.owned
        return await self.serve(owned) if owned else 0

    @abstractmethod
    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round over these shards (with their epochs); returns how many things it did."""

    def _stay_awake(self) -> None:
        self._asleep_until, self._roused_at = -math.inf, time.monotonic()
