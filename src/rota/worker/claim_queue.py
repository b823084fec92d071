"""Claims that have not started: each waits until it is due, then by rank for a free slot.

With `in_turns`, claims that became due earlier go first, and rank decides only among those that became due together. If
several namespaces share a worker, a steady stream of one with a higher priority must not overtake the others for ever.
The broker has already divided the claims among them, and the queue keeps that.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from rota.clock import DatabaseClock
from rota.domain.run import Claim

# The database's clock can be set forward while we sleep, so never sleep longer than this.
_LONGEST_SLEEP_SECONDS = 0.5


class ClaimQueue:
    """Holds claims that have not started; calls `on_due` when some can start."""

    def __init__(
        self,
        clock: DatabaseClock,
        on_due: Callable[[], None],
        monotonic: Callable[[], float],
        *,
        in_turns: bool = False,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._on_due = on_due
        self._early: dict[int, Claim] = {}
        self._by_moment: list[tuple[float, int, Claim]] = []  # a heap; removed claims stay until they are due
        # A heap by turn (0 if there are none) and rank; the fourth item is when it became due.
        self._due: list[tuple[float, float, int, float, Claim]] = []
        self._in_turns = in_turns
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due) + len(self._early)

    @property
    def has_due(self) -> bool:
        """Whether a claim waits only for a slot."""
        return bool(self._due)

    def add(self, claims: list[Claim]) -> None:
        """Adds claims; none becomes due early."""
        now, since = self._clock.now(), self._monotonic()
        for claim in claims:
            if claim.ready > now:
                heapq.heappush(self._by_moment, (claim.ready, claim.number, claim))
                self._early[claim.number] = claim
            else:
                self._push_due(claim, since)
        self._turn()

    def next(self) -> Claim:
        """Removes and returns the first due claim; there must be one."""
        return heapq.heappop(self._due)[4]

    def numbers(self) -> set[int]:
        return {entry[2] for entry in self._due} | self._early.keys()

    def remove(self, number: int) -> Claim | None:
        """Removes and returns a claim; None if it is not here."""
        if claim := self._early.pop(number, None):
            return claim
        for entry in self._due:
            if entry[2] == number:
                self._due.remove(entry)
                heapq.heapify(self._due)
                return entry[4]
        return None

    def take_overdue(self, seconds: float) -> list[Claim]:
        """Removes and returns claims that have been due for longer than this."""
        since = self._monotonic() - seconds
        overdue = [entry[4] for entry in self._due if entry[3] < since]
        if overdue:
            self._due = [entry for entry in self._due if entry[3] >= since]
            heapq.heapify(self._due)
        return overdue

    def clear(self) -> list[Claim]:
        """Removes and returns all claims."""
        claims = [*self._early.values(), *(entry[4] for entry in self._due)]
        self._early.clear()
        self._by_moment.clear()
        self._due.clear()
        self._disarm()
        return claims

    def _push_due(self, claim: Claim, since: float) -> None:
        heapq.heappush(self._due, (since if self._in_turns else 0.0, claim.rank, claim.number, since, claim))

    def _turn(self) -> None:
        """Moves claims that are now due, and sets a timer for the next."""
        self._disarm()
        now, since = self._clock.now(), self._monotonic()
        while self._by_moment and self._by_moment[0][0] <= now:
            _, number, claim = heapq.heappop(self._by_moment)
            if self._early.pop(number, None):
                self._push_due(claim, since)
        if self._by_moment:
            delay = min(self._by_moment[0][0] - now, _LONGEST_SLEEP_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(delay, self._turn)
        if self._due:
            self._on_due()

    def _disarm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
