"""Backpressure: a cap on what may wait, per owner and per pool.

Counting what waits costs as much as waits, so nobody counts for each request: it is counted in the background, no
further than up to the caps and never for more than a small share of the time, and submissions are judged by the last
count, with what was accepted since. A cap is therefore kept to within what comes in between two counts. Nothing is
counted where there is no cap.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from rota.domain.job import OneShot, Submission
from rota.errors import DatabaseUnavailableError, RotaError, TooMuchWaitingError
from rota.store.pools import Pools
from rota.store.submissions import LOOKAHEAD

LOOK_SECONDS = 0.5
SHARE = 0.05  # of the time may be spent counting
RETRY_SECONDS = 5

Counted = tuple[str, str]  # namespace and pool, or namespace and owner


class Pressure:
    """Says whether more may come in."""

    def __init__(
        self,
        pools: Pools,
        *,
        now: Callable[[], datetime],
        most_per_owner: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._pools = pools
        self._most_per_owner = most_per_owner
        self._monotonic = monotonic
        self._caps: dict[Counted, int] = {}
        self._in_pool: dict[Counted, int] = {}
        self._of_owner: dict[Counted, int] = {}
        self._since = (Counter[Counted](), Counter[Counted]())  # what came in since the last count began
        self._changed = asyncio.Event()
        self._looking = asyncio.Lock()

    def refuse(self, items: Iterable[Submission]) -> dict[UUID, RotaError]:
        """Those of these that find their owner or pool with as much as may wait; the others are counted in."""
        if not self._caps and self._most_per_owner is None:
            return {}
        return {item.id: refusal for item in items if (refusal := self._judge(item))}

    def _judge(self, item: Submission) -> TooMuchWaitingError | None:
        if not isinstance(item, OneShot) or (item.run_at is not None and item.run_at > self._now() + LOOKAHEAD):
            return None  # what comes later does not wait yet
        pool, owner = (item.namespace, item.definition.pool), (item.namespace, item.definition.owner)
        for key, counts, cap, where in (
            (pool, self._in_pool, self._caps.get(pool), f"in pool {item.definition.pool!r}"),
            (owner, self._of_owner, self._most_per_owner, f"of owner {item.definition.owner!r}"),
        ):
            if cap is not None and counts.get(key, 0) >= cap:
                words = f"{cap} runs wait {where}, which is as many as may"
                return TooMuchWaitingError(words, retry_after_seconds=RETRY_SECONDS)
        for counts, since, key in zip((self._in_pool, self._of_owner), self._since, (pool, owner), strict=True):
            counts[key] = counts.get(key, 0) + 1
            since[key] += 1
        return None

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
        """One count. What comes in meanwhile may or may not be in it, and is added: rather too much than too little."""
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        self._caps = await self._pools.caps()
        self._since = since = (Counter[Counted](), Counter[Counted]())
        in_pool = await self._pools.count_waiting(self._caps) if self._caps else {}
        of_owner = await self._pools.count_owners() if self._most_per_owner is not None else {}
        self._in_pool, self._of_owner = since[0] + Counter(in_pool), since[1] + Counter(of_owner)
