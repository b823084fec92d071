"""The timing wheel: claims held in memory until their moment, so that the database is off the critical path.

Moments are on the database's clock. One timer is armed for the earliest; when it rings nothing leaves before its
moment has really come on that clock, so nothing starts early even where timers are coarse.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from operator import attrgetter

from rota.clock import DatabaseClock
from rota.domain.run import Claim

# The database's clock may be set forward while we sleep: never sleep longer than this.
LONGEST_SLEEP_SECONDS = 0.5
_moment = attrgetter("ready")


class Wheel:
    """Holds claims; calls `on_due` for each at its moment."""

    def __init__(self, clock: DatabaseClock, on_due: Callable[[list[Claim]], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._heap: list[tuple[float, int, Claim]] = []
        self._held: dict[int, Claim] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    def keys(self) -> set[int]:
        """The numbers of what it holds."""
        return set(self._held)

    def add(self, claims: list[Claim]) -> None:
        """Takes claims in; those already due leave at once, in the order of time."""
        now = self._clock.now()
        for claim in claims:
            if claim.ready > now:
                heapq.heappush(self._heap, (claim.ready, claim.number, claim))
                self._held[claim.number] = claim
        self._turn(sorted((claim for claim in claims if claim.ready <= now), key=_moment))

    def remove(self, number: int) -> Claim | None:
        """Takes one out before its moment; None when it is not here."""
        return self._held.pop(number, None)

    def clear(self) -> list[Claim]:
        """Takes everything out."""
        claims = list(self._held.values())
        self._held.clear()
        self._heap.clear()
        self._disarm()
        return claims

    def _turn(self, due: list[Claim] | None = None) -> None:
        self._disarm()
        due = due or []
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            _, number, claim = heapq.heappop(self._heap)
            if self._held.pop(number, None):
                due.append(claim)
        if self._heap:
            delay = min(self._heap[0][0] - now, LONGEST_SLEEP_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(delay, self._turn)
        if due:
            self._on_due(due)

    def _disarm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
