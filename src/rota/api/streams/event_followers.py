"""Following events in the order of their numbers, none left out.

An event gets its number when it is written but becomes visible when its transaction commits, so a higher number may
appear first. A follower that went on to it would miss the lower one. So followers wait at a gap until the missing
events appear, or until every transaction that was open when the gap was seen has ended: then the missing events were
rolled back, and their numbers stay unused.

A number is taken a moment before its transaction counts as open; GAP_SECONDS covers that moment. Another program's
transaction that is open for hours must not stop everything, so followers wait at a gap for LONGEST_GAP_SECONDS at most;
Rota's own transactions never last that long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from rota.api.http.shares import Shares
from rota.api.streams.followers import MOST_FOLLOWERS, Followers
from rota.store.events import EventPage, Events

_EVENTS_PER_POLL = 500
MOST_WAITING = 1000
GAP_SECONDS = 1.0
LONGEST_GAP_SECONDS = 60.0
# Older events are settled for a follower that begins now.
_SETTLED_AGE = timedelta(seconds=LONGEST_GAP_SECONDS)


class _Gap(NamedTuple):
    """Numbers missing below one that was seen: since when, and which transactions may still bring them."""

    since: float
    transactions: int

    def is_over(self, now: float, oldest: int) -> bool:
        """Whether the missing events can't come any more."""
        age = now - self.since
        return age > LONGEST_GAP_SECONDS or (age > GAP_SECONDS and oldest >= self.transactions)


class EventFollower:
    """A client that follows events: a queue of rows, and None when the stream must end."""

    def __init__(self, namespace: str, only: str | None, holder: str) -> None:
        self.namespace = namespace
        self.holder = holder
        self.only = only
        self.begin: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.coming: asyncio.Queue[Any | None] = asyncio.Queue()

    @property
    def keeps_up(self) -> bool:
        """False for a client that does not read: it is cut off, to bound the memory, and reconnects for the rest."""
        return self.coming.qsize() < MOST_WAITING


class EventFollowers(Followers[EventFollower]):
    """Polls for events."""

    full_round = _EVENTS_PER_POLL

    def __init__(self, events: Events) -> None:
        super().__init__(Shares(MOST_FOLLOWERS, what="follow events"))
        self._events = events
        self._settled = 0
        self._begun = False
        self._gaps: dict[int, _Gap] = {}

    @asynccontextmanager
    async def follow(self, namespace: str, only: str | None = None, holder: str = "") -> AsyncIterator[EventFollower]:
        """Follows from now on; `begin` is the number after which every event is delivered."""
        follower = EventFollower(namespace, only, holder)
        if self._begun:
            follower.begin.set_result(self._settled)
        with self._registered(follower):
            yield follower

    async def tick(self) -> int:
        """One poll; starts over after a time without followers."""
        if not self._followers:
            self._begun = False
        return await super().tick()

    async def _poll(self) -> int:
        if not self._begun:
            await self._begin()
        rows = await self._next()
        for follower in list(self._followers):
            self._tell(follower, rows)
        return len(rows)

    async def _begin(self) -> None:
        """Finds the number after which every event is delivered: the last settled one."""
        self._gaps = {}
        self._settled = await self._events.latest_before(_SETTLED_AGE)
        while len(await self._next()) == _EVENTS_PER_POLL:
            pass
        self._begun = True
        for follower in self._followers:
            if not follower.begin.done():  # done when its client hung up
                follower.begin.set_result(self._settled)

    async def _next(self) -> Sequence[Any]:
        """Events that are settled by now."""
        page = await self._events.after(self._settled, _EVENTS_PER_POLL)
        rows = self._until_a_gap(page)
        if rows:
            self._settled = rows[-1]["id"]
            self._gaps = {number: gap for number, gap in self._gaps.items() if number > self._settled}
        return rows

    def _until_a_gap(self, page: EventPage) -> list[Any]:
        now, before, is_settled = time.monotonic(), self._settled, True
        rows: list[Any] = []
        for row in page.rows:
            if row["id"] > before + 1:
                gap = self._gaps.setdefault(row["id"], _Gap(now, page.next))
                is_settled = is_settled and gap.is_over(now, page.oldest)
            if is_settled:
                rows.append(row)
            before = row["id"]
        return rows

    def _tell(self, follower: EventFollower, rows: Sequence[Any]) -> None:
        for row in rows:
            if not follower.keeps_up:
                follower.coming.put_nowait(None)
                self._followers.discard(follower)
                return
            if row["namespace"] == follower.namespace and follower.only in (None, row["owner"]):
                follower.coming.put_nowait(row)
