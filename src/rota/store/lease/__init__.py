"""Shard leases: who owns which shard, at which epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.store.postgres.database import Database, Statements


class ShardLease(msgspec.Struct, frozen=True):
    """A shard's row: its owner (None: it has none) and epoch."""

    shard: int
    owner: UUID | None
    epoch: int


class Leases(msgspec.Struct):
    """All leases, and how often each scheduler has beaten, in one snapshot."""

    leases: list[ShardLease]
    beats: dict[UUID, int]


class Shards:
    """The rows behind scheduler/lease_keeper.py."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def beat(self, scheduler_id: UUID, host: str, pid: int) -> datetime:
        """One heartbeat; returns the database's time."""
        moment: datetime = await self._database.fetch_value(
            "beat_scheduler", scheduler_id=scheduler_id, host=host, pid=pid
        )
        return moment

    async def read(self) -> Leases:
        """All leases and beats."""
        found = Leases([], {})
        for row in await self._database.fetch("read_leases"):
            if row["shard"] is not None:
                found.leases.append(ShardLease(row["shard"], row["owner"], row["epoch"]))
            elif row["owner"] is not None:
                found.beats[row["owner"]] = row["beat"]
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
