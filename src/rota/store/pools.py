"""Pools: paused or not, how much may wait in them, and what does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.store.postgres.database import Database


class Pools:
    """Reads and changes pools."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, namespace: str) -> list[Any]:
        """Every pool that somebody said something about, that workers serve, or in which something waits."""
        return await self._database.fetch("list_pools", namespace=namespace)

    async def pause(self, namespace: str, pool: str, *, paused: bool) -> bool:
        """Nothing more is claimed from a paused pool; returns whether that changed anything."""
        return bool(await self._database.fetch("pause_pool", namespace=namespace, pool=pool, paused=paused))

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

    async def limit(self, namespace: str, pool: str, most_waiting: int | None) -> None:
        """How many runs may wait in it; None: any number."""
        await self._database.fetch("limit_pool", namespace=namespace, pool=pool, most_waiting=most_waiting)
