"""Cancelling: what is not claimed ends at once; what is claimed is marked, and its worker is asked to stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from rota.errors import ConflictError, NotFoundError
from rota.store.change import Changed, JobChange, lock_job, write_job
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.settling import until_settled
from rota.store.read.runs import find_run
from rota.store.schema.partitions import with_days


class Cancellations:
    """Cancels runs, and jobs with their runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cancel_run(self, namespace: str, run_id: UUID) -> bool:
        """Ends a run that is not claimed, or marks one that is and asks its worker to stop it.

        Returns whether it has ended; raises ConflictError when it had before.
        """

        async def cancel_one(statements: Statements) -> set[UUID]:
            hit = await cancel_runs(statements, namespace, [run_id], "cancelled on request")
            if run_id in hit:
                return {worker_id for worker_id in hit.values() if worker_id}
            row = await find_run(statements, namespace, run_id)
            if row is None:
                raise NotFoundError("there is no such run")
            if row["place"] == "finished":
                raise ConflictError(f"the run has already ended: {row['status']}")
            raise ConflictError("the run kept moving while it was being cancelled; try again")

        workers = await with_days(self._database, [run_id], lambda: self._database.transact(cancel_one))
        self._database.wake(workers=workers, gates=True)
        return not workers

    async def cancel_job(self, namespace: str, job_id: UUID, decide: Callable[[Any], JobChange]) -> None:
        """Cancels a job (recurring or one-shot) with everything of it that waits or runs."""

        async def cancel_all(statements: Statements) -> Changed:
            row = await lock_job(statements, namespace, job_id)
            changed = Changed()
            if row is not None:
                changed.version = await write_job(statements, row, decide(row), row["fired_through"])
            await _cancel_runs_of_job(statements, namespace, job_id, changed)
            return changed

        open_runs = [
            row["id"] for row in await self._database.fetch("open_runs_of_job", namespace=namespace, job_id=job_id)
        ]
        changed = await with_days(self._database, open_runs, lambda: self._database.transact(cancel_all))
        self._database.wake(workers=changed.workers, gates=True)


async def cancel_runs(
    statements: Statements, namespace: str, runs: Iterable[UUID], reason: str
) -> dict[UUID, UUID | None]:
    """Cancels these runs; those that had not ended, each with the worker to tell (None: it has ended now)."""
    hit: dict[UUID, UUID | None] = {}
    left = set(runs)

    async def look() -> bool:
        rows = await statements.fetch("cancel_runs", namespace=namespace, run_ids=sorted(left), reason=reason)
        hit.update({row["id"]: row["worker_id"] for row in rows})
        left.difference_update(hit)
        found = [await find_run(statements, namespace, run_id) for run_id in left]
        left.intersection_update({row["id"] for row in found if row is not None and row["place"] != "finished"})
        return not left

    await until_settled(look)
    return hit


async def _cancel_runs_of_job(statements: Statements, namespace: str, job_id: UUID, changed: Changed) -> None:
    async def look() -> bool:
        rows = await statements.fetch("open_runs_of_job", namespace=namespace, job_id=job_id)
        if not rows:
            return True
        hit = await statements.fetch(
            "cancel_runs", namespace=namespace, run_ids=[row["id"] for row in rows], reason="its job was cancelled"
        )
        changed.workers.update(row["worker_id"] for row in hit if row["worker_id"])
        return False

    if not await until_settled(look, pause_seconds=0):
        raise ConflictError("the job's runs kept moving while it was being cancelled; try again")
