"""What runs wait for, for people who ask."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rota.domain.gates import Gate, GateKind
from rota.store.admit.gate_states import read_gates, read_orders, read_overlaps
from rota.store.postgres.database import Database


class Waiting:
    """Reads gates without taking part."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def gate(self, namespace: str, kind: GateKind, key: str) -> Any | None:
        """What a gate remembers; None: nothing."""
        return next(iter(await read_gates(self._database, [Gate(namespace, kind, key)])), None)

    async def line(self, namespace: str, key: str) -> Any:
        """Who is first in line at an ordering key, and who has it."""
        return next(iter(await read_orders(self._database, [Gate(namespace, "order", key)])), None)

    async def live_of_limit(self, namespace: str, key: str, limit: int) -> list[Any]:
        """Runs that use up a limit, each with how many there are in all."""
        return await self._database.fetch("live_of_limit", namespace=namespace, key=key, limit=limit)

    async def earlier_run(self, namespace: str, job_id: UUID, run_id: UUID) -> UUID | None:
        """A run of the job that has not ended and is not this one."""
        rows = await read_overlaps(self._database, [(namespace, job_id)])
        others = [row for row in rows if row["id"] != run_id]
        earliest = min(others, key=lambda row: (row["nominal_at"], row["id"]), default=None)
        return None if earliest is None else earliest["id"]
