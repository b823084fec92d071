"""Workflow runs: their state, and the transaction in which a conductor moves them on.

Whoever makes or stops runs of a workflow run locks its row first. Notes of ends are deleted in the transaction that
acts on them: a second scheduler waits at the row, or passes it over, and finds the notes gone; one that dies leaves all
as it was. The lease of a shard only spreads the work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import INLINE_PAYLOAD_BYTES, Definition, Recurring, SubmissionKey
from rota.domain.workflows.progress import Members
from rota.store.cancel import cancel_runs
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements
from rota.store.schema.partitions import with_days
from rota.store.submit import insert_jobs

_FLOWS_PER_ROUND = 50
_NOTES_PER_ROUND = 1000
_STOPPED_AT_ONCE = 1000
_MEMBERS_PER_ROUND = 20_000
_MAPS_AT_ONCE = 20


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


class NodeRow(msgspec.Struct):
    """A node that waits no more, as it is stored."""

    node: int
    state: str
    generation: int
    inputs_of: int = 1
    run_id: UUID | None = None
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


class NewMap(msgspec.Struct, frozen=True):
    """A map to be opened: its items as JSON, or the key of an object with one item per line."""

    node: int
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
    maps: list[NewMap] = msgspec.field(default_factory=list)
    stop: str | None = None
    outcome: str | None = None
    culprit: str | None = None
    again: bool = False

    @property
    def flow(self) -> UUID:
        flow: UUID = self.row["id"]
        return flow


class NewMembers(msgspec.Struct):
    """Members to be made, each with its id, payload, options and key, and how far the source was read."""

    runs: list[tuple[UUID, str | None, str, UUID]]
    next_position: int
    next_item: int
    skipped: int
    is_made: bool
    etag: str | None = None


class Round(msgspec.Struct):
    """What a round did."""

    advanced: list[Advance] = msgspec.field(default_factory=list)
    notes: int = 0
    pools: set[str] = msgspec.field(default_factory=set)  # that have new work
    gated: bool = False  # whether some went to their gates


Decide = Callable[[Statements, Sequence[Any], Sequence[FlowNote]], Awaitable[list[Advance]]]


class Flows:
    """The statements of workflow runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def conduct(self, shards: Iterable[int], aside: Sequence[UUID], decide: Decide, most: int) -> Round:
        """Locks some workflow runs that have notes, and writes what `decide` says of them, all or nothing."""
        opened: list[UUID] = []

        async def round_of_flows(statements: Statements) -> Round:
            rows = await statements.fetch(
                "lock_noted_flows",
                shards=list(shards),
                aside=list(aside),
                notes=_NOTES_PER_ROUND,
                flows=most,
            )
            if not rows:
                return Round()
            opened[:] = [row["id"] for row in rows]
            notes = await take_notes(statements, opened)
            advanced = await decide(statements, rows, notes)
            done = Round(advanced, len(notes))
            await _write(statements, done)
            return done

        done = await with_days(self._database, opened, lambda: self._database.transact(round_of_flows))
        ended = any(one.outcome is not None for one in done.advanced)
        self._database.wake(pools=done.pools, gates=done.gated or ended)
        return done

    async def stop_overdue(self, shards: Iterable[int]) -> int:
        """Stops workflow runs whose deadline has passed; returns how many."""
        return len(await self._database.fetch("overdue_flows", shards=list(shards), limit=_FLOWS_PER_ROUND))

    async def unswept(self, shards: Iterable[int]) -> list[Any]:
        """Workflow runs and maps that stop, whose runs were not all told yet."""
        return await self._database.fetch("unswept_flows", shards=list(shards), limit=_FLOWS_PER_ROUND)

    async def sweep(self, row: Any, nodes: Sequence[int], reason: str) -> None:
        """Cancels the runs of these nodes, and notes that it was done."""
        namespace, flow = row["namespace"], row["flow"]
        while await self._stop_runs(namespace, flow, nodes, reason, started=row["started"]):
            pass
        await self._database.fetch("swept", namespace=namespace, flow=flow, node=row["node"], stop=row["stop"])

    async def _stop_runs(self, namespace: str, flow: UUID, nodes: Sequence[int], reason: str, *, started: bool) -> int:
        """Cancels some runs; returns how many there were."""
        rows = await self._database.fetch(
            "runs_of_flow", namespace=namespace, flow=flow, nodes=list(nodes), started=started, limit=_STOPPED_AT_ONCE
        )
        ids = [row["id"] for row in rows]
        if ids:
            hit = await with_days(
                self._database,
                ids,
                lambda: self._database.transact(lambda it: cancel_runs(it, namespace, ids, reason)),
            )
            self._database.wake(workers={worker for worker in hit.values() if worker}, gates=True, flows=True)
        return len(rows)

    async def results(self, namespace: str, flow: UUID, nodes: Iterable[int]) -> dict[int, Any]:
        """The results of nodes, and the counts of maps."""

        async def read(statements: Statements) -> dict[int, Any]:
            found = await read_results(statements, namespace, flow, nodes)
            maps = await read_maps(statements, [{"namespace": namespace, "id": flow}])
            results = {
                number: None if text is None else msgspec.json.decode(text) for number, (text, _) in found.items()
            }
            return results | {number: it.handle for number, it in maps[flow].items() if number in results}

        return await self._database.transact(read)

    async def maps_to_make(self, shards: Iterable[int]) -> list[Any]:
        """Maps whose members are to be made."""
        return await self._database.fetch("maps_to_make", shards=list(shards), limit=_MAPS_AT_ONCE)

    async def make_members(self, row: Any, definition: Definition, members: NewMembers, *, is_handler: bool) -> bool:
        """Makes members of a map; False if it is not where it was any more."""
        rows = await self._database.fetch(
            "make_members",
            namespace=row["namespace"],
            flow=row["flow"],
            node=row["node"],
            generation=row["generation"],
            position=row["position"],
            next_position=members.next_position,
            next_item=members.next_item,
            skipped=members.skipped,
            is_made=members.is_made,
            etag=members.etag,
            is_handler=is_handler,
            owner=definition.owner,
            name=definition.name,
            task=definition.task,
            pool=definition.pool,
            priority=definition.priority,
            tags=",".join(definition.tags),
            policies=definition.policies,
            inline_bytes=INLINE_PAYLOAD_BYTES,
            **columns(members.runs, "ids payloads options root_ids"),
        )
        if rows:
            plain = definition.policies is None
            pools = [definition.pool] if members.runs and plain else []
            self._database.wake(pools=pools, gates=not plain, flows=members.is_made)
        return bool(rows)

    async def definition(self, namespace: str, workflow_id: UUID, version: str) -> tuple[str, str] | None:
        """The text of a version, and the owner of the workflow."""
        row = await self._database.fetch_row(
            "workflow_definition", namespace=namespace, workflow_id=workflow_id, version=version
        )
        return None if row is None else (row["definition"], row["owner"])


async def take_notes(statements: Statements, flows: Sequence[UUID]) -> list[FlowNote]:
    rows = await statements.fetch("take_flow_notes", flows=list(flows), limit=_NOTES_PER_ROUND)
    return sorted((FlowNote(*row) for row in rows), key=lambda note: note.noted_at)


async def read_nodes(statements: Statements, rows: Sequence[Any]) -> dict[UUID, dict[int, NodeRow]]:
    """The nodes of workflow runs that wait no more."""
    found: dict[UUID, dict[int, NodeRow]] = {row["id"]: {} for row in rows}
    namespaces = sorted({row["namespace"] for row in rows})
    for row in await statements.fetch("flow_nodes", namespaces=namespaces, flows=list(found)):
        found[row["flow"]][row["node"]] = NodeRow(
            row["node"],
            row["state"],
            row["generation"],
            row["inputs_of"],
            row["run_id"],
            row["reason"],
            row["culprit"],
            row["ended_at"],
        )
    return found


async def fold_members(statements: Statements, flows: Sequence[UUID]) -> dict[UUID, list[int]]:
    """Counts members of maps that ended; gives the maps that changed, by workflow run."""
    changed: dict[UUID, list[int]] = {flow: [] for flow in flows}
    for row in await statements.fetch("fold_members", flows=list(flows), limit=_MEMBERS_PER_ROUND):
        changed[row["flow"]].append(row["node"])
    return changed


async def read_maps(statements: Statements, rows: Sequence[Any]) -> dict[UUID, dict[int, Members]]:
    """The maps of workflow runs."""
    found: dict[UUID, dict[int, Members]] = {row["id"]: {} for row in rows}
    namespaces = sorted({row["namespace"] for row in rows})
    for row in await statements.fetch("maps_of_flows", namespaces=namespaces, flows=list(found)):
        found[row["flow"]][row["node"]] = Members(
            row["made"],
            row["ended"],
            row["failed"],
            row["stopped"],
            row["skipped"],
            row["is_made"],
            row["is_failing"],
            row["tolerated_percent"],
        )
    return found


async def read_results(
    statements: Statements, namespace: str, flow: UUID, nodes: Iterable[int]
) -> Mapping[int, tuple[str | None, str | None]]:
    """The results of some nodes: the text, or its key in object storage."""
    rows = await statements.fetch("node_results", namespace=namespace, flow=flow, nodes=list(nodes))
    return {row["node"]: (row["result"], row["result_blob"]) for row in rows}


async def _write(statements: Statements, done: Round) -> None:
    advanced = done.advanced
    if nodes := [(one, node) for one in advanced for node in one.nodes]:
        rows = (
            (
                one.row["namespace"],
                one.flow,
                node.node,
                node.state,
                node.generation,
                node.inputs_of,
                node.run_id,
                node.result,
                node.result_blob,
                node.reason,
                node.culprit,
                node.ended_at,
            )
            for one, node in nodes
        )
        names = (
            "namespaces flows nodes states generations inputs_of run_ids results result_blobs reasons culprits ended_at"
        )
        await statements.fetch("write_flow_nodes", **columns(rows, names))
    if any(one.maps for one in advanced):
        await _open_maps(statements, advanced)
    if any(one.runs for one in advanced):
        for row in await _make_runs(statements, advanced):
            done.pools.add(row["pool"])
            done.gated |= row["gated"]
    if advanced:
        ends = ((one.row["namespace"], one.flow, one.stop, one.outcome, one.culprit, one.again) for one in advanced)
        await statements.fetch("advance_flows", **columns(ends, "namespaces flows stops outcomes culprits again"))


async def _open_maps(statements: Statements, advanced: Sequence[Advance]) -> None:
    rows = (
        (
            one.row["namespace"],
            one.flow,
            new.node,
            one.row["shard"],
            one.row["generation"],
            new.items,
            new.object,
            new.window,
            new.tolerated,
            new.tolerated_percent,
            new.stops,
        )
        for one in advanced
        for new in one.maps
    )
    names = "namespaces flows nodes shards generations items objects windows tolerated percents stops"
    await statements.fetch("open_maps", **columns(rows, names))


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


class NewFlow(msgspec.Struct, frozen=True):
    """A run of a workflow to be opened."""

    id: UUID
    shard: int
    inputs: str | None
    key: SubmissionKey | None = None


class NewWorkflow(msgspec.Struct, frozen=True):
    """A workflow to be created."""

    id: UUID
    name: str
    owner: str
    version: str
    definition: str
    deadline_seconds: float | None


class Resume(msgspec.Struct, frozen=True):
    """The nodes that run again; `same_inputs`: those of them that did not fail because of others."""

    nodes: set[int]
    same_inputs: set[int]
    carrier_id: UUID
    deadline_seconds: float | None


class Workflows:
    """Definitions, and what people do to workflow runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, namespace: str, new: NewWorkflow, schedule: Recurring | None = None) -> bool:
        """Creates a workflow, and the recurring job that fires it; False: another workflow has the name."""

        async def create_it(statements: Statements) -> bool:
            rows = await statements.fetch(
                "create_workflow",
                namespace=namespace,
                workflow_id=new.id,
                name=new.name,
                owner=new.owner,
                version=new.version,
                definition=new.definition,
                deadline_seconds=new.deadline_seconds,
                job_id=new.id if schedule is None else schedule.id,
            )
            if rows and schedule is not None:
                await insert_jobs(statements, [schedule])
            return bool(rows)

        made = await self._database.transact(create_it)
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
                key=flow.key and flow.key.key,
                request_hash=flow.key and flow.key.request_hash,
                answer=flow.key and flow.key.answer,
            )

        (row,) = await with_days(self._database, [flow.id], open_it)
        self._database.wake(flows=True)
        return row

    async def change(
        self, row: Any, version: str, definition: str, changed_by: str, deadline_seconds: float | None
    ) -> bool:
        """Gives a workflow another definition; False if it was changed since it was read."""
        rows = await self._database.fetch(
            "change_workflow",
            namespace=row["namespace"],
            workflow_id=row["id"],
            revision=row["revision"],
            version=version,
            definition=definition,
            deadline_seconds=deadline_seconds,
            changed_by=changed_by,
        )
        return bool(rows)

    async def delete(self, namespace: str, workflow_id: UUID) -> bool:
        return bool(await self._database.fetch("delete_workflow", namespace=namespace, workflow_id=workflow_id))

    async def find_all(self, namespace: str, *, owner: str | None, after: str, limit: int) -> list[Any]:
        """Workflows by name, from behind a name on."""
        return await self._database.fetch("list_workflows", namespace=namespace, owner=owner, after=after, limit=limit)

    async def versions(self, namespace: str, workflow_id: UUID, limit: int) -> list[Any]:
        """Newest first."""
        return await self._database.fetch(
            "versions_of_workflow", namespace=namespace, workflow_id=workflow_id, limit=limit
        )

    async def list_runs(
        self,
        namespace: str,
        *,
        before: UUID,
        limit: int,
        workflow_id: UUID | None = None,
        owner: str | None = None,
        status: str | None = None,
    ) -> list[Any]:
        """Workflow runs, newest first, from before an id on."""
        return await self._database.fetch(
            "list_flows",
            namespace=namespace,
            before=before,
            limit=limit,
            workflow_id=workflow_id,
            owner=owner,
            outcome=status,
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

    async def resume(
        self, namespace: str, flow: UUID, decide: Callable[[Any, dict[int, NodeRow]], Resume]
    ) -> Any | None:
        """Begins the next generation: `decide` sees the locked row and its nodes. Gives the row as it was."""

        async def resume_it(statements: Statements) -> Any | None:
            row = await statements.fetch_row("lock_flow", namespace=namespace, flow=flow)
            if row is None:
                return None
            nodes = (await read_nodes(statements, [row]))[flow]
            wanted = decide(row, nodes)
            await statements.fetch(
                "resume_flow",
                namespace=namespace,
                flow=flow,
                version=row["version"],
                carrier_id=wanted.carrier_id,
                deadline_seconds=wanted.deadline_seconds,
                nodes=sorted(wanted.nodes),
                same_inputs=sorted(wanted.same_inputs),
            )
            return row

        row = await self._database.transact(resume_it)
        self._database.wake(flows=True)
        return row

    async def stop(self, namespace: str, flow: UUID, stopped_by: str) -> Any | None:
        """Stops a workflow run; gives it as it was before."""
        row = await self._database.fetch_row(
            "stop_flow", namespace=namespace, flow=flow, stop="cancel", stopped_by=stopped_by
        )
        self._database.wake(flows=True)
        return row
