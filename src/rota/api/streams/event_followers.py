"""Following events in the order of their numbers, none left out.

An event gets its number when it is written and is seen when its transaction commits, so a higher number may be seen
first. A follower that had gone on to it would never see the lower one, and could not come back for it with a single
number either. So a gap is waited at: what lies behind it is told once the missing events came, or can't come any more
because every transaction that was under way when the gap was seen has ended. Then they were rolled back, and the
numbers stay unused.

A number is taken a moment before its transaction counts as under way; GAP_SECONDS covers that moment. A foreign
transaction that is open for hours must not stop everything: a gap is waited at for LONGEST_GAP_SECONDS at most. No
transaction of ours lives that long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from rota.api.streams.followers import Followers
from rota.store.events import EventPage, Events

_EVENTS_PER_POLL = 500
MOST_WAITING = 1000
GAP_SECONDS = 1.0
LONGEST_GAP_SECONDS = 60.0
# What was written before this is settled for a follower that begins now.
_SETTLED_AGE = timedelta(seconds=LONGEST_GAP_SECONDS)


class _Gap(NamedTuple):
    """Numbers that are missing below one that was seen: since when, and which transactions may still bring them."""

    since: float
    transactions: int

    def is_over(self, now: float, oldest: int) -> bool:
        """Whether what is missing can't come any more."""
        age = now - self.since
        return age > LONGEST_GAP_SECONDS or (age > GAP_SECONDS and oldest >= self.transactions)


class EventFollower:
    """One who follows: rows come in a queue, and None when the stream must end."""

    def __init__(self, namespace: str, only: str | None, holder: str) -> None:
        self.namespace = namespace
        self.holder = holder
        self.only = only
        self.begin: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.coming: asyncio.Queue[Any | None] = asyncio.Queue()

    @property
    def keeps_up(self) -> bool:
        """A client that does not read is let go, and comes back for the rest: what waits in memory is bounded."""
        return self.coming.qsize() < MOST_WAITING


class EventFollowers(Followers[EventFollower]):
    """Polls for what happens."""

    full_round = _EVENTS_PER_POLL
    what = "events"

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._events = events
        self._settled = 0
        self._begun = False
        self._gaps: dict[int, _Gap] = {}

    @asynccontextmanager
    async def follow(self, namespace: str, only: str | None = None, holder: str = "") -> AsyncIterator[EventFollower]:
        """Follows from now on (what is about this owner's jobs): its `begin` is the number behind which everything
        comes."""
        follower = EventFollower(namespace, only, holder)
        if self._begun:
            follower.begin.set_result(self._settled)
        with self._registered(follower):
            yield follower

    def release(self) -> None:
        """Ends all streams: the server is about to stop."""
        for follower in self._followers:
            follower.coming.put_nowait(None)

    async def tick(self) -> int:
        """One poll; begins anew after a time without followers."""
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
        """Finds the place from which on everything is to be told: behind all that is settled by now."""
        self._gaps = {}
        self._settled = await self._events.latest_before(_SETTLED_AGE)
        while len(await self._next()) == _EVENTS_PER_POLL:
            pass
        self._begun = True
        for follower in self._followers:
            if not follower.begin.done():  # one that hung up meanwhile may still be among them
                follower.begin.set_result(self._settled)

    async def _next(self) -> Sequence[Any]:
        """Events that are settled now."""
        before = self._settled
        page = await self._events.after(before, _EVENTS_PER_POLL)
        self._note_gaps(before, page)
        rows = self._until_a_gap(before, page)
        if rows:
            self._settled = rows[-1]["id"]
            self._gaps = {number: gap for number, gap in self._gaps.items() if number > rows[-1]["id"]}
        return rows

    def _note_gaps(self, before: int, page: EventPage) -> None:
        now = time.monotonic()
        for row in page.rows:
            if row["id"] > before + 1:
                self._gaps.setdefault(row["id"], _Gap(now, page.next))
            before = row["id"]

    def _until_a_gap(self, before: int, page: EventPage) -> list[Any]:
        now = time.monotonic()
        settled: list[Any] = []
        for row in page.rows:
            if row["id"] > before + 1 and not self._gaps[row["id"]].is_over(now, page.oldest):
                break
            settled.append(row)
            before = row["id"]
        return settled

    def _tell(self, follower: EventFollower, rows: Sequence[Any]) -> None:
        for row in rows:
            if not follower.keeps_up:
                follower.coming.put_nowait(None)
                self._followers.discard(follower)
                return
            if row["namespace"] == follower.namespace and follower.only in (None, row["owner"]):
                follower.coming.put_nowait(row)
