"""Backpressure: a cap on how many runs may wait, per pool, per owner and per namespace.

Counting costs as much as waits, so requests don't count: a service does, no further than up to the caps and never for
more than a small share of the time, and submissions are judged by the last count, with what was accepted since. A cap
is therefore kept to within what comes in between two counts. Nothing is counted where there is no cap.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.job import OneShot, Submission
from rota.domain.limits import WHOLE
from rota.domain.run import LOOKAHEAD
from rota.errors import RotaError, TooMuchWaitingError
from rota.service import Service
from rota.store.access.limits import BacklogCounts

_SHARE = 0.05  # of the time may be spent counting
_RETRY_SECONDS = 5

_Key = tuple[str, str]  # namespace, and pool or owner or nothing


class _Counter(NamedTuple):
    """One of the counts that a run is part of."""

    kind: int
    key: _Key
    cap: int | None
    words: str


_POOL, _OWNER, _NAMESPACE = range(3)


class Backlog(Service):
    """Says whether more runs may wait; one tick is one count."""

    interval_seconds: float = 0.5

    def __init__(
        self,
        waiting: BacklogCounts,
        limits: TenantLimits,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        lazy: bool = False,
    ) -> None:
        """`lazy`: nothing is counted before the first submission."""
        super().__init__()
        self._sleeps = lazy
        self._count_seconds = 0.0
        self._now = now
        self._waiting = waiting
        self._limits = limits
        self._monotonic = monotonic
        self._caps: dict[_Key, int] = {}
        self._counts: list[dict[_Key, int]] = [{}, {}, {}]
        self._since = _nothing()  # what came in since the last count began, or was under way then
        self._under_way: dict[UUID, list[_Counter]] = {}  # accepted, and not known to be committed
        self._counting = asyncio.Lock()

    def refuse(self, items: Iterable[Submission]) -> dict[UUID, RotaError]:
        """Those of these for which a cap is reached; the others are counted in."""
        if self._sleeps:
            self._sleeps = False
            self.wake()
        if not self._caps and not self._limits.bounds_waiting:
            return {}
        return {item.id: refusal for item in items if (refusal := self._judge(item))}

    def settled(self, items: Iterable[Submission]) -> None:
        """These are committed, or never will be: the next count says which."""
        if self._under_way:
            for item in items:
                self._under_way.pop(item.id, None)

    def waiting(self, namespace: str, owner: str) -> int | None:
        """How many wait of an owner, or in all of a namespace, as last counted; None: they are not counted."""
        return self._counts[_OWNER if owner else _NAMESPACE].get((namespace, owner))

    def _judge(self, item: Submission) -> TooMuchWaitingError | None:
        if not isinstance(item, OneShot) or (item.run_at is not None and item.run_at > self._now() + LOOKAHEAD):
            return None  # what comes later does not wait yet
        counters = list(self._counters(item))
        for counter in counters:
            if counter.cap is not None and self._counts[counter.kind].get(counter.key, 0) >= counter.cap:
                words = f"{counter.cap} runs wait {counter.words}, which is as many as may"
                return TooMuchWaitingError(words, retry_after_seconds=_RETRY_SECONDS)
        for kind, key, *_ in counters:
            self._counts[kind][key] = self._counts[kind].get(key, 0) + 1
            self._since[kind][key] += 1
        self._under_way[item.id] = counters
        return None

    def _counters(self, item: Submission) -> Iterator[_Counter]:
        namespace, pool, owner = item.namespace, item.definition.pool, item.definition.owner
        yield _Counter(_POOL, (namespace, pool), self._caps.get((namespace, pool)), f"in pool {pool!r}")
        own, whole = (self._limits.of(namespace, subject).most_waiting for subject in (owner, WHOLE))
        yield _Counter(_OWNER, (namespace, owner), own, f"of owner {owner!r}")
        yield _Counter(_NAMESPACE, (namespace, WHOLE), whole, f"in namespace {namespace!r}")

    @property
    def pause_seconds(self) -> float | None:
        """Longer where counting takes long; a change of a cap wakes it."""
        return None if self._sleeps else max(self.interval_seconds, self._count_seconds / _SHARE)

    async def tick(self) -> int:
        """One count. What is under way when it begins, or comes in meanwhile, may or may not be in it, and is added:
        rather too much than too little."""
        if self._sleeps:
            return 0
        async with self._counting:
            began = self._monotonic()
            await self._limits.load()
            await self._count()
            self._count_seconds = self._monotonic() - began
        return 0

    async def _count(self) -> None:
        self._caps = await self._waiting.caps()
        self._since = since = self._count_under_way()
        in_pools = await self._waiting.count_waiting(self._caps) if self._caps else {}
        of_owners = await self._waiting.count_owners() if self._limits.bounds_owners else {}
        in_namespaces = await self._count_namespaces(of_owners)
        counted = (in_pools, of_owners, in_namespaces)
        self._counts = [came + Counter(count) for came, count in zip(since, counted, strict=True)]

    def _count_under_way(self) -> list[Counter[_Key]]:
        counts = _nothing()
        for counters in self._under_way.values():
            for counter in counters:
                counts[counter.kind][counter.key] += 1
        return counts

    async def _count_namespaces(self, of_owners: dict[_Key, int]) -> dict[_Key, int]:
        caps = {namespace: cap for (namespace, _), cap in self._limits.waiting_of_namespaces.items()}
        if not caps:
            return {}
        if not of_owners:
            return {(name, WHOLE): waiting for name, waiting in (await self._waiting.count_namespaces(caps)).items()}
        totals = Counter[_Key]()
        for (namespace, _), waiting in of_owners.items():
            totals[namespace, WHOLE] += waiting
        return totals


def _nothing() -> list[Counter[_Key]]:
    return [Counter(), Counter(), Counter()]
