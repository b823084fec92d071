"""What people do with workflows: create, change, run, look, cancel, resume.

`only` is the owner whose workflows a caller may see; None: all of the namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from rota.contract.jobs import JobIn
from rota.contract.workflows import (
    MembersOut,
    NodeOut,
    VersionList,
    VersionOut,
    WorkflowIn,
    WorkflowList,
    WorkflowOut,
    WorkflowRunList,
    WorkflowRunOut,
    WorkflowRunStarted,
)
from rota.domain.ids import LAST_ID, new_id, parse_workflow, parse_workflow_run, shard_of, show_run, show_workflow
from rota.domain.ids import show_workflow_run as show_flow
from rota.domain.job import WORKFLOW_TASK, Recurring, SubmissionKey
from rota.domain.policies import decode_policies, encode_policies
from rota.domain.rights import Caller
from rota.domain.workflows.graph import Graph, Node
from rota.domain.workflows.progress import Members, NodeState, to_resume
from rota.errors import (
    BadInputError,
    ConflictError,
    DuplicateError,
    KeyReusedError,
    NotFoundError,
    VersionMismatchError,
)
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import canonical, check_inputs, plan_of, read_definition
from rota.store.flow import NewFlow, NewWorkflow, NodeRow, Resume, Workflows
from rota.store.submit import Submissions

_MOST_VERSIONS = 100
_AT_ONCE = 100
_encoder = msgspec.json.Encoder()
_started = msgspec.json.Decoder(WorkflowRunStarted)
_SKIPS: Mapping[str, Any] = {"skipped_by_condition": "condition", "skipped_by_failure": "failure"}


class WorkflowGateway:
    """Workflows of one database."""

    def __init__(
        self,
        workflows: Workflows,
        submissions: Submissions,
        builder: JobBuilder,
        *,
        shards: int,
        now: Callable[[], datetime],
    ) -> None:
        self._workflows = workflows
        self._submissions = submissions
        self._builder = builder
        self._shards = shards
        self._now = now

    async def create(self, wanted: WorkflowIn, caller: Caller) -> WorkflowOut:
        """Creates a workflow; raises BadInputError, or DuplicateError if there is one of this name."""
        plan_of(wanted, caller, self._builder)
        text, version = canonical(wanted)
        workflow_id = new_id(self._now().timestamp())
        new = NewWorkflow(workflow_id, wanted.name, caller.owner, version, text, wanted.deadline_seconds)
        if not await self._workflows.create(caller.namespace, new, self._schedule(wanted, caller)):
            raise DuplicateError(f"there is a workflow named {wanted.name!r} already")
        return await self.show(show_workflow(workflow_id), caller)

    def _schedule(self, wanted: WorkflowIn, caller: Caller) -> Recurring | None:
        """The recurring job that fires a workflow."""
        if wanted.schedule is None:
            return None
        values = check_inputs(wanted.schedule.inputs, wanted.inputs)
        given = {name: getattr(wanted.schedule, name) for name in wanted.schedule.__struct_fields__ if name != "inputs"}
        kind: Any = "interval" if wanted.schedule.cron_expression is None else "cron"
        payload = msgspec.Raw(_encoder.encode(values)) if values else UNSET
        job = JobIn(name=wanted.name, schedule_type=kind, task=WORKFLOW_TASK, payload=payload, max_retries=0, **given)
        try:
            item, _ = self._builder.prepare(job, caller, self._now(), None)
        except BadInputError as error:
            error.fields = [(f"schedule.{field}", message) for field, message in error.fields]
            raise
        if not isinstance(item, Recurring):
            raise BadInputError("needs cronExpression or everySeconds", field="schedule")
        policies = msgspec.structs.replace(decode_policies(item.definition.policies), opens=True)
        definition = msgspec.structs.replace(item.definition, policies=encode_policies(policies))
        return msgspec.structs.replace(item, definition=definition)

    async def show(self, workflow: str, caller: Caller, only: str | None = None) -> WorkflowOut:
        """A workflow, by its id or name."""
        return _shown(await self._find(workflow, caller, only))

    async def show_all(self, caller: Caller, only: str | None, after: str, limit: int) -> WorkflowList:
        """A page of workflows, by name."""
        rows = await self._workflows.find_all(caller.namespace, owner=only, after=after, limit=limit + 1)
        items = [_shown(row) for row in rows[:limit]]
        return WorkflowList(items=items, next_cursor=items[-1].name if len(rows) > limit else None)

    async def versions(self, workflow: str, caller: Caller, only: str | None = None) -> VersionList:
        """The versions of a workflow, newest first."""
        row = await self._find(workflow, caller, only)
        rows = await self._workflows.versions(caller.namespace, row["id"], _MOST_VERSIONS)
        return VersionList(items=[_shown_version(one) for one in rows])

    async def change(
        self, workflow: str, wanted: WorkflowIn, caller: Caller, *, only: str | None = None, revision: int | None = None
    ) -> tuple[WorkflowOut, WorkflowOut]:
        """Gives a workflow another definition, for runs that are opened from now on; it as it was, and as it is."""
        row = await self._find(workflow, caller, only)
        if revision is not None and row["revision"] != revision:
            raise VersionMismatchError(f"the workflow's revision is {row['revision']}, not {revision}")
        if wanted.name != row["name"]:
            raise BadInputError(f"a workflow keeps its name: {row['name']!r}", field="name")
        plan_of(wanted, Caller(namespace=caller.namespace, owner=row["owner"]), self._builder)
        text, version = canonical(wanted)
        if version != row["version"] and not await self._workflows.change(
            row, version, text, caller.owner, wanted.deadline_seconds
        ):
            raise VersionMismatchError("the workflow was changed just now; look again")
        return _shown(row), await self.show(show_workflow(row["id"]), caller)

    async def delete(self, workflow: str, caller: Caller, only: str | None = None) -> WorkflowOut:
        """Deletes a workflow and stops its open runs."""
        row = await self._find(workflow, caller, only)
        await self._workflows.delete(caller.namespace, row["id"])
        before = LAST_ID
        while flows := await self._workflows.list_runs(
            caller.namespace, before=before, limit=_AT_ONCE, workflow_id=row["id"], status="running"
        ):
            for flow in flows:
                await self._workflows.stop(caller.namespace, flow["id"], caller.owner)
            before = flows[-1]["id"]
        shown = _shown(row)
        shown.status = "deleted"
        return shown

    async def run(
        self,
        workflow: str,
        inputs: Mapping[str, Any],
        caller: Caller,
        *,
        only: str | None = None,
        key: str | None = None,
        request_hash: bytes = b"",
    ) -> WorkflowRunStarted:
        """Starts a run of a workflow; a repeat with the same key gets the first answer."""
        while True:
            row = await self._find(workflow, caller, only)
            wanted = read_definition(row["definition"])
            flow = new_id(self._now().timestamp())
            answer = WorkflowRunStarted(workflow_run_id=show_flow(flow), status="running")
            stored = None
            if key is not None:
                stored = SubmissionKey(caller.own(key), request_hash, _encoder.encode(answer).decode())
                if (known := await self._first_answer(stored, caller)) is not None:
                    return known
            values = check_inputs(inputs, wanted.inputs)
            text = _encoder.encode(values).decode() if values else None
            new = NewFlow(flow, shard_of(flow, self._shards), text, stored)
            if (await self._workflows.open(caller.namespace, row["id"], row["version"], new))["opened"]:
                return answer
            # It was changed just now, or a request with the same key came first: the next look sees it.

    async def _first_answer(self, key: SubmissionKey, caller: Caller) -> WorkflowRunStarted | None:
        pair = (caller.namespace, key.key)
        known = (await self._submissions.find_keys([pair])).get(pair)
        if known is None:
            return None
        if known.request_hash != key.request_hash:
            raise KeyReusedError("this idempotency key was used with another request within the last 24 hours")
        return _started.decode(known.answer)

    async def show_run(self, run: str, caller: Caller, only: str | None = None) -> WorkflowRunOut:
        """A workflow run with its nodes."""
        return _shown_run(*await self._get(run, caller, only))

    async def show_runs(
        self, caller: Caller, only: str | None, *, workflow: str | None, status: str | None, cursor: str, limit: int
    ) -> WorkflowRunList:
        """A page of workflow runs, newest first, without their nodes."""
        workflow_id = None if workflow is None else (await self._find(workflow, caller, only))["id"]
        before = parse_workflow_run(cursor) if cursor else LAST_ID
        rows = await self._workflows.list_runs(
            caller.namespace, before=before, limit=limit + 1, workflow_id=workflow_id, owner=only, status=status
        )
        items = [_shown_run(row) for row in rows[:limit]]
        return WorkflowRunList(items=items, next_cursor=items[-1].workflow_run_id if len(rows) > limit else None)

    async def cancel(self, run: str, caller: Caller, only: str | None = None) -> WorkflowRunOut:
        """Stops a workflow run: nothing of it starts any more, and what runs is asked to stop."""
        await self._get(run, caller, only)
        row = await self._workflows.stop(caller.namespace, parse_workflow_run(run), caller.owner)
        if row is not None and row["outcome"] is not None and row["outcome"] != "cancelled":
            raise ConflictError(f"the workflow run has ended: {row['outcome']}")
        return await self.show_run(run, caller)

    async def resume(
        self,
        run: str,
        caller: Caller,
        *,
        only: str | None = None,
        generation: int | None = None,
        nodes: Sequence[str] | None = None,
    ) -> WorkflowRunOut:
        """Runs failed nodes again, or the named ones, and all after them: the next generation of the workflow run.

        `generation`: the one that was seen; raises ConflictError if another resume came first.
        """
        row, _, _ = await self._get(run, caller, only)
        wanted = read_definition(row["definition"])
        graph = plan_of(wanted, caller, self._builder).graph
        chosen = None if nodes is None else _chosen(graph, nodes)

        def decide(row: Any, rows: dict[int, NodeRow]) -> Resume:
            _check_resume(row, generation)
            states = {number: _state_of(node) for number, node in rows.items() if node.state != "waiting"}
            roots = to_resume(graph, states, is_over=row["ended_at"] is not None) if chosen is None else chosen
            if not roots:
                raise ConflictError("there is nothing to resume: name the nodes that shall run again")
            again = roots | graph.descendants(roots)
            running = sorted(graph.nodes[one].key for one in again if one in states and states[one].state == "open")
            if running:
                raise ConflictError(f"these nodes have not ended yet: {', '.join(running[:10])}")
            same = {one for one in roots if not any(before in again for before in graph.before[one])}
            return Resume(again, same, new_id(self._now().timestamp()), wanted.deadline_seconds)

        await self._workflows.resume(caller.namespace, row["id"], decide)
        return await self.show_run(run, caller)

    async def _get(self, run: str, caller: Caller, only: str | None) -> tuple[Any, list[Any], Mapping[int, Members]]:
        found = await self._workflows.get(caller.namespace, parse_workflow_run(run))
        if found is None or (only is not None and found[0]["owner"] != only):
            raise NotFoundError("there is no such workflow run")
        return found

    async def _find(self, workflow: str, caller: Caller, only: str | None = None) -> Any:
        by_id = _id_of(workflow)
        row = await self._workflows.find(caller.namespace, workflow_id=by_id, name=None if by_id else workflow)
        if row is None or row["state"] == "deleted" or (only is not None and row["owner"] != only):
            raise NotFoundError("there is no such workflow")
        return row


def _id_of(text: str) -> UUID | None:
    return parse_workflow(text) if text.startswith("wf_") and len(text) == len("wf_") + 32 else None


def _chosen(graph: Graph, keys: Sequence[str]) -> set[int]:
    for key in keys:
        if key not in graph.number_of:
            raise BadInputError(f"{key!r} is no node of the workflow", field="nodes")
    return {graph.number_of[key] for key in keys}


def _check_resume(row: Any, generation: int | None) -> None:
    if generation is not None and row["generation"] != generation:
        raise ConflictError(f"the workflow run is at generation {row['generation']}, not {generation}")
    if row["ended_at"] is None and row["stop"] is not None:
        raise ConflictError("the workflow run is being stopped; resume it when it has ended")


def _state_of(node: NodeRow) -> NodeState:
    state: Any = node.state
    return NodeState(state, node.generation)


def _shown(row: Any) -> WorkflowOut:
    wanted = read_definition(row["definition"])
    return WorkflowOut(
        workflow_id=show_workflow(row["id"]),
        name=row["name"],
        owner=row["owner"],
        status=row["state"],
        version=row["version"],
        revision=row["revision"],
        nodes=wanted.nodes,
        inputs=wanted.inputs,
        fail_fast=wanted.fail_fast,
        deadline_seconds=wanted.deadline_seconds,
        created_at=row["created_at"],
        changed_at=row["changed_at"],
    )


def _shown_version(row: Any) -> VersionOut:
    return VersionOut(
        version=row["version"],
        number=row["number"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        nodes=read_definition(row["definition"]).nodes,
    )


def _shown_run(row: Any, nodes: list[Any] | None = None, maps: Mapping[int, Members] | None = None) -> WorkflowRunOut:
    stopping = row["stop"] is not None and row["stop"] != "failure"
    return WorkflowRunOut(
        workflow_run_id=show_flow(row["id"]),
        workflow_id=show_workflow(row["workflow_id"]),
        name=row["name"],
        owner=row["owner"],
        status=row["outcome"] or ("cancelling" if stopping else "running"),
        version=row["version"],
        generation=row["generation"],
        start_time=row["opened_at"],
        end_time=row["ended_at"],
        deadline=row["deadline_at"],
        culprit=row["culprit"],
        nodes=None if nodes is None else _shown_nodes(row, nodes, maps or {}),
    )


def _shown_nodes(row: Any, nodes: list[Any], maps: Mapping[int, Members]) -> dict[str, NodeOut]:
    wanted = read_definition(row["definition"])
    keys = sorted(wanted.nodes)
    graph = Graph([Node(key, tuple(wanted.nodes[key].after), wanted.nodes[key].trigger) for key in keys])
    by_number = {node["node"]: node for node in nodes if node["state"] != "waiting"}
    return {key: _shown_node(number, graph, by_number, maps.get(number)) for number, key in enumerate(keys)}


def _shown_node(number: int, graph: Graph, nodes: Mapping[int, Any], members: Members | None) -> NodeOut:
    row = nodes.get(number)
    if row is None:
        left = {
            graph.nodes[one].key: "waiting" if one not in nodes else nodes[one]["run_status"] or "running"
            for one in graph.before[number]
            if one not in nodes or nodes[one]["state"] == "open"
        }
        return NodeOut(status="waiting", waiting_for=left)
    kind = _SKIPS.get(row["state"])
    status: Any = row["state"] if row["state"] != "open" else row["run_status"] or "running"
    return NodeOut(
        status="skipped" if kind else status,
        run_id=None if row["run_id"] is None else show_run(row["run_id"]),
        start_time=row["opened_at"],
        end_time=row["ended_at"],
        reason=row["reason"],
        skipped_by=kind,
        culprit=row["culprit"],
        generation=row["generation"],
        members=None if members is None else _shown_members(members),
    )


def _shown_members(members: Members) -> MembersOut:
    counts = members.handle
    return MembersOut(
        total=counts["total"] if members.is_made else None,
        success=counts["success"],
        failed=members.failed,
        skipped=members.skipped,
        running=members.made - members.ended,
    )
