"""Turns at a resource that tenants share: the connections of a pool, the time of an event loop.

Each tenant has a queue, and the queues take turns: a thousand requests of one tenant delay another tenant by one turn,
not by a thousand. With one tenant it is a plain queue. The context of the asyncio task says for which tenant it asks
(`act_for`); the server's own services count as one tenant.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar

from rota.time_limits import time_limit

OURSELVES = ""  # a process's own services
_tenant: ContextVar[str] = ContextVar("tenant", default=OURSELVES)


def act_for(tenant: str) -> None:
    """From now on, this asyncio task asks on behalf of this tenant."""
    _tenant.set(tenant)


class FairTurns:
    """At most `most` turns at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = most
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}  # the next turn is for the first line

    @property
    def taken(self) -> int:
        """How many turns have not ended."""
        return self._most - self._free

    @property
    def waiting(self) -> int:
        """How many wait for a turn. Can be called from any thread."""
        return sum(len(line) for line in list(self._lines.values()))

    async def take(self, seconds: float) -> None:
        """Waits for a turn, which must be given back; raises TimeoutError."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(_tenant.get(), deque()).append(turn)
        try:
            async with time_limit(seconds):
                await turn
        except (asyncio.CancelledError, TimeoutError):
            if turn.done() and not turn.cancelled():
                self.give_back()  # it came just as the wait was given up
            raise

    def give_back(self) -> None:
        """Ends a turn: the next is for the first in the next line who still waits."""
        while self._lines:
            tenant, line = next(iter(self._lines.items()))
            turn = line.popleft()
            del self._lines[tenant]
            if line:
                self._lines[tenant] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
