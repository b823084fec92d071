"""Workflow runs as they are stored: what a conductor reads of them, and what it writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import INLINE_PAYLOAD_BYTES, Definition
from rota.domain.workflows.progress import Members
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Statements

NOTES_PER_ROUND = 1000
_MEMBERS_PER_ROUND = 20_000


class FlowNote(msgspec.Struct, frozen=True):
    """The run of a node ended; without a node: the workflow run is to be looked at."""

    flow: UUID
    node: int | None
    run_id: UUID | None
    outcome: str | None
    result: str | None
    result_blob: str | None
    reason: str | None
    noted_at: float
    is_signalled: bool  # whether its workflow run has signals that no wait took


class NodeRow(msgspec.Struct):
    """A node that waits no more, as it is stored."""

    node: int
    state: str
    generation: int
    inputs_of: int = 1
    run_id: UUID | None = None
    adds: bool = False
    reason: str | None = None
    culprit: str | None = None
    ended_at: float | None = None
    result: str | None = None
    result_blob: str | None = None


class NodeRun(msgspec.Struct, frozen=True):
    """A run to be made of a node."""

    id: UUID
    node: int
    definition: Definition
    root_id: UUID


class NewChild(msgspec.Struct, frozen=True):
    """A workflow run to be opened for a node."""

    id: UUID
    node: int
    root_id: UUID
    shard: int
    owner: str
    name: str
    inputs: str | None
    workflow_id: UUID
    version: str
    deadline_seconds: float | None
    pins: str | None
    definition: str | None = None  # of nodes that a node added


class NewWait(msgspec.Struct, frozen=True):
    """A wait to be opened."""

    node: int
    mark: UUID
    wakes_at: float | None
    outcome: str
    signal: str | None
    approvers: str | None


class NewMap(msgspec.Struct, frozen=True):
    """A map to be opened: its items as JSON, or the key of an object with one item per line."""

    node: int
    inputs_of: int
    items: str | None
    object: str | None
    window: int
    tolerated: int | None
    tolerated_percent: float | None
    stops: bool


class Advance(msgspec.Struct):
    """What changes in a workflow run in one transaction."""

    row: Any
    nodes: list[NodeRow] = msgspec.field(default_factory=list)
    runs: list[NodeRun] = msgspec.field(default_factory=list)
    children: list[NewChild] = msgspec.field(default_factory=list)
    # Children, as which runs they go on, of which nodes.
    resumed: list[tuple[UUID, UUID, int]] = msgspec.field(default_factory=list)
    waits: list[NewWait] = msgspec.field(default_factory=list)
    maps: list[NewMap] = msgspec.field(default_factory=list)
    reopened: list[int] = msgspec.field(default_factory=list)  # maps that make again what failed
    stop: str | None = None
    outcome: str | None = None
    culprit: str | None = None
    result: str | None = None
    pins: str | None = None
    again: bool = False

    @property
    def flow(self) -> UUID:
        flow: UUID = self.row["id"]
        return flow


class Round(msgspec.Struct):
    """What a round did."""

    advanced: list[Advance] = msgspec.field(default_factory=list)
    notes: int = 0
    pools: set[str] = msgspec.field(default_factory=set)  # that have new work
    gated: bool = False  # whether some went to their gates


async def take_notes(statements: Statements, flows: Sequence[UUID]) -> list[FlowNote]:
    rows = await statements.fetch("take_flow_notes", flows=list(flows), limit=NOTES_PER_ROUND)
    return sorted((FlowNote(*row) for row in rows), key=lambda note: note.noted_at)


async def read_nodes(statements: Statements, rows: Sequence[Any]) -> dict[UUID, dict[int, NodeRow]]:
    """The nodes of workflow runs that wait no more."""
    found: dict[UUID, dict[int, NodeRow]] = {row["id"]: {} for row in rows}
    namespaces = sorted({row["namespace"] for row in rows})
    for flow, *node in await statements.fetch("flow_nodes", namespaces=namespaces, flows=list(found)):
        found[flow][node[0]] = NodeRow(*node)
    return found


async def fold_members(statements: Statements, rows: Sequence[Any]) -> dict[UUID, list[int]]:
    """Counts members of maps that ended; gives the maps that changed, by workflow run."""
    changed: dict[UUID, list[int]] = {row["id"]: [] for row in rows}
    if not changed:
        return changed
    for row in await statements.fetch("fold_members", flows=list(changed), limit=_MEMBERS_PER_ROUND):
        changed[row["flow"]].append(row["node"])
    return changed


async def read_maps(statements: Statements, rows: Sequence[Any]) -> dict[UUID, dict[int, Members]]:
    """The maps of workflow runs."""
    found: dict[UUID, dict[int, Members]] = {row["id"]: {} for row in rows}
    if not found:
        return found
    namespaces = sorted({row["namespace"] for row in rows})
    for flow, node, *counts in await statements.fetch("maps_of_flows", namespaces=namespaces, flows=list(found)):
        found[flow][node] = Members(*counts)
    return found


async def read_results(
    statements: Statements, namespace: str, flow: UUID, nodes: Iterable[int]
) -> Mapping[int, tuple[str | None, str | None]]:
    """The results of some nodes: the text, or its key in object storage."""
    rows = await statements.fetch("node_results", namespace=namespace, flow=flow, nodes=list(nodes))
    return {row["node"]: (row["result"], row["result_blob"]) for row in rows}


async def failed_children(statements: Statements, namespace: str, run_ids: Sequence[UUID]) -> set[UUID]:
    """Which of these runs are workflow runs that ended without success."""
    rows = await statements.fetch("failed_children", namespace=namespace, run_ids=list(run_ids))
    return {row["carrier_id"] for row in rows}


async def lock_parent(statements: Statements, row: Any) -> Any | None:
    """The workflow run that this one is a part of, which is not stopped before the transaction ends; None: another one
    holds it."""
    return await statements.fetch_row("parent_of_flow", namespace=row["namespace"], flow=row["job_id"])


async def note_resume(statements: Statements, row: Any, note: FlowNote) -> None:
    """Leaves a note to resume a part for a later round."""
    again = [(row["namespace"], row["carrier_id"], note.run_id, note.node)]
    await statements.fetch("resume_children", **columns(again, "namespaces children carriers nodes"))


async def stop_part(statements: Statements, row: Any) -> None:
    """Stops a part of a workflow run that is stopped."""
    await statements.fetch("stop_flow", namespace=row["namespace"], flow=row["id"], stopped_by=None)


async def find_workflow(statements: Statements, namespace: str, name: str) -> Any | None:
    """A workflow by its name."""
    return await statements.fetch_row("find_workflow", namespace=namespace, workflow_id=None, name=name)


async def write_round(statements: Statements, done: Round) -> None:
    """Writes what changes in workflow runs that are locked."""
    advanced = done.advanced
    if any(one.nodes for one in advanced):
        await _write_nodes(statements, advanced)
    if any(one.maps or one.reopened for one in advanced):
        await _open_maps(statements, advanced)
    if any(one.waits for one in advanced):
        await _open_waits(statements, advanced)
    if any(one.children or one.resumed for one in advanced):
        await _open_children(statements, advanced)
    if any(one.runs for one in advanced):
        for row in await _make_runs(statements, advanced):
            done.pools.add(row["pool"])
            done.gated |= row["gated"]
    if advanced:
        ends = (
            (one.row["namespace"], one.flow, one.stop, one.outcome, one.culprit, one.result, one.pins, one.again)
            for one in advanced
        )
        names = "namespaces flows stops outcomes culprits results pins again"
        await statements.fetch("advance_flows", **columns(ends, names))


async def _write_nodes(statements: Statements, advanced: Sequence[Advance]) -> None:
    rows = (
        (
            one.row["namespace"],
            one.flow,
            node.node,
            node.state,
            node.generation,
            node.inputs_of,
            node.run_id,
            node.adds,
            node.result,
            node.result_blob,
            node.reason,
            node.culprit,
            node.ended_at,
        )
        for one in advanced
        for node in one.nodes
    )
    names = (
        "namespaces flows nodes states generations inputs_of run_ids adds results result_blobs reasons culprits"
        " ended_at"
    )
    await statements.fetch("write_flow_nodes", **columns(rows, names))


async def _open_maps(statements: Statements, advanced: Sequence[Advance]) -> None:
    new = [
        (
            one.row["namespace"],
            one.flow,
            it.node,
            one.row["shard"],
            one.row["generation"],
            it.inputs_of,
            it.items,
            it.object,
            it.window,
            it.tolerated,
            it.tolerated_percent,
            it.stops,
        )
        for one in advanced
        for it in one.maps
    ]
    if new:
        names = "namespaces flows nodes shards generations inputs_of items objects windows tolerated percents stops"
        await statements.fetch("open_maps", **columns(new, names))
    again = [(one.row["namespace"], one.flow, node, one.row["generation"]) for one in advanced for node in one.reopened]
    if again:
        await statements.fetch("reopen_maps", **columns(again, "namespaces flows nodes generations"))


async def _open_waits(statements: Statements, advanced: Sequence[Advance]) -> None:
    rows = (
        (
            one.row["namespace"],
            one.flow,
            wait.node,
            wait.mark,
            one.row["shard"],
            wait.wakes_at,
            wait.outcome,
            wait.signal,
            wait.approvers,
        )
        for one in advanced
        for wait in one.waits
    )
    names = "namespaces flows nodes marks shards wakes_at outcomes signals approvers"
    await statements.fetch("open_waits", **columns(rows, names))


async def _open_children(statements: Statements, advanced: Sequence[Advance]) -> None:
    kept = [
        (one.row["namespace"], child.workflow_id, child.version, child.definition, one.row["owner"])
        for one in advanced
        for child in one.children
        if child.definition is not None
    ]
    if kept:
        names = "namespaces workflow_ids versions definitions created_by"
        await statements.fetch("keep_additions", **columns(kept, names))
    opened = [
        (
            one.row["namespace"],
            child.id,
            one.flow,
            child.node,
            child.owner,
            child.name,
            child.inputs,
            "{}",
            "node",
            child.root_id,
            child.shard,
            one.row["nominal_at"],
            child.workflow_id,
            child.version,
            one.row["timezone"],
            one.row["root"],
            one.row["depth"] + 1,
            child.pins,
            one.row["is_paused"],
            child.deadline_seconds,
            one.row["deadline_at"],
        )
        for one in advanced
        for child in one.children
    ]
    if opened:
        names = (
            "namespaces ids flows nodes owners names payloads options causes root_ids shards nominal_at workflow_ids"
            " versions timezones roots depths pins is_paused deadline_seconds deadline_at"
        )
        await statements.fetch("open_children", **columns(opened, names))
    resumed = [(one.row["namespace"], *child) for one in advanced for child in one.resumed]
    if resumed:
        await statements.fetch("resume_children", **columns(resumed, "namespaces children carriers nodes"))


async def _make_runs(statements: Statements, advanced: Sequence[Advance]) -> list[Any]:
    rows = (
        (
            one.row["namespace"],
            run.id,
            one.flow,
            run.node,
            run.definition.owner,
            run.definition.name,
            run.definition.task,
            run.definition.pool,
            run.definition.priority,
            ",".join(run.definition.tags),
            run.definition.payload,
            run.definition.options,
            run.root_id,
            one.row["shard"],
            one.row["nominal_at"],
            run.definition.policies,
        )
        for one in advanced
        for run in one.runs
    )
    names = (
        "namespaces ids flows nodes owners names tasks pools priorities tags payloads options root_ids shards"
        " nominal_at policies"
    )
    return await statements.fetch("make_node_runs", **columns(rows, names), inline_bytes=INLINE_PAYLOAD_BYTES)


class Resume(msgspec.Struct, frozen=True):
    """The nodes that run again; `same_inputs`: those of them that did not fail because of others. `maps`: the maps of
    which only members that failed run again, all of them or those of these items."""

    nodes: set[int]
    same_inputs: set[int]
    maps: set[int]
    carrier_id: UUID
    deadline_seconds: float | None
    deadline_at: datetime | None = None
    items: list[int] | None = None
    version: str | None = None  # None: the one that it has
    node: int | None = None  # whose run it is; None: as it was
    numbers: dict[int, int] | None = None  # of another version: the new numbers of its nodes


async def write_resume(statements: Statements, row: Any, wanted: Resume) -> None:
    """Begins the next generation of a workflow run that is locked."""
    if wanted.numbers is not None:
        pairs = columns(wanted.numbers.items(), "before after")
        key = {"namespace": row["namespace"], "flow": row["id"]}
        await statements.fetch("renumber_nodes", **key, **pairs)
        await statements.fetch("renumber_maps", **key, **pairs)
        await statements.fetch("renumber_failures", **key, **pairs)
        await statements.fetch("renumber_results", **key, **pairs)
    await statements.fetch(
        "resume_flow",
        namespace=row["namespace"],
        flow=row["id"],
        version=wanted.version or row["version"],
        node=wanted.node,
        carrier_id=wanted.carrier_id,
        deadline_seconds=wanted.deadline_seconds,
        deadline_at=wanted.deadline_at,
        nodes=sorted(wanted.nodes),
        same_inputs=sorted(wanted.same_inputs),
        maps=sorted(wanted.maps),
        items=wanted.items,
    )
