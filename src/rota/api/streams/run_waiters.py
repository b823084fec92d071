"""Waiting for runs to end: one look for everybody who waits, and none when nobody does.

Most runs that somebody waits for are short: for a moment after a waiter came the looks follow each other closely.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from uuid import UUID

from rota.errors import DatabaseUnavailableError, OverloadedError
from rota.store.read.runs import Runs
from rota.telemetry import get_logger

LOOK_SECONDS = 0.03
SOON_SECONDS = 0.004
SOON_FOR_SECONDS = 0.1
SHARE = 0.2  # of the time may be spent looking, however many come
MOST_WAITERS = 1000
_log = get_logger("ending")
Key = tuple[str, UUID]


class RunWaiters:
    """Looks which of the runs that somebody waits for have ended."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._waiters: dict[Key, set[asyncio.Future[None]]] = {}
        self._some = asyncio.Event()
        self._closed = False
        self._came_at = 0.0
        self.waiting = 0

    async def wait(self, namespace: str, run_id: UUID, seconds: float) -> None:
        """Returns when the run has ended or the time is over; raises OverloadedError when too many wait already."""
        if self._closed:
            return
        if self.waiting >= MOST_WAITERS:
            raise OverloadedError("too many wait for runs on this server; look at the run now and then")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = (namespace, run_id)
        self._waiters.setdefault(key, set()).add(ended)
        self.waiting += 1
        self._came_at = time.monotonic()
        self._some.set()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(ended, seconds)
        finally:
            self.waiting -= 1
            self._forget(key, ended)

    def close(self) -> None:
        """Lets everybody go who waits, and lets nobody wait any more: the server stops, and others may know more."""
        self._closed = True
        for key in list(self._waiters):
            self._tell(key)

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            if not self._waiters:
                self._some.clear()
                await self._some.wait()
            began = time.monotonic()
            try:
                await self.tick()
            except DatabaseUnavailableError as error:
                _log.info("could not look for runs that ended", error=str(error))
            now = time.monotonic()
            pause = SOON_SECONDS if now - self._came_at < SOON_FOR_SECONDS else LOOK_SECONDS
            await asyncio.sleep(max(pause, (now - began) / SHARE))

    async def tick(self) -> int:
        """One look; returns how many runs have ended."""
        ended = await self._runs.ended(list(self._waiters))
        for key in ended:
            self._tell(key)
        return len(ended)

    def _tell(self, key: Key) -> None:
        for waiter in self._waiters.get(key, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _forget(self, key: Key, waiter: asyncio.Future[None]) -> None:
        others = self._waiters[key]
        others.discard(waiter)
        if not others:
            del self._waiters[key]
