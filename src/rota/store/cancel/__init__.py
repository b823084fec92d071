"""Cancelling: what is not claimed ends at once; what is claimed is marked, and its worker is asked to stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from rota.errors import ConflictError, NotFoundError
from rota.store.change import Changed, JobChange, lock_job, write_job
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.settling import LOOK_AGAIN_SECONDS, LOOKS
from rota.store.read.runs import find_run
from rota.store.schema.partitions import with_days


class Cancellations:
    """Cancels runs, and jobs with their runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cancel_run(self, namespace: str, run_id: UUID) -> tuple[str, set[UUID]]:
        """Ends a run that is not claimed, or marks one that is.

        Returns 'cancelled' or 'requested', and the workers to tell; raises ConflictError when it is finished already.
        """

        async def cancel_one(statements: Statements) -> tuple[str, set[UUID]]:
            for _ in range(LOOKS):
                rows = await statements.fetch(
                    "cancel_runs", namespace=namespace, run_ids=[run_id], reason="cancelled on request"
                )
                if rows:
                    workers = {row["worker_id"] for row in rows if row["worker_id"]}
                    return ("requested" if workers else "cancelled"), workers
                row = await find_run(statements, namespace, run_id)
                if row is None:
                    raise NotFoundError("there is no such run")
                if row["place"] == "finished":
                    raise ConflictError(f"the run has already ended: {row['status']}")
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            raise ConflictError("the run kept moving while it was being cancelled; try again")

        return await with_days(self._database, [run_id], lambda: self._database.transact(cancel_one))

    async def cancel_job(self, namespace: str, job_id: UUID, decide: Callable[[Any], JobChange]) -> Changed:
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
        return await with_days(self._database, open_runs, lambda: self._database.transact(cancel_all))


async def _cancel_runs_of_job(statements: Statements, namespace: str, job_id: UUID, changed: Changed) -> None:
    for _ in range(LOOKS):
        open_runs = [
            row["id"] for row in await statements.fetch("open_runs_of_job", namespace=namespace, job_id=job_id)
        ]
        if not open_runs:
            return
        rows = await statements.fetch(
            "cancel_runs", namespace=namespace, run_ids=open_runs, reason="its job was cancelled"
        )
        changed.workers.update(row["worker_id"] for row in rows if row["worker_id"])
    raise ConflictError("the job's runs kept moving while it was being cancelled; try again")


async def cancel_runs(statements: Statements, namespace: str, runs: Sequence[UUID], reason: str) -> set[UUID]:
    """Cancels these runs; one that moves at this moment is looked for again. Returns the workers to tell."""
    workers: set[UUID] = set()
    left = set(runs)
    for _ in range(LOOKS):
        rows = await statements.fetch("cancel_runs", namespace=namespace, run_ids=sorted(left), reason=reason)
        workers |= {row["worker_id"] for row in rows if row["worker_id"]}
        left -= {row["id"] for row in rows}
        open_runs = [await find_run(statements, namespace, run_id) for run_id in left]
        left = {row["id"] for row in open_runs if row is not None and row["place"] != "finished"}
        if not left:
            break
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
    return workers
