"""Workflows declared in code: made what the version of the application in force says, as its schedules are.

This runs in the transaction that reconciles the application (store/declare), under the lock of the application's row.
A workflow is known by its name. What the code said last is kept, so that a change made by hand stays until the code
says something new, and so does a deletion. A workflow that is no longer declared is paused, never deleted; one that is
declared again goes on. What a person paused stays paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec

from rota.contract.workflows import WorkflowIn
from rota.domain.ids import new_id, show_workflow
from rota.domain.job import STORED_BYTES
from rota.domain.rights import Caller
from rota.errors import BadInputError
from rota.gateway.calendars import CalendarDays
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_declarations import WorkflowDeclarations, decode_workflows
from rota.gateway.workflow_plans import plan_of
from rota.gateway.workflows import record_of, schedule_of
from rota.store.change import Changed
from rota.store.declare import Reconciled
from rota.store.declare.workflows import declared_elsewhere, declared_workflows, note_workflow
from rota.store.events import Event, record_events
from rota.store.flow.workflows import (
    WorkflowRecord,
    change_workflow,
    create_workflow,
    find_workflow,
    set_workflow_state,
)
from rota.store.lease import count_shards
from rota.store.postgres.database import Statements


async def apply_workflows(
    statements: Statements, namespace: str, text: str | None, done: Reconciled, skipped: list[UUID]
) -> None:
    """Makes the workflows of an application match its declarations (JSON; None: there are none)."""
    rows = await declared_workflows(statements, namespace, done.app)
    if not rows and text is None:
        return
    declared = decode_workflows(text) if text else WorkflowDeclarations("", [])
    work = _Work(statements, Caller(namespace, declared.owner), done, skipped, await statements.time())
    await work.apply(declared.workflows, {row["declared_name"]: row for row in rows})


class _Work:
    """One reconciliation."""

    def __init__(
        self, statements: Statements, caller: Caller, done: Reconciled, skipped: list[UUID], now: datetime
    ) -> None:
        self._statements = statements
        self._caller = caller
        self._done = done
        self._skipped = skipped
        self._now = now
        self._events: list[Event] = []

    async def apply(self, wanted: Sequence[WorkflowIn], rows: dict[str, Any]) -> None:
        for one in _children_first(wanted):
            row = rows.pop(one.name, None)
            try:
                await self._declare(one, row)
            except BadInputError as error:
                self._done.unreadable[one.name] = "; ".join(": ".join(field) for field in error.fields) or str(error)
        for row in rows.values():
            if row["id"] is not None and row["state"] == "active" and not row["paused_by_app"]:
                await self._pause(row)
        await record_events(self._statements, self._events)

    async def _declare(self, wanted: WorkflowIn, row: Any) -> None:
        builder = JobBuilder(
            shards=await count_shards(self._statements), payload_limit_bytes=STORED_BYTES, now=lambda: self._now
        )
        await self._check_children(wanted, plan_of(wanted, self._caller, builder).children)
        schedule = schedule_of(wanted, self._caller, builder, self._now)
        schedule = await CalendarDays(self._statements, lambda: self._now).attach_workflow(schedule)
        said = record_of(wanted, new_id(self._now.timestamp()), self._caller.owner)
        digest = _digest(said)
        is_new = row is None or row["declared"] != digest
        found = row if row is not None and row["id"] is not None else await self._of_others(wanted.name)
        if found is None:
            if is_new:
                await create_workflow(self._statements, self._caller.namespace, said, schedule)
                await self._note(wanted.name, said.id, digest)
                self._tell("declared", said.id, said.id, wanted.name)
            return
        after = msgspec.structs.replace(said, id=found["id"], owner=found["owner"])
        differs = (after.version, after.schedule) != (found["version"], found["schedule"])
        if is_new and differs:
            self._add(
                await change_workflow(self._statements, found, after, schedule, self._caller.owner, self._skipped)
            )
        resumes = row is not None and row["paused_by_app"]
        if resumes and found["state"] == "paused":
            self._add((await set_workflow_state(self._statements, found, "active", self._skipped))[1])
        if is_new or resumes:
            await self._note(wanted.name, found["id"], digest)
            self._tell("changed", found["id"], found["job_id"], wanted.name)

    async def _of_others(self, name: str) -> Any:
        """The workflow of this name that is there already; raises BadInputError unless the application may have it."""
        found = await self._find(name)
        if found is None:
            return None
        elsewhere = await declared_elsewhere(self._statements, self._caller.namespace, self._done.app, name)
        if elsewhere is not None:
            raise BadInputError(f"the application {elsewhere!r} declares a workflow of this name")
        if found["owner"] != self._caller.owner:
            raise BadInputError(f"there is a workflow of this name that belongs to {found['owner']!r}")
        return found

    async def _check_children(self, wanted: WorkflowIn, children: Set[str]) -> None:
        for name in sorted(children):
            if name == wanted.name:
                raise BadInputError("runs itself")
            if await self._find(name) is None:
                raise BadInputError(f"there is no workflow named {name!r}")

    async def _find(self, name: str) -> Any:
        return await find_workflow(self._statements, self._caller.namespace, name)

    async def _pause(self, row: Any) -> None:
        self._add((await set_workflow_state(self._statements, row, "paused", self._skipped))[1])
        await self._note(row["name"], row["id"], None, row["app_version"])
        self._done.paused[row["id"]] = row["name"]
        self._record("undeclared", row["id"], row["job_id"], row["name"])

    async def _note(self, name: str, workflow_id: UUID, digest: str | None, version: str | None = None) -> None:
        await note_workflow(
            self._statements,
            self._caller.namespace,
            self._done.app,
            name,
            workflow_id,
            declared=digest,
            version=version or self._done.version,
        )

    def _tell(self, kind: str, workflow_id: UUID, job_id: UUID, name: str) -> None:
        (self._done.made if kind == "declared" else self._done.changed)[workflow_id] = name
        self._record(kind, workflow_id, job_id, name)

    def _record(self, kind: str, workflow_id: UUID, job_id: UUID, name: str) -> None:
        words = f"{name} of {self._done.app}, version {self._done.version}"
        self._events.append(
            Event(self._caller.namespace, f"workflow.{kind}", show_workflow(workflow_id), words, job_id)
        )

    def _add(self, changed: Changed) -> None:
        self._done.told.workers |= changed.workers
        self._done.told.pools |= changed.pools


def _digest(record: WorkflowRecord) -> str:
    """Equal for declarations that say the same."""
    return sha256(f"{record.version}\n{record.schedule}".encode()).hexdigest()[:32]


def _children_first(workflows: Sequence[WorkflowIn]) -> Iterator[WorkflowIn]:
    """Workflows so that those which others run come first. What runs each other in a circle comes in any order: one of
    them does not find its child, and is refused."""
    left: Mapping[str, WorkflowIn] = {one.name: one for one in workflows}
    while left:
        ready = [name for name, one in left.items() if not _children(one) & (left.keys() - {name})] or list(left)
        yield from (left[name] for name in ready)
        left = {name: one for name, one in left.items() if name not in ready}


def _children(workflow: WorkflowIn) -> set[str]:
    return {node.workflow for node in workflow.nodes.values() if node.workflow is not None}
