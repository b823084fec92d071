"""What people do with workflows: create, run, look, cancel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.contract.workflows import NodeOut, WorkflowIn, WorkflowOut, WorkflowRunOut, WorkflowRunStarted
from rota.domain.ids import new_id, parse_workflow, parse_workflow_run, shard_of, show_run, show_workflow
from rota.domain.ids import show_workflow_run as show_flow
from rota.domain.rights import Caller
from rota.domain.workflows.graph import Graph, Node
from rota.domain.workflows.progress import NodeState, to_resume
from rota.errors import BadInputError, ConflictError, DuplicateError, NotFoundError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import canonical, check_inputs, plan_of, read_definition
from rota.store.flow import NewFlow, NodeRow, Resume, Workflows

_SKIPS: Mapping[str, Any] = {"skipped_by_condition": "condition", "skipped_by_failure": "failure"}


class WorkflowGateway:
    """Workflows of one database."""

    def __init__(self, workflows: Workflows, builder: JobBuilder, *, shards: int, now: Callable[[], datetime]) -> None:
        self._workflows = workflows
        self._builder = builder
        self._shards = shards
        self._now = now

    async def create(self, wanted: WorkflowIn, caller: Caller) -> WorkflowOut:
        """Creates a workflow; raises BadInputError, or DuplicateError if there is one of this name."""
        plan_of(wanted, caller, self._builder)
        text, version = canonical(wanted)
        workflow_id = new_id(self._now().timestamp())
        made = await self._workflows.create(
            caller.namespace, workflow_id, wanted.name, caller.owner, version, text, workflow_id
        )
        if not made:
            raise DuplicateError(f"there is a workflow named {wanted.name!r} already")
        return await self.show(show_workflow(workflow_id), caller)

    async def show(self, workflow: str, caller: Caller) -> WorkflowOut:
        """A workflow, by its id or name."""
        return _shown(await self._find(workflow, caller))

    async def run(self, workflow: str, inputs: Mapping[str, Any], caller: Caller) -> WorkflowRunStarted:
        """Starts a run of a workflow."""
        while True:
            row = await self._find(workflow, caller)
            wanted = read_definition(row["definition"])
            values = check_inputs(inputs, wanted.inputs)
            flow = new_id(self._now().timestamp())
            text = msgspec.json.encode(values).decode() if values else None
            new = NewFlow(flow, shard_of(flow, self._shards), text, wanted.deadline_seconds)
            if await self._workflows.open(caller.namespace, row["id"], row["version"], new):
                return WorkflowRunStarted(workflow_run_id=show_flow(flow), status="running")
            # It was changed just now: the next look sees the new version, or that it is gone.

    async def show_run(self, run: str, caller: Caller) -> WorkflowRunOut:
        """A workflow run with its nodes."""
        found = await self._workflows.get(caller.namespace, parse_workflow_run(run))
        if found is None:
            raise NotFoundError("there is no such workflow run")
        return _shown_run(*found)

    async def cancel(self, run: str, caller: Caller) -> WorkflowRunOut:
        """Stops a workflow run: nothing of it starts any more, and what runs is asked to stop."""
        flow = parse_workflow_run(run)
        row = await self._workflows.stop(caller.namespace, flow, caller.owner)
        if row is None:
            raise NotFoundError("there is no such workflow run")
        if row["outcome"] is not None and row["outcome"] != "cancelled":
            raise ConflictError(f"the workflow run has ended: {row['outcome']}")
        return await self.show_run(run, caller)

    async def resume(
        self, run: str, caller: Caller, *, generation: int | None = None, nodes: Sequence[str] | None = None
    ) -> WorkflowRunOut:
        """Runs failed nodes again, or the named ones, and all after them: the next generation of the workflow run.

        `generation`: the one that was seen; raises ConflictError if another resume came first.
        """
        flow = parse_workflow_run(run)
        found = await self._workflows.get(caller.namespace, flow)
        if found is None:
            raise NotFoundError("there is no such workflow run")
        wanted = read_definition(found[0]["definition"])
        graph = plan_of(wanted, caller, self._builder).graph
        chosen = None if nodes is None else _chosen(graph, nodes)

        def decide(row: Any, rows: dict[int, NodeRow]) -> Resume:
            _check_resume(row, generation)
            states = {number: _state_of(node) for number, node in rows.items() if node.state != "waiting"}
            is_over = row["ended_at"] is not None
            roots = to_resume(graph, states, is_over=is_over) if chosen is None else chosen
            if not roots:
                raise ConflictError("there is nothing to resume: name the nodes that shall run again")
            again = roots | graph.descendants(roots)
            if running := sorted(
                graph.nodes[one].key for one in again if one in states and states[one].state == "open"
            ):
                raise ConflictError(f"these nodes have not ended yet: {', '.join(running[:10])}")
            same = {one for one in roots if not any(before in again for before in graph.before[one])}
            carrier = new_id(self._now().timestamp())
            return Resume(again, same, carrier, wanted.deadline_seconds)

        if await self._workflows.resume(caller.namespace, flow, decide) is None:
            raise NotFoundError("there is no such workflow run")
        return await self.show_run(run, caller)

    async def _find(self, workflow: str, caller: Caller) -> Any:
        by_id = _id_of(workflow)
        row = await self._workflows.find(caller.namespace, workflow_id=by_id, name=None if by_id else workflow)
        if row is None or row["state"] == "deleted":
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


def _shown_run(row: Any, nodes: list[Any]) -> WorkflowRunOut:
    wanted = read_definition(row["definition"])
    keys = sorted(wanted.nodes)
    graph = Graph([Node(key, tuple(wanted.nodes[key].after), wanted.nodes[key].trigger) for key in keys])
    by_number = {node["node"]: node for node in nodes if node["state"] != "waiting"}
    stopping = row["stop"] is not None and row["stop"] != "failure" and row["outcome"] is None
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
        nodes={key: _shown_node(number, graph, by_number) for number, key in enumerate(keys)},
    )


def _shown_node(number: int, graph: Graph, nodes: Mapping[int, Any]) -> NodeOut:
    row = nodes.get(number)
    if row is None:
        left = {
            graph.nodes[one].key: "waiting" if one not in nodes else nodes[one]["run_status"] or "running"
            for one in graph.before[number]
            if one not in nodes or nodes[one]["state"] == "open"
        }
        return NodeOut(status="waiting", waiting_for=left)
    kind = _SKIPS.get(row["state"])
    status: Any = "skipped" if kind else row["run_status"] or "running" if row["state"] == "open" else row["state"]
    return NodeOut(
        status=status,
        run_id=None if row["run_id"] is None else show_run(row["run_id"]),
        start_time=row["opened_at"],
        end_time=row["ended_at"],
        reason=row["reason"],
        skipped_by=kind,
        culprit=row["culprit"],
        generation=row["generation"],
    )
