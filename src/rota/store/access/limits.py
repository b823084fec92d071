"""Limits of tenants as they are stored, and the buckets that all API servers take from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rota.domain.limits import Kind, Rate
from rota.store.postgres.database import Database


class Taken(NamedTuple):
    """The result of a take: whole tokens, and what is left in the bucket."""

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
        """Changes limits and returns them. If the subject had none, `defaults` fill the rest."""
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


class BacklogCounts:
    """Counts what waits, up to caps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def caps(self) -> dict[tuple[str, str], int]:
        """How many may wait, by (namespace, pool), where that is limited."""
        rows = await self._database.fetch("capped_pools")
        return {(row["namespace"], row["pool"]): row["most_waiting"] for row in rows}

    async def count_waiting(self, caps: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """How many wait in these pools, counted up to the cap of each."""
        namespaces, pools = [key[0] for key in caps], [key[1] for key in caps]
        rows = await self._database.fetch("count_waiting", namespaces=namespaces, pools=pools, caps=list(caps.values()))
        return {(row["namespace"], row["pool"]): row["waiting"] for row in rows}

    async def count_owners(self) -> dict[tuple[str, str], int]:
        """How many wait of each owner. Looks at all of them: callers do so as often as they can afford."""
        rows = await self._database.fetch("count_owners")
        return {(row["namespace"], row["owner"]): row["waiting"] for row in rows}

    async def count_namespaces(self, caps: Mapping[str, int]) -> dict[str, int]:
        """How many wait in these namespaces, counted up to the cap of each."""
        rows = await self._database.fetch("count_namespaces", namespaces=list(caps), caps=list(caps.values()))
        return {row["namespace"]: row["waiting"] for row in rows}
