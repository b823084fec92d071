"""Waiting for runs to end.

Most of these runs are short, so polls are frequent for a moment after a waiter arrives.

The number of waiters is limited. A tenant may use every place that the others don't need, because a client that is
refused polls, which costs more than one that waits. When all places are taken, a newcomer takes one from the namespace
with the most waiters, and there from the owner with the most: the longest wait is answered early, with the run as it
is.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import suppress
from operator import attrgetter
from uuid import UUID

from rota.api.http.shares import Shares
from rota.api.streams.followers import Followers
from rota.errors import OverloadedError
from rota.store.read.runs import Runs

_SOON_SECONDS = 0.004
_SOON_FOR_SECONDS = 0.1
_SHARE = 0.2  # of the time is spent polling at most
MOST_WAITERS = 2000


class _Waiter:
    def __init__(self, namespace: str, run_id: UUID, holder: str) -> None:
        self.namespace = namespace
        self.holder = holder
        self.run_id = run_id
        self.since = time.monotonic()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class RunWaiters(Followers[_Waiter]):
    """Polls for the end of runs that clients wait for."""

    interval_seconds = 0.03
    jitter = 0

    def __init__(self, runs: Runs) -> None:
        super().__init__(Shares(MOST_WAITERS, what="wait for runs"))
        self._runs = runs
        self._released = False
        self._came_at = 0.0
        self._took_seconds = 0.0

    @property
    def waiting(self) -> int:
        return len(self._followers)

    @property
    def pause_seconds(self) -> float | None:
        """Short while there are new waiters, longer when polls are slow."""
        pause = super().pause_seconds
        if pause is None:
            return None
        is_soon = time.monotonic() - self._came_at < _SOON_FOR_SECONDS
        return max(_SOON_SECONDS if is_soon else pause, self._took_seconds / _SHARE)

    async def wait(self, namespace: str, run_id: UUID, seconds: float, holder: str) -> None:
        """Returns when the run has ended or the time is over; raises OverloadedError when too many clients wait."""
        if self._released:
            return
        self._make_room(namespace, holder)
        self._came_at = time.monotonic()
        with self._registered(_Waiter(namespace, run_id, holder)) as waiter, suppress(TimeoutError):
            await asyncio.wait_for(waiter.ended, seconds)

    def check_room(self, namespace: str, holder: str) -> None:
        """Raises OverloadedError when all places are taken and no tenant has more of them than this one."""
        if self.waiting >= self.shares.most:
            self._greediest(namespace, holder)

    def _make_room(self, namespace: str, holder: str) -> None:
        if self.waiting >= self.shares.most:
            displaced = self._greediest(namespace, holder)
            self._followers.discard(displaced)
            displaced.answer()

    def _greediest(self, namespace: str, holder: str) -> _Waiter:
        """The waiter whose place a newcomer of this holder gets; raises OverloadedError when there is none."""
        namespaces = Counter(waiter.namespace for waiter in self._followers)
        greedy, most = namespaces.most_common(1)[0]
        if namespaces[namespace] >= most:
            greedy = namespace
        holders = Counter(waiter.holder for waiter in self._followers if waiter.namespace == greedy)
        holding, most = holders.most_common(1)[0]
        if greedy == namespace and holders[holder] >= most:
            raise OverloadedError(
                "too many requests on this server wait for runs; poll without waitSeconds, or try again later"
            )
        theirs = (one for one in self._followers if (one.namespace, one.holder) == (greedy, holding))
        return min(theirs, key=attrgetter("since"))

    def release(self) -> None:
        """Ends all waits and accepts no more: the server is about to stop."""
        self._released = True
        for waiter in self._followers:
            waiter.answer()

    async def _poll(self) -> int:
        began = time.monotonic()
        waiters = defaultdict(list)
        for waiter in self._followers:
            waiters[waiter.namespace, waiter.run_id].append(waiter)
        ended = await self._runs.ended(list(waiters))
        for key in ended:
            for waiter in waiters[key]:
                waiter.answer()
        self._took_seconds = time.monotonic() - began
        return len(ended)
