"""Running again what has ended, and dead letters: runs that failed for good."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import FIRST_ID, LAST_ID, new_id
from rota.store.postgres.database import Database

_GROUPED_LETTERS = 100_000
_MOST_GROUPS = 100


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """Which dead letters: ids in [first, before), and fields that must match (None: any)."""

    first: UUID = FIRST_ID
    before: UUID = LAST_ID
    task: str | None = None
    job_id: UUID | None = None
    name: str | None = None
    owner: str | None = None
    error: str | None = None


class Redrives:
    """Reads, redrives and discards dead letters, and runs others again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rerun(self, namespace: str, run_ids: Sequence[UUID], cause: str, now: datetime) -> list[Any]:
        """Makes new runs of these ('manual', 'retry' or 'redrive'); returns the id and status of each new one."""
        moment = now.timestamp()
        ordered = sorted(set(run_ids))
        rows = await self._database.fetch(
            "rerun", namespace=namespace, run_ids=ordered, new_ids=[new_id(moment) for _ in ordered], cause=cause
        )
        self._database.wake(pools={row["pool"] for row in rows}, gates=True)
        return rows

    async def dead_letters(self, namespace: str, wanted: DeadLetterFilter, limit: int) -> list[Any]:
        """Dead letters that match, latest first."""
        return await self._database.fetch(
            "list_dead_letters", namespace=namespace, **msgspec.structs.asdict(wanted), limit=limit
        )

    async def dead_letter_groups(self, namespace: str, owner: str | None) -> list[Any]:
        """The latest of them by task and kind of error, most first."""
        return await self._database.fetch(
            "group_dead_letters",
            namespace=namespace,
            owner=owner,
            most_letters=_GROUPED_LETTERS,
            most_groups=_MOST_GROUPS,
        )

    async def discard(self, namespace: str, run_ids: Sequence[UUID]) -> int:
        """Forgets dead letters; the failed runs stay in history."""
        return len(
            await self._database.fetch("discard_dead_letters", namespace=namespace, run_ids=sorted(set(run_ids)))
        )
