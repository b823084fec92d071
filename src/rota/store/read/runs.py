"""Runs by id, wherever they are, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import FIRST_ID, LAST_ID
from rota.errors import NotFoundError
from rota.store.postgres.database import Database, Statements


class RunFilter(msgspec.Struct, frozen=True):
    """Which runs to list: ids in [first, before), and fields that must match (None: any)."""

    first: UUID = FIRST_ID
    before: UUID = LAST_ID
    owner: str | None = None
    statuses: list[str] | None = None
    name: str | None = None
    tag: str | None = None
    task: str | None = None


class Runs:
    """Reads runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, namespace: str, run_id: UUID) -> Any:
        """The run's row in the view; raises NotFoundError."""
        row = await find_run(self._database, namespace, run_id)
        if row is None:
            raise NotFoundError("there is no such run")
        return row

    async def owned(self, namespace: str, run_ids: Sequence[UUID], owner: str) -> list[UUID]:
        """Which of these are this owner's."""
        return [
            row["id"]
            for row in await self._database.fetch("owned_runs", namespace=namespace, run_ids=list(run_ids), owner=owner)
        ]

    async def ended(self, wanted: Sequence[tuple[str, UUID]]) -> set[tuple[str, UUID]]:
        """Which of these runs, each with its namespace, have ended."""
        namespaces, ids = [namespace for namespace, _ in wanted], [run_id for _, run_id in wanted]
        if not ids:
            return set()
        rows = await self._database.fetch(
            "ended_runs", namespaces=namespaces, run_ids=ids, first=min(ids), last=max(ids)
        )
        return {(row["namespace"], row["id"]) for row in rows}

    async def attempts(self, namespace: str, run_id: UUID) -> list[Any]:
        """Its attempts that did not succeed."""
        return await self._database.fetch("attempts_of_run", namespace=namespace, run_id=run_id)

    async def find(self, namespace: str, wanted: RunFilter, limit: int) -> list[Any]:
        """Runs that match, latest planned first."""
        return await self._database.fetch(
            "list_runs", namespace=namespace, **msgspec.structs.asdict(wanted), limit=limit, one_shots=False
        )

    async def list_of_job(self, namespace: str, job_id: UUID, before: UUID, limit: int) -> list[Any]:
        """A job's runs, latest first."""
        return await self._database.fetch(
            "list_runs_of_job", namespace=namespace, job_id=job_id, before=before, limit=limit
        )


async def find_run(statements: Statements | Database, namespace: str, run_id: UUID) -> Any | None:
    """The run's row in the view, or None. History is asked last: a run that ends meanwhile is found there."""
    row = await statements.fetch_row("get_open_run", namespace=namespace, run_id=run_id)
    return row or await statements.fetch_row("get_finished_run", namespace=namespace, run_id=run_id)
