"""The audit trail: what was asked for, how it ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import FIRST_ID, LAST_ID
from rota.store.postgres.database import Database


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for what."""

    id: UUID
    namespace: str
    actor: str
    kind: str
    key_id: UUID | None
    source: str
    action: str
    object: str | None
    request: str | None


class AuditFilter(msgspec.Struct, frozen=True):
    """Which entries: ids in [first, before), and fields that must match (None: any)."""

    first: UUID = FIRST_ID
    before: UUID = LAST_ID
    actor: str | None = None
    action: str | None = None
    object: str | None = None


class AuditTrail:
    """Adds to the trail and reads it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, entry: AuditEntry) -> None:
        """Before anything is done."""
        await self._database.fetch("add_audit", **msgspec.structs.asdict(entry))

    async def add_outcome(self, entry_id: UUID, status: int, made: str | None, change: str | None) -> None:
        """When it is over."""
        await self._database.fetch("add_audit_outcome", id=entry_id, status=status, object=made, change=change)

    async def find(self, namespace: str, wanted: AuditFilter, limit: int) -> list[Any]:
        """Entries that match, latest first."""
        return await self._database.fetch(
            "list_audit", namespace=namespace, **msgspec.structs.asdict(wanted), limit=limit
        )
