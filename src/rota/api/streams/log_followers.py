"""Following the logs of runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec

from rota.api.http.shares import Shares
from rota.api.streams.followers import MOST_FOLLOWERS, Followers
from rota.store.logs import Logs

_CHUNKS_PER_POLL = 20
_MOST_WAITING = 50


class Chunk(msgspec.Struct, frozen=True):
    """Some lines of an attempt; `position` orders them."""

    position: int
    attempt: int
    body: str


class LogFollower:
    """A client that follows one run: a queue of chunks, then the status it ended with."""

    def __init__(self, namespace: str, run_id: UUID, position: int, holder: str) -> None:
        self.namespace = namespace
        self.holder = holder
        self.run_id = run_id
        self.position = position
        self.coming: asyncio.Queue[Chunk | str] = asyncio.Queue()
        self.ended = False

    @property
    def wants_more(self) -> bool:
        """False for a client that does not read, to bound the memory."""
        return not self.ended and self.coming.qsize() < _MOST_WAITING


class LogFollowers(Followers[LogFollower]):
    """Polls for new log chunks of followed runs."""

    full_round = _CHUNKS_PER_POLL

    def __init__(self, logs: Logs) -> None:
        super().__init__(Shares(MOST_FOLLOWERS, what="follow logs"))
        self._logs = logs

    @asynccontextmanager
    async def follow(self, namespace: str, run_id: UUID, after: int, holder: str = "") -> AsyncIterator[LogFollower]:
        """Follows a run from a position on."""
        with self._registered(LogFollower(namespace, run_id, after, holder)) as follower:
            yield follower

    async def _poll(self) -> int:
        followers = [follower for follower in self._followers if follower.wants_more]
        if not followers:
            return 0
        wanted = [(follower.namespace, follower.run_id, follower.position) for follower in followers]
        counts = [0] * len(followers)
        statuses: dict[int, str] = {}
        for row in await self._logs.tail(wanted, _CHUNKS_PER_POLL):
            number = row["n"] - 1
            if row["position"] is not None:
                counts[number] += 1
                followers[number].position = row["position"]
                followers[number].coming.put_nowait(Chunk(row["position"], row["attempt"], row["body"]))
            if row["status"] is not None:
                statuses[number] = row["status"]
        for number, status in statuses.items():
            if counts[number] < _CHUNKS_PER_POLL:
                followers[number].ended = True
                followers[number].coming.put_nowait(status)
        return max(counts)
