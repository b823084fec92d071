"""Deliveries: events on their way to destinations. One sender has a destination at a time, by a claim with a number."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from rota.store.postgres.database import Database

_KEPT = 1000  # deliveries that are over, per destination


class Deliveries:
    """Makes, claims and records deliveries. A claim lasts for `lease` unless it is extended."""

    def __init__(self, database: Database, scheduler_id: UUID, lease: timedelta) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._lease = lease

    async def at_work(self) -> list[Any]:
        """Every enabled destination, how far it has come, and when its next delivery is due."""
        return await self._database.fetch("destinations_at_work")

    async def events(self, after: int, until: int, limit: int) -> list[Any]:
        """Events with numbers in (after, until], in order."""
        return await self._database.fetch("events_for", after=after, until=until, limit=limit)

    async def make(self, destination_id: UUID, event_ids: Sequence[int], *, read_at: int, position: int) -> int:
        """Gives a destination events and moves its position, if that is where it was read; returns how many."""
        rows = await self._database.fetch(
            "make_deliveries", destination_id=destination_id, event_ids=event_ids, read_at=read_at, position=position
        )
        return len(rows)

    async def claim(self, destination_id: UUID, shard: int, epoch: int) -> Any | None:
        """The destination, now this scheduler's to send to; None: another's, or its shard is."""
        return await self._database.fetch_row(
            "claim_destination",
            destination_id=destination_id,
            shard=shard,
            scheduler_id=self._scheduler_id,
            epoch=epoch,
            lease_time=self._lease,
        )

    async def due(self, destination_id: UUID, limit: int) -> list[Any]:
        """What is to be sent to it now, in order."""
        return await self._database.fetch("due_deliveries", destination_id=destination_id, limit=limit)

    async def record(
        self, claimed: Any, event_id: int, *, answer: int | None, error: str | None, delay_seconds: float | None
    ) -> bool:
        """Writes how an attempt ended (`delay_seconds` None: the last one); False: the claim is no longer ours."""
        rows = await self._database.fetch(
            "record_attempt",
            destination_id=claimed["id"],
            lease=claimed["lease"],
            lease_time=self._lease,
            event_id=event_id,
            answer=answer,
            error=error,
            is_delivered=error is None,
            delay=delay_seconds,
        )
        return bool(rows)

    async def release(self, claimed: Any, *, failures: int, delay_seconds: float) -> None:
        """Gives the claim back; nothing is sent for so long."""
        await self._database.fetch(
            "release_destination",
            destination_id=claimed["id"],
            lease=claimed["lease"],
            failures=failures,
            delay=delay_seconds,
            has_recovered=failures == 0 and claimed["failures"] > 0,
            kept=_KEPT,
        )
