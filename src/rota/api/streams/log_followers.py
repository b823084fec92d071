"""Following logs: one look for everybody who follows, and none when nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec

from rota.api.streams.followers import check_follower_slots
from rota.errors import DatabaseUnavailableError
from rota.store.logs import Logs
from rota.telemetry import get_logger

LOOK_SECONDS = 0.2
CHUNKS_PER_LOOK = 20
MOST_WAITING = 50
_log = get_logger("tailing")


class Chunk(msgspec.Struct, frozen=True):
    """Some lines of an attempt; `position` orders them."""

    position: int
    attempt: int
    body: str


class Follower:
    """Somebody who follows one run: chunks come in a queue, the status it ended with last."""

    def __init__(self, namespace: str, run_id: UUID, position: int, holder: str) -> None:
        self.namespace = namespace
        self.holder = holder
        self.run_id = run_id
        self.position = position
        self.coming: asyncio.Queue[Chunk | str] = asyncio.Queue()
        self.ended = False

    @property
    def wants_more(self) -> bool:
        """Who does not read is not looked for: what waits in memory is bounded."""
        return not self.ended and self.coming.qsize() < MOST_WAITING


class LogFollowers:
    """Looks for what followed runs write."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._followers: set[Follower] = set()
        self._some = asyncio.Event()

    def check_room(self, namespace: str, holder: str) -> None:
        """Raises OverloadedError when too many follow already, or too many of one namespace or holder."""
        check_follower_slots(self._followers, namespace, holder, "logs")

    @asynccontextmanager
    async def follow(self, namespace: str, run_id: UUID, after: int, holder: str = "") -> AsyncIterator[Follower]:
        """Follows a run from a position on, on behalf of somebody."""
        follower = Follower(namespace, run_id, after, holder)
        self._followers.add(follower)
        self._some.set()
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            if not self._followers:
                self._some.clear()
                await self._some.wait()
            try:
                full = await self._look([follower for follower in self._followers if follower.wants_more])
            except DatabaseUnavailableError as error:
                _log.info("could not look at logs", error=str(error))
                full = False
            if not full:
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, followers: list[Follower]) -> bool:
        """One look for all of them; whether some may have more."""
        if not followers:
            return False
        rows = await self._logs.tail(
            [(follower.namespace, follower.run_id, follower.position) for follower in followers], CHUNKS_PER_LOOK
        )
        counts = [0] * len(followers)
        statuses: dict[int, str] = {}
        for row in rows:
            number = row["n"] - 1
            if row["position"] is not None:
                counts[number] += 1
                followers[number].position = row["position"]
                followers[number].coming.put_nowait(Chunk(row["position"], row["attempt"], row["body"]))
            if row["status"] is not None:
                statuses[number] = row["status"]
        for number, status in statuses.items():
            if counts[number] < CHUNKS_PER_LOOK:
                followers[number].ended = True
                followers[number].coming.put_nowait(status)
        return any(count >= CHUNKS_PER_LOOK for count in counts)
