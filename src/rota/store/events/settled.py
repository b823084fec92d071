"""Events in the order of their numbers, none left out.

An event gets its number when it is written but becomes visible when its transaction commits, so a higher number may
appear first. A reader that went on to it would miss the lower one. So readers wait at a gap until the missing
events appear, or until every transaction that was open when the gap was seen has ended: then the missing events were
rolled back, and their numbers stay unused.

A number is taken a moment before its transaction counts as open; GAP_SECONDS covers that moment. Another program's
transaction that is open for hours must not stop everything, so readers wait at a gap for LONGEST_GAP_SECONDS at most;
Rota's own transactions never last that long.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from rota.store.events import EventPage, Events

GAP_SECONDS = 1.0
LONGEST_GAP_SECONDS = 60.0
EVENTS_PER_PAGE = 500
# Older events are settled for a reader that begins now.
_SETTLED_AGE = timedelta(seconds=LONGEST_GAP_SECONDS)


class _Gap(NamedTuple):
    """Numbers missing below one that was seen: since when, and which transactions may still bring them."""

    since: float
    transactions: int

    def is_over(self, now: float, oldest: int) -> bool:
        """Whether the missing events can't come any more."""
        age = now - self.since
        return age > LONGEST_GAP_SECONDS or (age > GAP_SECONDS and oldest >= self.transactions)


class SettledEvents:
    """Reads on from event to event; `position` is the number up to which none can come any more."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.position = 0
        self._gaps: dict[int, _Gap] = {}

    @property
    def waits(self) -> bool:
        """Whether there are events behind a gap."""
        return bool(self._gaps)

    async def begin(self) -> None:
        """Goes to the last event that is settled by now."""
        self._gaps = {}
        self.position = await self._events.latest_before(_SETTLED_AGE)
        await self.skip()

    async def skip(self) -> None:
        """Reads over all that is settled by now."""
        while len(await self.next()) == EVENTS_PER_PAGE:
            pass

    async def next(self) -> Sequence[Any]:
        """The next events that are settled by now, of all namespaces."""
        page = await self._events.after(self.position, EVENTS_PER_PAGE)
        rows = self._until_a_gap(page)
        if rows:
            self.position = rows[-1]["id"]
            self._gaps = {number: gap for number, gap in self._gaps.items() if number > self.position}
        return rows

    def _until_a_gap(self, page: EventPage) -> list[Any]:
        now, before, is_settled = time.monotonic(), self.position, True
        rows: list[Any] = []
        for row in page.rows:
            if row["id"] > before + 1:
                gap = self._gaps.setdefault(row["id"], _Gap(now, page.next))
                is_settled = is_settled and gap.is_over(now, page.oldest)
            if is_settled:
                rows.append(row)
            before = row["id"]
        return rows
