"""The line before the slots: claims that wait for their moment, then, by rank, for a slot that comes free."""

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


class ClaimQueue:
    """Holds claims that have not started; calls `on_due` when there are more that could."""

    def __init__(self, clock: DatabaseClock, on_due: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._on_due = on_due
        self._wheel = Wheel(clock, self._due)
        self._ready: list[tuple[float, int, float, Claim]] = []

    def __len__(self) -> int:
        return len(self._ready) + len(self._wheel)

    @property
    def has_due(self) -> bool:
        """Whether one waits for nothing but a slot."""
        return bool(self._ready)

    def add(self, claims: list[Claim]) -> None:
        """Takes claims in."""
        self._wheel.add(claims)

    def next(self) -> Claim:
        """Takes out the one that goes first of those that are due; there must be one."""
        return heapq.heappop(self._ready)[3]

    def numbers(self) -> set[int]:
        """Of the claims it holds."""
        return {number for _, number, _, _ in self._ready} | self._wheel.keys()

    def remove(self, number: int) -> Claim | None:
        """Takes one out; None when it is not here."""
        if claim := self._wheel.remove(number):
            return claim
        for entry in self._ready:
            if entry[1] == number:
                self._ready.remove(entry)
                heapq.heapify(self._ready)
                return entry[3]
        return None

    def take_overdue(self, seconds: float) -> list[Claim]:
        """Takes out what has been due for so long and found no slot."""
        since = self._monotonic() - seconds
        overdue = [entry for entry in self._ready if entry[2] < since]
        if overdue:
            self._ready = [entry for entry in self._ready if entry[2] >= since]
            heapq.heapify(self._ready)
        return [claim for _, _, _, claim in overdue]

    def clear(self) -> list[Claim]:
        """Takes everything out."""
        claims = [*self._wheel.clear(), *(claim for _, _, _, claim in self._ready)]
        self._ready.clear()
        return claims

    def _due(self, claims: list[Claim]) -> None:
        now = self._monotonic()
        for claim in claims:
            heapq.heappush(self._ready, (claim.rank, claim.number, now, claim))
        self._on_due()


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
