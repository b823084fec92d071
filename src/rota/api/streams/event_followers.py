"""Following events: one look for everybody who follows, in the order of the events' numbers, none left out.

An event gets its number when it is written and is seen when its transaction commits, so a higher number may be seen
first. Who had gone on to it would never see the lower one, and could not come back for it with a single number either.
So a gap is waited at: what lies behind it is told once the missing events came, or can't come any more because every
transaction that was under way when the gap was seen has ended. Then they were rolled back, and the numbers stay unused.

A number is taken a moment before its transaction counts as under way; GAP_SECONDS covers that moment. A transaction of
somebody else that is open for hours must not stop everything: after LONGEST_GAP_SECONDS nobody waits any longer. No
transaction of ours lives that long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from rota.api.streams.followers import check_follower_slots
from rota.errors import DatabaseUnavailableError
from rota.store.events import EventPage, Events
from rota.telemetry import get_logger

LOOK_SECONDS = 0.2
EVENTS_PER_LOOK = 500
MOST_WAITING = 1000
GAP_SECONDS = 1.0
LONGEST_GAP_SECONDS = 60.0
# What was written before this is settled, whoever begins to look now.
SETTLED_AGE = timedelta(seconds=LONGEST_GAP_SECONDS)
_log = get_logger("watching")


class Gap(NamedTuple):
    """Numbers that are missing below one that was seen: since when, and which transactions may still bring them."""

    since: float
    transactions: int

    def is_over(self, now: float, oldest: int) -> bool:
        """Whether what is missing can't come any more."""
        age = now - self.since
        return age > LONGEST_GAP_SECONDS or (age > GAP_SECONDS and oldest >= self.transactions)


class EventFollower:
    """Somebody who follows: rows come in a queue, and None when the stream must end."""

    def __init__(self, namespace: str, only: str | None, holder: str) -> None:
        self.namespace = namespace
        self.holder = holder
        self.only = only
        self.begin: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.coming: asyncio.Queue[Any | None] = asyncio.Queue()

    @property
    def keeps_up(self) -> bool:
        """Who does not read is let go, and comes back for the rest: what waits in memory is bounded."""
        return self.coming.qsize() < MOST_WAITING


class EventFollowers:
    """Looks for what happens."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._followers: set[EventFollower] = set()
        self._some = asyncio.Event()
        self._settled = 0
        self._begun = False
        self._gaps: dict[int, Gap] = {}

    def check_room(self, namespace: str, holder: str) -> None:
        """Raises OverloadedError when too many follow already, or too many of one namespace or holder."""
        check_follower_slots(self._followers, namespace, holder, "events")

    @asynccontextmanager
    async def follow(self, namespace: str, only: str | None = None, holder: str = "") -> AsyncIterator[EventFollower]:
        """Follows from now on (what is about this owner's jobs): its `begin` is the number behind which everything
        comes."""
        follower = EventFollower(namespace, only, holder)
        if self._begun:
            follower.begin.set_result(self._settled)
        self._followers.add(follower)
        self._some.set()
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    def close(self) -> None:
        """Ends all streams: the server stops."""
        for follower in self._followers:
            follower.coming.put_nowait(None)

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            if not self._followers:
                self._begun = False
                self._some.clear()
                await self._some.wait()
            try:
                full = await self.tick()
            except DatabaseUnavailableError as error:
                _log.info("could not look for events", error=str(error))
                full = False
            if not full:
                await asyncio.sleep(LOOK_SECONDS)

    async def tick(self) -> bool:
        """One look; whether there may be more at once."""
        if not self._begun:
            await self._begin()
        rows = await self._next()
        for follower in list(self._followers):
            self._tell(follower, rows)
        return len(rows) == EVENTS_PER_LOOK

    async def _begin(self) -> None:
        """Finds the place from which on everything is to be told: behind all that is settled by now."""
        self._gaps = {}
        self._settled = await self._events.latest_before(SETTLED_AGE)
        while len(await self._next()) == EVENTS_PER_LOOK:
            pass
        self._begun = True
        for follower in self._followers:
            if not follower.begin.done():  # one that hung up meanwhile may still be among them
                follower.begin.set_result(self._settled)

    async def _next(self) -> Sequence[Any]:
        """Events that are settled now."""
        before = self._settled
        page = await self._events.after(before, EVENTS_PER_LOOK)
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
                self._gaps.setdefault(row["id"], Gap(now, page.next))
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
