"""Shard leases: who owns which shard, at which epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.clock import WallClock
from rota.store.postgres.database import Database, Statements
from rota.store.reap import WatchedWorker


class ShardLease(msgspec.Struct, frozen=True):
    """A shard's row: its owner (None: it has none) and epoch."""

    shard: int
    owner: UUID | None
    epoch: int


class Leases(msgspec.Struct):
    """All leases, and how often each scheduler and each worker has beaten, in one snapshot."""

    leases: list[ShardLease] = msgspec.field(default_factory=list)
    beats: dict[UUID, int] = msgspec.field(default_factory=dict)
    workers: list[WatchedWorker] = msgspec.field(default_factory=list)
    database_time: datetime = datetime.min.replace(tzinfo=UTC)


class Shards:
    """The rows behind scheduler/lease_keeper.py."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wall_clock = WallClock()

    async def beat(self, scheduler_id: UUID, host: str, pid: int) -> Leases:
        """One heartbeat; returns all leases and beats."""
        found = Leases()
        skew = self._wall_clock.skew
        self._wall_clock.ask()
        for row in await self._database.fetch(
            "beat_scheduler", scheduler_id=scheduler_id, host=host, pid=pid, clock_skew=skew
        ):
            kind = row["kind"]
            if kind == "shards":
                pairs = zip(row["shards"], row["epochs"], strict=True)
                found.leases += [ShardLease(shard, row["id"], epoch) for shard, epoch in pairs]
            elif kind == "scheduler":
                found.beats[row["id"]] = row["beat"]
            elif kind == "worker":
                found.workers.append(WatchedWorker(row["id"], row["beat"], row["lease"], row["gone"]))
            else:
                found.database_time = row["database_time"]
        self._wall_clock.answered(found.database_time)
        found.leases.sort(key=lambda lease: lease.shard)
        return found

    async def take(self, scheduler_id: UUID, leases: Iterable[ShardLease]) -> dict[int, int]:
        """Takes these shards if their epochs still stand; returns what was got, shard by new epoch."""
        wanted = list(leases)
        rows = await self._database.fetch(
            "take_shards",
            scheduler_id=scheduler_id,
            shards=[lease.shard for lease in wanted],
            epochs=[lease.epoch for lease in wanted],
        )
        self._database.wake(events=bool(rows))
        return {row["shard"]: row["epoch"] for row in rows}

    async def drop(self, scheduler_id: UUID, shards: Iterable[int]) -> None:
        """Lets go of some shards."""
        await self._database.fetch("drop_shards", scheduler_id=scheduler_id, shards=list(shards))

    async def leave(self, scheduler_id: UUID) -> None:
        """Lets go of everything and takes the scheduler's row away."""
        await self._database.fetch("leave_scheduler", scheduler_id=scheduler_id)


def leased(scheduler_id: UUID, owned: Mapping[int, int]) -> dict[str, Any]:
    """Shards with the epochs they were leased at, as a scheduler's statements take them."""
    return {"scheduler_id": scheduler_id, "shards": list(owned), "epochs": list(owned.values())}


async def count_shards(statements: Statements | Database) -> int:
    """How many shards this database has; fixed when it was made."""
    shards: int = await statements.fetch_value("read_constants")
    return shards
