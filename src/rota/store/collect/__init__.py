"""Which objects and rows are still needed, and removing old rows of small tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database

_ROWS = 1000


class TransactionBounds(NamedTuple):
    """What a snapshot says of transactions: the oldest that has not ended, and a number above all that write."""

    oldest: int
    next: int


class Leftovers:
    """Tells what is needed from what is not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bounds(self) -> TransactionBounds:
        row = await self._database.fetch_row("snapshot_bounds")
        return TransactionBounds(*(row or (0, 0)))

    async def needed_results(self, some: Sequence[tuple[str, str, UUID]]) -> set[str]:
        """Which of these (key, namespace, run) are needed."""
        ids = [run_id for _, _, run_id in some]
        return _keys(
            await self._database.fetch(
                "needed_results", **columns(some, "keys namespaces run_ids"), first=min(ids), last=max(ids)
            )
        )

    async def needed_logs(self, some: Sequence[tuple[str, str, UUID, int]]) -> set[str]:
        """Which of these (key, namespace, run, claim) are needed."""
        ids = [run_id for _, _, run_id, _ in some]
        return _keys(
            await self._database.fetch(
                "needed_logs", **columns(some, "keys namespaces run_ids claims"), first=min(ids), last=max(ids)
            )
        )

    async def needed_shared_logs(self, keys: Sequence[str], first: UUID, before: UUID) -> set[str]:
        """Which objects with logs of many runs of a day are needed."""
        return _keys(await self._database.fetch("needed_shared_logs", keys=list(keys), first=first, before=before))

    async def payload_objects(self, some: Sequence[tuple[str, UUID]]) -> dict[str, list[tuple[str | None, bool]]]:
        """Of these (key, job): the namespaces that know the job, and whether something of it has not ended."""
        ids = [job_id for _, job_id in some]
        found: dict[str, list[tuple[str | None, bool]]] = {}
        for row in await self._database.fetch(
            "payload_objects", **columns(some, "keys job_ids"), first=min(ids), last=max(ids)
        ):
            found.setdefault(row["key"], []).append((row["namespace"], row["is_used"]))
        return found

    async def archives(self, first: UUID, before: UUID) -> list[Any]:
        return await self._database.fetch("archived_keys", first=first, before=before)

    async def trim_events(self, namespace: str, days: int) -> int:
        return len(await self._database.fetch("trim_events", namespace=namespace, days=days, limit=_ROWS))

    async def trim_dead_letters(self, namespace: str, days: int, before: UUID) -> int:
        return len(
            await self._database.fetch("trim_dead_letters", namespace=namespace, days=days, before=before, limit=_ROWS)
        )

    async def trim_audit(self, namespace: str) -> int:
        trimmed: int = await self._database.fetch_value("trim_audit", namespace=namespace, limit=_ROWS)
        return trimmed


def _keys(rows: Sequence[Any]) -> set[str]:
    return {row["key"] for row in rows}
