"""Backpressure: a cap on what may wait, per pool, per owner and per namespace.

Counting what waits costs as much as waits, so nobody counts for each request: it is counted in the background, no
further than up to the caps and never for more than a small share of the time, and submissions are judged by the last
count, with what was accepted since. A cap is therefore kept to within what comes in between two counts. Nothing is
counted where there is no cap.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.job import OneShot, Submission
from rota.domain.limits import WHOLE
from rota.errors import DatabaseUnavailableError, RotaError, TooMuchWaitingError
from rota.store.pools import Pools
from rota.store.submit import LOOKAHEAD

LOOK_SECONDS = 0.5
SHARE = 0.05  # of the time may be spent counting
RETRY_SECONDS = 5

Counted = tuple[str, str]  # namespace, and pool or owner or nothing


class _Place(NamedTuple):
    """Where a run counts."""

    kind: int
    key: Counted
    cap: int | None
    words: str


_POOL, _OWNER, _NAMESPACE = range(3)


class Backlog:
    """Says whether more may come in."""

    def __init__(
        self,
        pools: Pools,
        limits: TenantLimits,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._pools = pools
        self._limits = limits
        self._monotonic = monotonic
        self._caps: dict[Counted, int] = {}
        self._counts: list[dict[Counted, int]] = [{}, {}, {}]
        self._since = _nothing()  # what came in since the last count began, or was under way then
        self._under_way: dict[UUID, list[_Place]] = {}  # accepted, and not known to be committed
        self._changed = asyncio.Event()
        self._looking = asyncio.Lock()

    def refuse(self, items: Iterable[Submission]) -> dict[UUID, RotaError]:
        """Those of these that find as much waiting as may; the others are counted in."""
        if not self._caps and not self._limits.bounds_waiting:
            return {}
        return {item.id: refusal for item in items if (refusal := self._judge(item))}

    def settled(self, items: Iterable[Submission]) -> None:
        """These are committed, or never will be: the next count says which."""
        if self._under_way:
            for item in items:
                self._under_way.pop(item.id, None)

    def waiting(self, namespace: str, owner: str) -> int | None:
        """How many wait of an owner, or in all of a namespace, as last counted; None: nobody counts them."""
        return self._counts[_OWNER if owner else _NAMESPACE].get((namespace, owner))

    def _judge(self, item: Submission) -> TooMuchWaitingError | None:
        if not isinstance(item, OneShot) or (item.run_at is not None and item.run_at > self._now() + LOOKAHEAD):
            return None  # what comes later does not wait yet
        places = list(self._places(item))
        for place in places:
            if place.cap is not None and self._counts[place.kind].get(place.key, 0) >= place.cap:
                words = f"{place.cap} runs wait {place.words}, which is as many as may"
                return TooMuchWaitingError(words, retry_after_seconds=RETRY_SECONDS)
        for kind, key, *_ in places:
            self._counts[kind][key] = self._counts[kind].get(key, 0) + 1
            self._since[kind][key] += 1
        self._under_way[item.id] = places
        return None

    def _places(self, item: Submission) -> Iterator[_Place]:
        namespace, pool, owner = item.namespace, item.definition.pool, item.definition.owner
        yield _Place(_POOL, (namespace, pool), self._caps.get((namespace, pool)), f"in pool {pool!r}")
        yield _Place(_OWNER, (namespace, owner), self._limits.of(namespace, owner).most_waiting, f"of owner {owner!r}")
        whole = self._limits.of(namespace, WHOLE).most_waiting
        yield _Place(_NAMESPACE, (namespace, WHOLE), whole, f"in namespace {namespace!r}")

    def forget(self) -> None:
        """A cap was changed: look now."""
        self._changed.set()

    async def run(self) -> None:
        """Counts until cancelled."""
        while True:
            began = self._monotonic()
            with suppress(DatabaseUnavailableError):  # the last count stands
                await self.look()
            pause = max(LOOK_SECONDS, (self._monotonic() - began) / SHARE)
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    async def look(self) -> None:
        """One count. What is under way when it begins, or comes in meanwhile, may or may not be in it, and is added:
        rather too much than too little."""
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        self._caps = await self._pools.caps()
        self._since = since = self._count_under_way()
        in_pools = await self._pools.count_waiting(self._caps) if self._caps else {}
        of_owners = await self._pools.count_owners() if self._limits.bounds_owners else {}
        in_namespaces = await self._count_namespaces(of_owners)
        counted = (in_pools, of_owners, in_namespaces)
        self._counts = [came + Counter(count) for came, count in zip(since, counted, strict=True)]

    def _count_under_way(self) -> list[Counter[Counted]]:
        counts = _nothing()
        for places in self._under_way.values():
            for place in places:
                counts[place.kind][place.key] += 1
        return counts

    async def _count_namespaces(self, of_owners: dict[Counted, int]) -> dict[Counted, int]:
        caps = {namespace: cap for (namespace, _), cap in self._limits.waiting_of_namespaces.items()}
        if not caps:
            return {}
        if not of_owners:
            return {(name, WHOLE): waiting for name, waiting in (await self._pools.count_namespaces(caps)).items()}
        totals = Counter[Counted]()
        for (namespace, _), waiting in of_owners.items():
            totals[namespace, WHOLE] += waiting
        return totals


def _nothing() -> list[Counter[Counted]]:
    return [Counter(), Counter(), Counter()]
