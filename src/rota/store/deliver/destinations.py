"""Destinations as people make, change and look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import msgspec

from rota.store.postgres.database import Database, Statements

MOST_DESTINATIONS = 100  # of a namespace


class DestinationRow(msgspec.Struct, kw_only=True):
    """A destination as it is stored; `sealed` is opaque here."""

    kind: str
    shown: str
    sealed: bytes
    kinds: list[str]
    least_severity: str | None
    enabled: bool
    changed_by: str


class Destinations:
    """Reads and writes destinations of a namespace; '*' are those of the installation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, namespace: str, name: str) -> Any | None:
        return await self._database.fetch_row("find_destination", namespace=namespace, name=name)

    async def find_page(self, namespace: str, after: str | None, limit: int) -> list[Any]:
        """Destinations by name."""
        return await self._database.fetch("list_destinations", namespace=namespace, after=after or "", limit=limit)

    async def put(
        self, namespace: str, name: str, change: Callable[[UUID, Any | None], DestinationRow]
    ) -> tuple[Any | None, bool]:
        """Makes a destination, or changes it under its lock: `change` gets its id and its row, if there is one.

        Returns the row (None: the namespace has as many as it may have), and whether it was made.
        """

        async def write(statements: Statements) -> tuple[Any | None, bool]:
            before = await statements.fetch_row("lock_destination", namespace=namespace, name=name)
            destination_id = before["id"] if before else uuid4()
            wanted = msgspec.structs.asdict(change(destination_id, before))
            if before:
                return await statements.fetch_row("change_destination", destination_id=destination_id, **wanted), False
            row = await statements.fetch_row(
                "add_destination",
                destination_id=destination_id,
                namespace=namespace,
                name=name,
                most=MOST_DESTINATIONS,
                **wanted,
            )
            return row, True

        row, is_made = await self._database.transact(write)
        if row is None and await self.find(namespace, name):
            # Made by another at the same time: it is changed then.
            row, is_made = await self._database.transact(write)
        self._database.wake(events=True)
        return row, is_made

    async def delete(self, namespace: str, name: str) -> Any | None:
        """The destination that was deleted, if there was one."""
        return await self._database.fetch_row("delete_destination", namespace=namespace, name=name)

    async def deliveries(self, destination_id: UUID, before: int, limit: int) -> list[Any]:
        """Deliveries, latest event first."""
        return await self._database.fetch("list_deliveries", destination_id=destination_id, before=before, limit=limit)
