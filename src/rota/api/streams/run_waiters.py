"""Waiting for runs to end.

Ends are announced (store/postgres/wakeups.py) by workers that were told that clients wait. An announcement is a hint
that may be lost or forged, and not every end has one. So the runs are also polled: rarely while announcements come, and
as soon as a poll finds an end that was not announced, as often as without them. Most of these runs are short, so those
polls are frequent for a moment after a waiter arrives.

The number of waiters is limited. A tenant may use every place that the others don't need, because a client that is
refused polls, which costs more than one that waits. When all places are taken, a newcomer takes one from the namespace
with the most waiters, and there from the owner with the most: the longest wait is answered early, with the run as it
is.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from uuid import UUID

from rota.api.http.shares import Shares
from rota.api.streams.followers import Followers
from rota.errors import OverloadedError
from rota.store.postgres.wakeups import AWAITED_SECONDS, WakeUps, mark_of
from rota.store.read.runs import Runs

_SOON_SECONDS = 0.004
_SOON_FOR_SECONDS = 0.1
_TOLD_SECONDS = 0.1  # between polls while ends are announced
_TOLD_FOR_SECONDS = 5.0  # after an announcement that was for one of ours
_AWAITED_AGAIN_SECONDS = AWAITED_SECONDS / 3
_SHARE = 0.2  # of the time is spent polling at most
MOST_WAITERS = 2000
_MOST_REMEMBERED = 2000


class _Waiter:
    def __init__(self, namespace: str, run_id: UUID, holder: str) -> None:
        self.namespace = namespace
        self.holder = holder
        self.run_id = run_id
        self.mark = mark_of(namespace, run_id)
        self.since = time.monotonic()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class RunWaiters(Followers[_Waiter]):
    """Hears of the end of runs that clients wait for, and polls for it. `wake_ups`: None if nothing can be heard."""

    interval_seconds = 0.03
    jitter = 0

    def __init__(self, runs: Runs, wake_ups: WakeUps | None = None) -> None:
        super().__init__(Shares(MOST_WAITERS, what="wait for runs"))
        self._runs = runs
        self._wake_ups = wake_ups
        self._by_mark: dict[str, set[_Waiter]] = {}
        # Runs that ended a moment ago: a client may have read its run just before, and wait just after.
        self._announced: dict[str, None] = {}
        self._awaited_at = self._told_at = -math.inf
        self._look: asyncio.TimerHandle | None = None
        self._released = False
        self._came_at = 0.0
        self._took_seconds = 0.0

    @property
    def waiting(self) -> int:
        return len(self._followers)

    @property
    def pause_seconds(self) -> float | None:
        """Short while there are new waiters, longer when polls are slow or ends are announced."""
        pause = super().pause_seconds
        if pause is None:
            return None
        is_soon = time.monotonic() - self._came_at < _SOON_FOR_SECONDS
        usual = _TOLD_SECONDS if self._is_told else _SOON_SECONDS if is_soon else pause
        return max(usual, self._took_seconds / _SHARE)

    @property
    def _is_told(self) -> bool:
        return time.monotonic() - self._told_at < _TOLD_FOR_SECONDS

    async def tick(self) -> int:
        """One poll; not for the first waiter if its end is probably announced."""
        if self._asleep and self._followers and self._is_told:
            self._asleep = False
            return 0
        return await super().tick()

    def heard(self, _channel: str, payload: str) -> None:
        """Answers those who wait for a run that was announced. If the announcement names none, a poll follows soon."""
        for mark in payload.split():
            self._announced[mark] = None
            for waiter in self._by_mark.get(mark, ()):
                waiter.answer()
                self._told_at = time.monotonic()
        while len(self._announced) > _MOST_REMEMBERED:
            del self._announced[next(iter(self._announced))]
        if not payload and self._followers and self._look is None:
            pause = max(_SOON_SECONDS, self._took_seconds / _SHARE)
            self._look = asyncio.get_running_loop().call_later(pause, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        self.wake()

    async def wait(self, namespace: str, run_id: UUID, seconds: float, holder: str) -> None:
        """Returns when the run has ended or the time is over; raises OverloadedError when too many clients wait."""
        waiter = _Waiter(namespace, run_id, holder)
        if self._released or waiter.mark in self._announced:
            return
        self._make_room(namespace, holder)
        self._came_at = time.monotonic()
        self._ask_to_be_told()
        with self._registered(waiter), self._marked(waiter), suppress(TimeoutError):
            await asyncio.wait_for(waiter.ended, seconds)

    @contextmanager
    def _marked(self, waiter: _Waiter) -> Iterator[None]:
        alike = self._by_mark.setdefault(waiter.mark, set())
        alike.add(waiter)
        try:
            yield
        finally:
            alike.discard(waiter)
            if not alike:
                self._by_mark.pop(waiter.mark, None)

    def _ask_to_be_told(self) -> None:
        now = time.monotonic()
        if self._wake_ups and now - self._awaited_at >= _AWAITED_AGAIN_SECONDS:
            self._awaited_at = now
            self._wake_ups(awaited=True)

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
        self._ask_to_be_told()
        ended = await self._runs.ended(list(waiters))
        for waiter in (one for key in ended for one in waiters[key] if not one.ended.done()):
            waiter.answer()
            self._told_at = -math.inf  # it was not announced
        self._took_seconds = time.monotonic() - began
        return len(ended)
