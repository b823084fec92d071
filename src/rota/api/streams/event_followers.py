"""Following events in the order of their numbers, none left out (store/events/settled.py); one reader for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rota.api.http.shares import Shares
from rota.api.streams.followers import MOST_FOLLOWERS, Followers
from rota.domain.events import EventFilter
from rota.store.events import Events
from rota.store.events.settled import EVENTS_PER_PAGE, SettledEvents

MOST_WAITING = 1000


class EventFollower:
    """A client that follows events: a queue of rows, and None when the stream must end."""

    def __init__(self, wanted: EventFilter, holder: str) -> None:
        self.wanted = wanted
        self.namespace = wanted.namespace
        self.holder = holder
        self.begin: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.coming: asyncio.Queue[Any | None] = asyncio.Queue()

    @property
    def keeps_up(self) -> bool:
        """False for a client that does not read: it is cut off, to bound the memory, and reconnects for the rest."""
        return self.coming.qsize() < MOST_WAITING


class EventFollowers(Followers[EventFollower]):
    """Polls for events."""

    full_round = EVENTS_PER_PAGE

    def __init__(self, events: Events) -> None:
        super().__init__(Shares(MOST_FOLLOWERS, what="follow events"))
        self._settled = SettledEvents(events)
        self._begun = False

    @asynccontextmanager
    async def follow(self, wanted: EventFilter, holder: str = "") -> AsyncIterator[EventFollower]:
        """Follows from now on; `begin` is the number after which every event is delivered."""
        follower = EventFollower(wanted, holder)
        if self._begun:
            follower.begin.set_result(self._settled.position)
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
        rows = await self._settled.next()
        for follower in list(self._followers):
            self._tell(follower, rows)
        return len(rows)

    async def _begin(self) -> None:
        """Finds the number after which every event is delivered: the last settled one."""
        await self._settled.begin()
        self._begun = True
        for follower in self._followers:
            if not follower.begin.done():  # done when its client hung up
                follower.begin.set_result(self._settled.position)

    def _tell(self, follower: EventFollower, rows: Sequence[Any]) -> None:
        for row in rows:
            if not follower.keeps_up:
                follower.coming.put_nowait(None)
                self._followers.discard(follower)
                return
            if follower.wanted.admits(row):
                follower.coming.put_nowait(row)
