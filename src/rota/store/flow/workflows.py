"""Workflows by name, and what people do to their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import Recurring, SubmissionKey
from rota.domain.workflows.progress import Members
from rota.errors import RotaError
from rota.store.change import Changed, JobChange, apply_change, lock_job, write_job
from rota.store.exclude import hold_calendars
from rota.store.flow.rows import NodeRow, Resume, read_maps, read_nodes, write_resume
from rota.store.postgres.database import Database, Statements
from rota.store.postgres.lock_waits import transact_soon
from rota.store.read.jobs import definition_of
from rota.store.read.timetables import timetable_of
from rota.store.schema.partitions import with_days
from rota.store.submit import insert_jobs

_PAGE_BYTES = 8 * 1024 * 1024  # of definitions, and the one that exceeds it
MOST_SIGNALS = 1000


class NewFlow(msgspec.Struct, frozen=True):
    """A run of a workflow to be opened."""

    id: UUID
    shard: int
    inputs: str | None
    pins: str
    started_by: str
    key: SubmissionKey | None = None


class WorkflowRecord(msgspec.Struct, frozen=True):
    """A workflow as it is stored; `schedule` as it was given (JSON)."""

    id: UUID
    name: str
    owner: str
    version: str
    definition: str
    deadline_seconds: float | None
    schedule: str | None
    timezone: str


Decide = Callable[[Any, dict[int, NodeRow], Mapping[int, Members]], Resume]


class Workflows:
    """Definitions, and what people do to workflow runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, namespace: str, new: WorkflowRecord, schedule: Recurring | None = None) -> bool:
        """Creates a workflow, and the recurring job that fires it; False: another workflow has the name."""

        made = await self._database.transact(lambda it: create_workflow(it, namespace, new, schedule))
        self._database.wake(schedules=schedule is not None)
        return made

    async def find(self, namespace: str, *, workflow_id: UUID | None = None, name: str | None = None) -> Any | None:
        return await self._database.fetch_row("find_workflow", namespace=namespace, workflow_id=workflow_id, name=name)

    async def open(self, namespace: str, workflow_id: UUID, version: str, flow: NewFlow) -> Any:
        """Opens a run of this version. `opened` is false if the workflow is not what it was, or the key was `taken`."""

        async def open_it() -> list[Any]:
            return await self._database.fetch(
                "open_flow",
                namespace=namespace,
                workflow_id=workflow_id,
                version=version,
                flow=flow.id,
                shard=flow.shard,
                inputs=flow.inputs,
                pins=flow.pins,
                started_by=flow.started_by,
                **_key_of(flow.key),
            )

        (row,) = await with_days(self._database, [flow.id], open_it)
        self._database.wake(flows=True)
        return row

    async def change(self, row: Any, after: WorkflowRecord, schedule: Recurring | None, changed_by: str) -> bool:
        """Gives a workflow another definition or schedule; False if it was changed since it was read."""
        skipped: list[UUID] = []

        async def change_it(statements: Statements) -> Changed:
            return await change_workflow(statements, row, after, schedule, changed_by, skipped)

        try:
            changed = await with_days(self._database, skipped, lambda: transact_soon(self._database, change_it))
        except ChangedMeanwhileError:
            return False
        self._database.wake(workers=changed.workers, pools=changed.pools, gates=True, schedules=True)
        return True

    async def delete(self, namespace: str, workflow_id: UUID) -> bool:
        """Deletes a workflow and ends its schedule; its open runs are stopped by the caller."""

        async def delete_it(statements: Statements) -> bool:
            rows = await statements.fetch("delete_workflow", namespace=namespace, workflow_id=workflow_id)
            for row in rows:
                await _end_schedule(statements, namespace, row["job_id"])
            return bool(rows)

        return await transact_soon(self._database, delete_it)

    async def pause(self, row: Any, state: str) -> bool:
        """Pauses a workflow, or lets it go on ('active'); False: it was deleted."""
        skipped: list[UUID] = []

        async def pause_it(statements: Statements) -> tuple[bool, Changed]:
            return await set_workflow_state(statements, row, state, skipped)

        done, changed = await with_days(self._database, skipped, lambda: transact_soon(self._database, pause_it))
        self._database.wake(
            workers=changed.workers, pools=changed.pools, gates=True, schedules=True, flows=state != "paused"
        )
        return done

    async def find_all(self, namespace: str, *, owner: str | None, after: str, limit: int) -> list[Any]:
        """Workflows by name, from behind a name on; if definitions are large, the last ones come without theirs."""
        return await self._database.fetch(
            "list_workflows", namespace=namespace, owner=owner, after=after, limit=limit, bytes=_PAGE_BYTES
        )

    async def versions(self, namespace: str, workflow_id: UUID, limit: int) -> list[Any]:
        """Newest first."""
        return await self._database.fetch(
            "versions_of_workflow", namespace=namespace, workflow_id=workflow_id, limit=limit, bytes=_PAGE_BYTES
        )

    async def definition(self, namespace: str, workflow_id: UUID, version: str) -> str | None:
        """The text of a version."""
        row = await self._database.fetch_row(
            "workflow_definition", namespace=namespace, workflow_id=workflow_id, version=version
        )
        return None if row is None else row["definition"]

    async def list_runs(
        self,
        namespace: str,
        *,
        before: UUID,
        limit: int,
        workflow_id: UUID | None = None,
        owner: str | None = None,
        status: str | None = None,
        whole: bool = False,
    ) -> list[Any]:
        """Workflow runs, newest first, from before an id on; those that are parts of others only if `whole`."""
        return await self._database.fetch(
            "list_flows",
            namespace=namespace,
            before=before,
            limit=limit,
            workflow_id=workflow_id,
            owner=owner,
            outcome=status,
            whole=whole,
        )

    async def get(self, namespace: str, flow: UUID) -> tuple[Any, list[Any], Mapping[int, Members]] | None:
        """A workflow run, with its definition, its nodes that wait no more, and its maps."""

        async def look(statements: Statements) -> tuple[Any, list[Any], Mapping[int, Members]] | None:
            row = await statements.fetch_row("get_flow", namespace=namespace, flow=flow)
            if row is None:
                return None
            nodes = await statements.fetch("show_flow_nodes", namespace=namespace, flow=flow)
            return row, nodes, (await read_maps(statements, [row]))[flow]

        return await self._database.transact(look)

    async def resume(self, namespace: str, flow: UUID, decide: Decide) -> Any | None:
        """Begins the next generation: `decide` sees the locked row, its nodes and its maps. Gives the row as it was."""

        async def resume_it(statements: Statements) -> Any | None:
            row = await statements.fetch_row("lock_flow", namespace=namespace, flow=flow)
            if row is None:
                return None
            nodes = (await read_nodes(statements, [row]))[flow]
            maps = (await read_maps(statements, [row]))[flow]
            await write_resume(statements, row, decide(row, nodes, maps))
            return row

        row = await self._database.transact(resume_it)
        self._database.wake(flows=True)
        return row

    async def redo_members(self, namespace: str, flow: UUID, node: int, items: list[int] | None) -> int | None:
        """Failed members of a map that is open run again in this generation; None if it is not open, or fails."""

        async def redo(statements: Statements) -> int | None:
            await statements.fetch("lock_flow", namespace=namespace, flow=flow)
            marked: int | None = await statements.fetch_value(
                "redo_members", namespace=namespace, flow=flow, node=node, items=items
            )
            return marked

        marked = await self._database.transact(redo)
        self._database.wake(flows=True)
        return marked

    async def find_carried(self, namespace: str, run_id: UUID) -> UUID | None:
        """The workflow run that a run is."""
        flow: UUID | None = await self._database.fetch_value("carried_flow", namespace=namespace, run_id=run_id)
        return flow

    async def nodes_of(self, namespace: str, run_ids: Sequence[UUID]) -> list[Any]:
        """Which of these runs belong to nodes of workflow runs."""
        return await self._database.fetch("nodes_of_runs", namespace=namespace, run_ids=sorted(set(run_ids)))

    async def stop(self, namespace: str, flow: UUID, stopped_by: str) -> Any | None:
        """Stops a workflow run; gives it as it was before."""
        row = await self._database.fetch_row("stop_flow", namespace=namespace, flow=flow, stopped_by=stopped_by)
        self._database.wake(flows=True)
        return row

    async def signal(
        self, namespace: str, flow: UUID, name: str, payload: str | None, sent_by: str, key: SubmissionKey | None
    ) -> str:
        """Sends a signal; returns sent, ended, full or taken (see send_signal.sql)."""
        state: str = await self._database.fetch_value(
            "send_signal",
            namespace=namespace,
            flow=flow,
            name=name,
            payload=payload,
            sent_by=sent_by,
            most=MOST_SIGNALS,
            **_key_of(key),
        )
        self._database.wake(flows=True)
        return state

    async def decide(
        self, namespace: str, flow: UUID, node: int, *, outcome: str, result: str, reason: str | None
    ) -> bool:
        """Approves or rejects; False: that was done before."""
        rows = await self._database.fetch(
            "decide_wait", namespace=namespace, flow=flow, node=node, outcome=outcome, result=result, reason=reason
        )
        self._database.wake(flows=True)
        return bool(rows)

    async def failed_members(self, namespace: str, flow: UUID, node: int, *, after: int, limit: int) -> list[Any]:
        """Members of a map that failed, by item."""
        return await self._database.fetch(
            "failed_members", namespace=namespace, flow=flow, node=node, after=after, limit=limit
        )

    async def open_members(self, namespace: str, flow: UUID, node: int, *, after: UUID, limit: int) -> list[Any]:
        """Members of a map that have not ended, by id."""
        return await self._database.fetch(
            "open_members", namespace=namespace, flow=flow, node=node, after=after, limit=limit
        )

    async def results_of_map(self, namespace: str, flow: UUID, node: int, first: int) -> Any | None:
        """A part of what the members of a map returned."""
        return await self._database.fetch_row("results_of_map", namespace=namespace, flow=flow, node=node, first=first)


class ChangedMeanwhileError(RotaError):
    """The workflow has another revision than the one that was read."""


async def find_workflow(statements: Statements, namespace: str, name: str) -> Any | None:
    """A workflow by its name, with its definition."""
    return await statements.fetch_row("find_workflow", namespace=namespace, workflow_id=None, name=name)


async def create_workflow(
    statements: Statements, namespace: str, new: WorkflowRecord, schedule: Recurring | None
) -> bool:
    """Creates a workflow, and the recurring job that fires it; False: another workflow has the name."""
    if schedule is not None:
        await hold_calendars(statements, namespace, schedule.timetable.exclusion)
    rows = await statements.fetch(
        "create_workflow",
        namespace=namespace,
        workflow_id=new.id,
        name=new.name,
        owner=new.owner,
        version=new.version,
        definition=new.definition,
        deadline_seconds=new.deadline_seconds,
        schedule=new.schedule,
        timezone=new.timezone,
        job_id=new.id if schedule is None else schedule.id,
    )
    if rows and schedule is not None:
        await insert_jobs(statements, [schedule])
    return bool(rows)


async def change_workflow(
    statements: Statements,
    row: Any,
    after: WorkflowRecord,
    schedule: Recurring | None,
    changed_by: str,
    skipped: list[UUID],
) -> Changed:
    """Gives a workflow another definition or schedule; raises ChangedMeanwhileError if it is not as it was read."""
    changed = Changed()
    job_id = row["job_id"]
    if row["schedule"] != after.schedule:
        if schedule is not None:
            await hold_calendars(statements, row["namespace"], schedule.timetable.exclusion)
        job_id, changed = await _reschedule(statements, row, schedule, skipped)
    rows = await statements.fetch(
        "change_workflow",
        namespace=row["namespace"],
        workflow_id=row["id"],
        revision=row["revision"],
        version=after.version,
        definition=after.definition,
        deadline_seconds=after.deadline_seconds,
        schedule=after.schedule,
        timezone=after.timezone,
        job_id=job_id,
        changed_by=changed_by,
    )
    if not rows:
        raise ChangedMeanwhileError("the workflow was changed just now")
    return changed


async def set_workflow_state(statements: Statements, row: Any, state: str, skipped: list[UUID]) -> tuple[bool, Changed]:
    """Pauses a workflow, or lets it go on ('active'); False: it was deleted."""
    changed = Changed()
    job = await lock_job(statements, row["namespace"], row["job_id"])
    wanted = "paused" if state == "paused" else "scheduled"
    if job is not None and job["state"] in ("scheduled", "paused") and job["state"] != wanted:
        kept = msgspec.structs.replace(definition_of(job), payload=job["payload"], blob=None)
        change = JobChange(kept, job["payload_id"], timetable_of(job), wanted, reschedule=False)
        changed = await apply_change(statements, job, change, skipped)
    given = {"namespace": row["namespace"], "workflow_id": row["id"], "state": state}
    while rows := await statements.fetch("pause_workflow", **given):
        if not rows[0]["marked"]:
            break
    return bool(rows), changed


def _key_of(key: SubmissionKey | None) -> dict[str, Any]:
    return {
        "key": key and key.key,
        "request_hash": key and key.request_hash,
        "answer": key and key.answer,
    }


async def _reschedule(
    statements: Statements, row: Any, schedule: Recurring | None, skipped: list[UUID]
) -> tuple[UUID, Changed]:
    """Changes when a workflow fires; the recurring job that does it from now on."""
    job = await lock_job(statements, row["namespace"], row["job_id"])
    is_there = job is not None and job["state"] not in ("cancelled", "completed")
    if schedule is None:
        await _end_schedule(statements, row["namespace"], row["job_id"])
        return row["job_id"], Changed()
    if job is None or not is_there:
        await insert_jobs(statements, [schedule])
        return schedule.id, Changed()
    reschedule = schedule.timetable != timetable_of(job)
    change = JobChange(schedule.definition, schedule.id, schedule.timetable, job["state"], reschedule=reschedule)
    return row["job_id"], await apply_change(statements, job, change, skipped)


async def _end_schedule(statements: Statements, namespace: str, job_id: UUID) -> None:
    job = await lock_job(statements, namespace, job_id)
    if job is not None and job["state"] not in ("cancelled", "completed"):
        kept = msgspec.structs.replace(definition_of(job), payload=job["payload"], blob=None)
        change = JobChange(kept, job["payload_id"], timetable_of(job), "cancelled", reschedule=False)
        await write_job(statements, job, change, job["fired_through"])
