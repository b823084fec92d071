"""What runs wait for, for people who ask."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rota.store.postgres.database import Database


class Waiting:
    """Reads gates without taking part."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def gate(self, namespace: str, kind: str, key: str) -> Any | None:
        """What a gate remembers; None: nothing."""
        return await self._database.fetch_row("read_gates", namespaces=[namespace], kinds=[kind], keys=[key])

    async def line(self, namespace: str, key: str) -> Any:
        """Who is first in line at an ordering key, and who has it."""
        return await self._database.fetch_row("orders_of", namespaces=[namespace], keys=[key])

    async def live_of_limit(self, namespace: str, key: str, limit: int) -> list[Any]:
        """Runs that use up a limit, each with how many there are in all."""
        return await self._database.fetch("live_of_limit", namespace=namespace, key=key, limit=limit)

    async def earlier_run(self, namespace: str, job_id: UUID, run_id: UUID) -> UUID | None:
        """A run of the job that has not ended and is not this one."""
        rows = await self._database.fetch("overlaps_of", namespaces=[namespace], job_ids=[job_id])
        others = [row for row in rows if row["id"] != run_id]
        earliest = min(others, key=lambda row: (row["nominal_at"], row["id"]), default=None)
        return None if earliest is None else earliest["id"]

    async def events(self, namespace: str, before: int, owner: str | None, limit: int) -> list[Any]:
        """What happened to gates and pools (and about this owner's jobs), latest first."""
        return await self._database.fetch("list_events", namespace=namespace, before=before, owner=owner, limit=limit)
