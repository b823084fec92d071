"""Who looks after which shard.

Authority. A shard belongs to the scheduler named in its lease row; the row's epoch grows with every change of owner and
is the fencing token: every statement of a scheduler names the epochs it believes in, and shards whose epoch has moved
on are passed over by the database itself.

Liveness. Each scheduler beats a counter in one row. Wall clocks are not compared: an observer takes over a shard when
it has seen the same beat number for a whole lease on its own monotonic clock. An observer that was itself paused, or
cut off from the database, starts its observation anew: during its absence it saw nothing.

Pauses. A scheduler that has not beaten for most of a lease owns nothing in its own eyes, so a process that wakes up
from a pause does not act before it has looked. Should it act all the same, in a statement already on its way, the epoch
stops it; and should even that fail, firing and promoting compare and set rows, so nothing is done twice.

Balance. Each owner lets go of what is above its fair share and takes what is free, so shards spread by themselves.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from uuid import UUID

from rota.clock import DatabaseClock
from rota.errors import DatabaseUnavailableError
from rota.service import Service
from rota.store.lease import Leases, ShardLease, Shards
from rota.telemetry import get_logger

_TICKS_PER_LEASE = 6
_OWN_SHARE_OF_LEASE = 0.8
_LEAVE_SECONDS = 3.0
_log = get_logger("leases")


class BeatObserver:
    """Remembers since when each beat number has stood still."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[UUID, tuple[int, float]] = {}
        self._last_look = float("-inf")

    def look(self, beats: Mapping[UUID, int], *, longest_gap: float) -> None:
        """Takes in what stands in the database now; after a gap in looking, all observation starts anew."""
        now = self._monotonic()
        if now - self._last_look > longest_gap:
            self._seen.clear()
        self._last_look = now
        for owner, beat in beats.items():
            if self._seen.get(owner, (None, 0.0))[0] != beat:
                self._seen[owner] = (beat, now)
        for owner in self._seen.keys() - beats.keys():
            del self._seen[owner]

    def still_for(self, owner: UUID) -> float:
        """Seconds for which this beat has not moved before our eyes; 0 for one never seen."""
        if owner not in self._seen:
            return 0.0
        return self._monotonic() - self._seen[owner][1]


class LeaseKeeper(Service):
    """Beats, observes the others, and keeps a fair share of shards."""

    def __init__(
        self,
        *,
        shards: Shards,
        scheduler_id: UUID,
        clock: DatabaseClock,
        lease_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.interval_seconds = lease_seconds / _TICKS_PER_LEASE
        self._shards = shards
        self._id = scheduler_id
        self._clock = clock
        self._lease = lease_seconds
        self._monotonic = monotonic
        self._observer = BeatObserver(monotonic)
        self._owned: dict[int, int] = {}
        self._beaten_at = float("-inf")

    @property
    def owned(self) -> dict[int, int]:
        """Shards with their epochs; nothing when we have not beaten for most of a lease."""
        if self._monotonic() - self._beaten_at > self._lease * _OWN_SHARE_OF_LEASE:
            return {}
        return self._owned

    async def tick(self) -> int:
        """Beats, looks around, takes or lets go; returns how many shards changed hands."""
        await self._beat()
        found = await self._shards.read()
        self._observer.look(found.beats, longest_gap=self._lease / 2)
        self._owned = {lease.shard: lease.epoch for lease in found.leases if lease.owner == self._id}
        alive = {self._id} | {owner for owner in found.beats if self._observer.still_for(owner) < self._lease}
        share = math.ceil(len(found.leases) / len(alive))
        if len(self._owned) > share:
            return await self._let_go(len(self._owned) - share)
        return await self._take(found, alive, share - len(self._owned))

    async def close(self) -> None:
        """Lets go of everything, so that others need not wait for our lease to end."""
        self._owned = {}
        with suppress(DatabaseUnavailableError, TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._shards.leave(self._id)

    async def _beat(self) -> None:
        sent = self._monotonic()
        database_time = await self._shards.beat(self._id, socket.gethostname(), os.getpid())
        jump = self._clock.observe(sent=sent, received=self._monotonic(), database_time=database_time)
        if jump:
            _log.warning(
                "the database's clock jumped; what was missed follows the misfire rules",
                seconds=round(jump, 3),
            )
        self._beaten_at = sent

    async def _let_go(self, count: int) -> int:
        dropped = sorted(self._owned)[-count:]
        for shard in dropped:
            del self._owned[shard]
        await self._shards.drop(self._id, dropped)
        return len(dropped)

    async def _take(self, found: Leases, alive: set[UUID], room: int) -> int:
        free = [lease for lease in found.leases if self._is_free(lease, found.beats, alive)][:room]
        if not free:
            return 0
        taken = await self._shards.take(self._id, free)
        self._owned = self._owned | taken
        lost = {str(lease.owner) for lease in free if lease.owner is not None}
        _log.info("took shards", count=len(taken), from_lost=sorted(lost))
        return len(taken)

    def _is_free(self, lease: ShardLease, beats: Mapping[UUID, int], alive: set[UUID]) -> bool:
        if lease.owner is None:
            return True
        return lease.owner not in beats or lease.owner not in alive
