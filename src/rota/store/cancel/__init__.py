"""Cancelling: what is not claimed ends at once; what is claimed is marked, and its worker is asked to stop it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any
from uuid import UUID

import msgspec

from rota.errors import ConflictError, NotFoundError
from rota.store.change import Changed, JobChange, lock_job, write_job
from rota.store.depend import refuse_while_needed
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import transact_soon
from rota.store.postgres.settling import until_settled
from rota.store.read.jobs import find_latest_run
from rota.store.read.runs import find_run
from rota.store.schema.partitions import with_days


class JobCancellation(msgspec.Struct, frozen=True):
    """What a cancel did, as its own transaction saw it: the job's status, and how many of its runs workers were asked
    to stop. Those may still end in another way. The job's options have the id that was chosen for it."""

    status: str
    stopping: int
    options: str


class Cancellations:
    """Cancels runs, and jobs with their runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cancel_run(self, namespace: str, run_id: UUID) -> str:
        """Ends a run that is not claimed, or marks one that is and asks its worker to stop it.

        Returns its status: `cancelled`, or what it is until its worker has stopped it. Raises ConflictError when it had
        ended before.
        """

        async def cancel_one(statements: Statements) -> tuple[str, set[UUID]]:
            hit = await cancel_runs(statements, namespace, [run_id], "cancelled on request")
            row = await find_run(statements, namespace, run_id)
            if row is None:
                raise NotFoundError("there is no such run")
            if run_id in hit:
                return row["status"], {worker_id for worker_id in hit.values() if worker_id}
            if row["place"] == "finished":
                raise ConflictError(f"the run has already ended: {row['status']}")
            raise ConflictError("the run kept moving while it was being cancelled; try again")

        status, workers = await with_days(self._database, [run_id], lambda: transact_soon(self._database, cancel_one))
        self._database.wake(workers=workers, gates=True, flows=True)
        return status

    async def cancel_job(
        self, namespace: str, job_id: UUID, decide: Callable[[Any], JobChange | None], *, force: bool = False
    ) -> JobCancellation:
        """Cancels a job (recurring or one-shot) with everything of it that waits or runs.

        `decide` sees the locked row of a recurring job; None: it is cancelled already. Raises NotFoundError, and
        ConflictError for a one-shot that has ended otherwise, or, without `force`, for a job that others depend on.
        """

        async def cancel_all(statements: Statements) -> tuple[JobCancellation, Changed]:
            row = await lock_job(statements, namespace, job_id)
            changed = Changed()
            if not force and (row is None or row["state"] in ("scheduled", "paused")):
                await refuse_while_needed(statements, namespace, job_id)
            if row is not None and (change := decide(row)):
                changed.version = await write_job(statements, row, change, row["fired_through"])
            hit, stopping = await _cancel_runs_of_job(statements, namespace, job_id)
            changed.workers.update(worker_id for worker_id in hit.values() if worker_id)
            if row is not None:
                return JobCancellation("cancelled", stopping, row["options"]), changed
            latest = await _latest_of_one_shot(statements, namespace, job_id, hit)
            return JobCancellation(latest["status"], stopping, latest["options"]), changed

        open_runs = [
            row["id"] for row in await self._database.fetch("open_runs_of_job", namespace=namespace, job_id=job_id)
        ]
        done, changed = await with_days(self._database, open_runs, lambda: transact_soon(self._database, cancel_all))
        self._database.wake(workers=changed.workers, gates=True, flows=True)
        return done


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


async def _cancel_runs_of_job(
    statements: Statements, namespace: str, job_id: UUID
) -> tuple[dict[UUID, UUID | None], int]:
    """Cancels what of the job has not ended: as `cancel_runs`, and how many of its runs are being stopped now."""
    hit: dict[UUID, UUID | None] = {}
    stopping = 0

    async def look() -> bool:
        nonlocal stopping
        rows = await statements.fetch("open_runs_of_job", namespace=namespace, job_id=job_id)
        left = [row["id"] for row in rows if not row["asked"]]
        stopping = len(rows)
        if left:
            reason = "its job was cancelled"
            rows = await statements.fetch("cancel_runs", namespace=namespace, run_ids=left, reason=reason)
            hit.update({row["id"]: row["worker_id"] for row in rows})
        return not left

    if not await until_settled(look, pause_seconds=0):
        raise ConflictError("the job's runs kept moving while it was being cancelled; try again")
    return hit, stopping


async def _latest_of_one_shot(statements: Statements, namespace: str, job_id: UUID, hit: Collection[UUID]) -> Any:
    """The latest run of a one-shot of which these runs were cancelled: its status is the job's."""
    latest = await find_latest_run(statements, namespace, job_id)
    if latest is None:
        raise NotFoundError("there is no such job")
    if not hit and latest["place"] == "finished" and latest["status"] != "cancelled":
        raise ConflictError(f"the job has already ended: {latest['status']}")
    return latest
