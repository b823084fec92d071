"""Which scheduler owns which shard.

Authority. A shard belongs to the scheduler named in its lease row. The row's epoch grows with every change of owner and
is the fencing token: every statement of a scheduler names the epochs it believes in, and the database skips shards
whose epoch has moved on.

Liveness. Each scheduler increments a beat counter in its row. Wall clocks are not compared: an observer takes over a
shard when it has seen the same beat for a whole lease on its own monotonic clock. An observer that was itself paused,
or cut off from the database, starts observing again from zero.

Pauses. A scheduler that has not beaten for most of a lease considers its shards lost, so a process that wakes up from
a pause does not act before it has looked. A statement already in flight is stopped by the epoch; and firing and
promoting compare and set rows, so nothing is done twice even if that failed.

Balance. Each owner drops shards above its fair share and takes free ones, so shards spread evenly.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from uuid import UUID

from rota.clock import DatabaseClock, uptime
from rota.errors import DatabaseUnavailableError
from rota.service import Service
from rota.store.lease import Leases, Shards
from rota.telemetry import get_logger
from rota.time_limits import time_limit

_TICKS_PER_LEASE = 6
_OWN_SHARE_OF_LEASE = 0.8
_LEAVE_SECONDS = 3.0
_log = get_logger("leases")


class BeatObserver:
    """Remembers when each beat last changed."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[UUID, tuple[int, float]] = {}
        self._last_look = float("-inf")

    def look(self, beats: Mapping[UUID, int], *, longest_gap: float) -> None:
        """Notes the current beats; after too long a gap between looks, starts again from zero."""
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
        """Seconds since we last saw this beat change; 0 if never seen."""
        return self._monotonic() - self._seen[owner][1] if owner in self._seen else 0.0


class LeaseKeeper(Service):
    """Beats, observes other schedulers, and keeps a fair share of the shards."""

    def __init__(
        self,
        *,
        shards: Shards,
        scheduler_id: UUID,
        clock: DatabaseClock,
        lease_seconds: float,
        on_beat: Callable[[Leases], None] = lambda _found: None,
        on_change: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = uptime,
    ) -> None:
        """`on_beat` gets what a beat found; `on_change` is called when what is due may differ from what was known."""
        super().__init__()
        self.interval_seconds = lease_seconds / _TICKS_PER_LEASE
        self._shards = shards
        self._id = scheduler_id
        self._clock = clock
        self._lease = lease_seconds
        self._longest_gap = lease_seconds / 2
        self._on_beat = on_beat
        self._on_change = on_change
        self._monotonic = monotonic
        self._observer = BeatObserver(monotonic)
        self._owned: dict[int, int] = {}
        self._beaten_at = float("-inf")

    @property
    def owned(self) -> dict[int, int]:
        """Our shards with their epochs; none if we have not beaten for most of a lease."""
        if self._monotonic() - self._beaten_at > self._lease * _OWN_SHARE_OF_LEASE:
            return {}
        return self._owned

    async def tick(self) -> int:
        """Beats, observes, takes or drops shards; returns how many changed hands."""
        found = await self._beat()
        self._on_beat(found)
        self._observer.look(found.beats, longest_gap=self._longest_gap)
        self._owned = {lease.shard: lease.epoch for lease in found.leases if lease.owner == self._id}
        alive = {self._id} | {owner for owner in found.beats if self._observer.still_for(owner) < self._lease}
        share = math.ceil(len(found.leases) / len(alive))
        if len(self._owned) > share:
            return await self._drop(len(self._owned) - share)
        return await self._take(found, alive, share - len(self._owned))

    async def close(self) -> None:
        """Drops all shards, so that other schedulers need not wait for our lease to end."""
        self._owned = {}
        with suppress(DatabaseUnavailableError, TimeoutError):
            async with time_limit(_LEAVE_SECONDS):
                await self._shards.leave(self._id)

    async def _beat(self) -> Leases:
        sent = self._monotonic()
        found = await self._shards.beat(self._id, socket.gethostname(), os.getpid())
        received = self._monotonic()
        if jump := self._clock.observe(sent=sent, received=received, database_time=found.database_time):
            _log.warning("the database's clock jumped; misfire rules apply to missed times", seconds=round(jump, 3))
        # Sleepers count neither time that the clock jumped over nor time that this machine was suspended.
        if jump or sent - self._beaten_at > self._longest_gap:
            self._on_change()
        self._beaten_at = sent
        return found

    async def _drop(self, count: int) -> int:
        dropped = sorted(self._owned)[-count:]
        for shard in dropped:
            del self._owned[shard]
        await self._shards.drop(self._id, dropped)
        return len(dropped)

    async def _take(self, found: Leases, alive: set[UUID], room: int) -> int:
        held = alive & found.beats.keys()  # we may be missing from the rows if they were just deleted
        free = [lease for lease in found.leases if lease.owner not in held][:room]
        if not free:
            return 0
        taken = await self._shards.take(self._id, free)
        self._owned = self._owned | taken
        self._on_change()
        lost = {str(lease.owner) for lease in free if lease.owner is not None}
        _log.info("took shards", count=len(taken), from_lost=sorted(lost))
        return len(taken)
