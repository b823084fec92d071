"""The fleet: workers, the pools they serve, and the schedulers' shards."""

from __future__ import annotations

from typing import Any

from rota.store.postgres.database import Database, Statements


class Fleet:
    """Reads who works where."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def workers(self, namespace: str | None = None) -> list[Any]:
        """Live workers and those gone lately; of a namespace they serve, or all."""
        return await self._database.fetch("list_workers", namespace=namespace)

    async def workers_for_run(self, namespace: str, pool: str, task: str) -> Any:
        """What the fleet offers to a run of this task in this pool."""
        return await self._database.fetch_row("workers_for_run", namespace=namespace, pool=pool, task=task)

    async def pools(self, namespace: str) -> list[Any]:
        """Every pool that is known, that workers serve, or in which something waits."""
        return await self._database.fetch("list_pools", namespace=namespace)

    async def shards(self) -> list[Any]:
        """Which scheduler owns which shard."""
        return await self._database.fetch("list_shards")

    async def sample_waiting(self, limit: int) -> list[Any]:
        """Namespaces, pools and tasks of some of the runs that are ready and unclaimed."""
        return await self._database.fetch("sample_waiting", limit=limit)


async def find_pool(statements: Statements, namespace: str, pool: str) -> Any | None:
    """A pool's row, as in the list of pools; None: it is unknown."""
    rows = await statements.fetch("list_pools", namespace=namespace)
    return next((row for row in rows if row["pool"] == pool), None)
