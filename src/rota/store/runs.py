"""Runs by id: reading them wherever they are, cancelling, running again, dead letters.

A run may move while we look for it. A statement sees every run in exactly one place, but the place it saw may be
empty by the time it gets the row's lock, and the new one is not in its snapshot. So a writer that hit nothing looks
again in a new statement, until it hit the run or found it finished. Each look costs the other side a whole move, so
the loop is short; LOOKS bounds it against a fault of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import new_id
from rota.errors import ConflictError, NotFoundError
from rota.store.postgres.batches import with_days
from rota.store.postgres.database import Database, Statements

LOOKS = 100
LOOK_AGAIN_SECONDS = 0.005
FIRST_ID = UUID(int=0)
LAST_ID = UUID(int=(1 << 128) - 1)
GROUPED_LETTERS = 100_000
MOST_GROUPS = 100


class RunFilter(msgspec.Struct, frozen=True):
    """Which runs to list: ids in [first, before), and fields that must match (None: any)."""

    first: UUID = FIRST_ID
    before: UUID = LAST_ID
    owner: str | None = None
    statuses: list[str] | None = None
    name: str | None = None
    tag: str | None = None
    task: str | None = None


class DeadLetterFilter(msgspec.Struct, frozen=True):
    """Which dead letters: ids in [first, before), and fields that must match (None: any)."""

    first: UUID = FIRST_ID
    before: UUID = LAST_ID
    task: str | None = None
    job_id: UUID | None = None
    name: str | None = None
    owner: str | None = None
    error: str | None = None


class Rerun(msgspec.Struct, frozen=True):
    """A run that was made of an earlier one."""

    run_id: UUID
    pool: str


class Runs:
    """Reads and changes runs by id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, namespace: str, run_id: UUID) -> Any:
        """The run's row in the view; raises NotFoundError."""
        row = await self._database.fetch_row("get_run", namespace=namespace, run_id=run_id)
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
        rows = await self._database.fetch("ended_runs", namespaces=namespaces, run_ids=ids)
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

    async def cancel(self, namespace: str, run_id: UUID) -> tuple[str, set[UUID]]:
        """Ends a run that is not claimed, or marks one that is.

        Returns 'cancelled' or 'requested', and the workers to tell; raises ConflictError when it is finished already.
        """

        async def cancel_run(statements: Statements) -> tuple[str, set[UUID]]:
            for _ in range(LOOKS):
                rows = await statements.fetch(
                    "cancel_runs", namespace=namespace, run_ids=[run_id], reason="cancelled on request"
                )
                if rows:
                    workers = {row["worker_id"] for row in rows if row["worker_id"]}
                    return ("requested" if workers else "cancelled"), workers
                row = await statements.fetch_row("get_run", namespace=namespace, run_id=run_id)
                if row is None:
                    raise NotFoundError("there is no such run")
                if row["place"] == "finished":
                    raise ConflictError(f"the run has already ended: {row['status']}")
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            raise ConflictError("the run kept moving while it was being cancelled; try again")

        return await with_days(self._database, [run_id], lambda: self._database.transact(cancel_run))

    async def rerun(self, namespace: str, run_ids: Sequence[UUID], cause: str, now: datetime) -> list[Rerun]:
        """New runs of these ('manual', 'retry' or 'redrive')."""
        moment = now.timestamp()
        ordered = sorted(set(run_ids))
        rows = await self._database.fetch(
            "rerun", namespace=namespace, run_ids=ordered, new_ids=[new_id(moment) for _ in ordered], cause=cause
        )
        return [Rerun(row["id"], row["pool"]) for row in rows]

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
            most_letters=GROUPED_LETTERS,
            most_groups=MOST_GROUPS,
        )

    async def discard(self, namespace: str, run_ids: Sequence[UUID]) -> int:
        """Forgets dead letters; the failed runs stay in history."""
        return len(
            await self._database.fetch("discard_dead_letters", namespace=namespace, run_ids=sorted(set(run_ids)))
        )
