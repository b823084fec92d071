"""Limits of tenants as they are stored, and the buckets that all API servers take from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rota.domain.limits import Kind, Rate
from rota.store.postgres.database import Database


class Taken(NamedTuple):
    """What came of a take: whole tokens, and what is left in the bucket."""

    granted: int
    left: float


class LimitTable:
    """Reads and changes limits."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def changed_since(self, number: int) -> list[Any]:
        """Limits that changed behind a change, in order."""
        return await self._database.fetch("changed_limits", number=number)

    async def change(
        self, namespace: str, subject: str, changes: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> Any:
        """The limits after a change; `defaults` hold besides where nothing was said yet."""
        wanted, besides = (msgspec.json.encode(fields).decode() for fields in (changes, defaults))
        return await self._database.fetch_row(
            "change_limits", namespace=namespace, subject=subject, changes=wanted, defaults=besides
        )

    async def find(self, namespace: str, after: str | None, limit: int, *, with_unlimited: bool) -> list[Any]:
        """Limits of a namespace, its own first, with what is left in their buckets; `with_unlimited`: also of those of
        whom every limit was lifted."""
        return await self._database.fetch(
            "list_limits", namespace=namespace, after=after, limit=limit, with_unlimited=with_unlimited
        )


class Buckets:
    """Token buckets, filled by the database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, namespace: str, subject: str, kind: Kind, rate: Rate, *, wanted: int, least: int) -> Taken:
        """Takes up to `wanted`, or none if there are not `least`."""
        row = await self._database.fetch_row(
            "take_tokens",
            namespace=namespace,
            subject=subject,
            kind=kind,
            per_second=rate.per_second,
            burst=float(rate.burst),
            wanted=wanted,
            least=least,
        )
        assert row is not None  # noqa: S101 - the statement gives one row
        return Taken(row["granted"], row["tokens"])
