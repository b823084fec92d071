"""Backpressure: a cap on how many runs may wait, per pool, per owner and per namespace.

Counting takes longer the more runs wait, so a service counts, not each request: up to the caps and for a small share of
the time. Submissions are judged by the last count plus what was accepted since, so a cap is exceeded by at most what
arrives between two counts. Nothing is counted where there is no cap.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain
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
_CALM_SECONDS = 5.0
_POOL, _OWNER, _NAMESPACE = range(3)
_Key = tuple[str, str]  # namespace, and pool or owner or nothing


class _Counter(NamedTuple):
    """One of the counts that a run is part of."""

    kind: int
    key: _Key
    cap: int | None
    words: str


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
        """A lazy one counts nothing before the first submission."""
        super().__init__()
        self._sleeps = lazy
        self._is_asked = False  # whether something was submitted since the last count
        self._is_calm = False
        self._count_seconds = 0.0
        self._now = now
        self._waiting = waiting
        self._limits = limits
        self._monotonic = monotonic
        self._caps: dict[_Key, int] = {}
        self._counts: list[dict[_Key, int]] = [{}, {}, {}]
        self._since = _nothing()  # accepted since the last count began, or being committed then
        self._under_way: dict[UUID, list[_Counter]] = {}  # accepted, and not known to be committed
        self._counting = asyncio.Lock()

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no cap; is asked for every submission."""
        self._is_asked = True
        if self._sleeps or self._is_calm:
            self._sleeps = self._is_calm = False
            self.wake()
        return not self._caps and not self._limits.bounds_waiting

    def refuse(self, items: Iterable[Submission]) -> dict[UUID, RotaError]:
        """The items for which a cap is reached, with the refusal; the others are counted."""
        if self.is_unlimited:
            return {}
        return {item.id: refusal for item in items if (refusal := self._judge(item))}

    def settled(self, items: Iterable[Submission]) -> None:
        """These are committed, or never will be: the next count decides."""
        if self._under_way:
            for item in items:
                self._under_way.pop(item.id, None)

    def waiting(self, namespace: str, owner: str) -> int | None:
        """How many runs of an owner or a whole namespace waited at the last count; None: they are not counted."""
        return self._counts[_OWNER if owner else _NAMESPACE].get((namespace, owner))

    def _judge(self, item: Submission) -> TooMuchWaitingError | None:
        if not isinstance(item, OneShot) or (item.run_at is not None and item.run_at > self._now() + LOOKAHEAD):
            return None  # a later run does not wait yet
        counters = list(self._counters(item))
        for counter in counters:
            if counter.cap is not None and self._counts[counter.kind].get(counter.key, 0) >= counter.cap:
                words = f"backlog limit reached: {counter.cap} runs wait {counter.words}"
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
        """Longer when counting is slow, or there is no cap and nothing is submitted; a changed cap wakes it."""
        if self._sleeps:
            return None
        usual = _CALM_SECONDS if self._is_calm else self.interval_seconds
        return max(usual, self._count_seconds / _SHARE)

    async def tick(self) -> int:
        """One count. Adds jobs that are being committed, which it may have missed: the result is never too low."""
        if self._sleeps:
            return 0
        async with self._counting:
            began = self._monotonic()
            await self._limits.load()
            await self._count()
            self._count_seconds = self._monotonic() - began
        self._is_calm = not (self._is_asked or self._caps or self._limits.bounds_waiting)
        self._is_asked = False
        return 0

    async def _count(self) -> None:
        self._caps = await self._waiting.caps()
        self._since = since = _nothing()
        for kind, key, *_ in chain.from_iterable(self._under_way.values()):
            since[kind][key] += 1
        in_pools = await self._waiting.count_waiting(self._caps) if self._caps else {}
        of_owners = await self._waiting.count_owners() if self._limits.bounds_owners else {}
        in_namespaces = await self._count_namespaces(of_owners)
        counted = (in_pools, of_owners, in_namespaces)
        self._counts = [came + Counter(count) for came, count in zip(since, counted, strict=True)]

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
