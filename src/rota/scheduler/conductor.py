"""Conducting: workflow runs move on when runs of their nodes end.

Every end of a node's run leaves a note in its own transaction (note_end, a trigger of the database). A round takes
notes under the lock of their workflow runs, and decides by the rules (domain/workflows/progress.py) which nodes start,
which are skipped, and whether a workflow run is over. What is decided is written in the transaction that takes the
notes. A round changes at most STEPS nodes of a workflow run: the rest follows in the next one.

What a stop, or a map that fails for good, concerns is cancelled after the commit, until a whole look finds nothing
left: nothing new can come, because a stopped workflow run makes nothing.

A workflow run that can't be dealt with is set aside and tried again later: it stops no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from rota.domain.ids import new_id
from rota.domain.workflows.progress import Members, NodeState, Progress, Start
from rota.domain.workflows.references import MissingValueError, Values, holds, references_in, render
from rota.errors import BadInputError, DatabaseUnavailableError, RotaError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import MapPlan, PlanCache, WorkflowPlan
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.store.flow import (
    Advance,
    FlowNote,
    Flows,
    NewMap,
    NodeRow,
    NodeRun,
    fold_members,
    read_maps,
    read_nodes,
    read_results,
)
from rota.store.postgres.database import Statements

STEPS = 1000
FLOWS = 50
_UTC = ZoneInfo("UTC")
_REASONS = {
    "cancel": "the workflow run was cancelled",
    "deadline": "the deadline of the workflow run passed",
    "failure": "another node failed, and failFast is set",
}


class Plans:
    """The plans of workflows, read from the database when they are first needed."""

    def __init__(self, flows: Flows, builder: JobBuilder) -> None:
        self._flows = flows
        self._plans = PlanCache(builder)

    async def of(self, row: Any) -> WorkflowPlan:
        """The plan that a workflow run follows."""
        key = (row["namespace"], row["workflow_id"], row["version"])
        plan = self._plans.get(key)
        if plan is None:
            found = await self._flows.definition(*key)
            if found is None:
                raise RotaError("the definition of the workflow is gone")
            plan = self._plans.add(key, *found)
        return plan


class Conductor(ShardService):
    """Moves workflow runs on."""

    interval_seconds = 0.5
    full_round = 1

    def __init__(self, *, flows: Flows, plans: Plans, builder: JobBuilder, leases: LeaseKeeper) -> None:
        super().__init__(leases=leases)
        self._flows = flows
        self._builder = builder
        self._plans = plans
        self._aside = SetAside("a workflow run can't be conducted and is set aside")
        self._set_aside: dict[UUID, None] = {}
        self._met: list[UUID] = []  # the workflow runs of this round
        self._careful = 0  # rounds in which one workflow run is dealt with

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round; returns how many notes it took."""
        await self._flows.stop_overdue(owned)
        notes = await self._conduct(owned)
        for row in await self._flows.unswept(owned):
            await self._sweep(row)
        return notes

    async def _conduct(self, owned: Mapping[int, int]) -> int:
        """Moves some workflow runs on. If that fails, they are tried one by one, and the guilty ones set aside."""
        self._aside.begin()
        aside = [flow for flow in self._set_aside if self._aside.passes_over(flow)]
        self._met = []
        try:
            done = await self._flows.conduct(owned, aside, self._decide, 1 if self._careful else FLOWS)
        except DatabaseUnavailableError:
            raise
        except Exception as error:
            if not self._met:
                raise
            if len(self._met) == 1:
                self._set_aside[self._met[0]] = None
                self._aside.add(self._met[0], error, flow=str(self._met[0]))
            self._careful = max(self._careful, len(self._met))
            return 1
        for flow in self._met:
            self._set_aside.pop(flow, None)
        self._careful = max(0, self._careful - 1)
        return done.notes

    async def _sweep(self, row: Any) -> None:
        """Stops what runs of a workflow run that was stopped, or what waits of a map that fails."""
        if row["node"] is not None:
            await self._flows.sweep(row, [row["node"]], "too many members of the map failed")
            return
        nodes = (await self._plans.of(row)).graph.nodes
        concerned = [at for at, node in enumerate(nodes) if row["stop"] != "failure" or not node.is_handler]
        await self._flows.sweep(row, concerned, _REASONS[row["stop"]])

    async def _decide(self, statements: Statements, rows: Sequence[Any], notes: Sequence[FlowNote]) -> list[Advance]:
        self._met = [row["id"] for row in rows]
        by_flow: dict[UUID, list[FlowNote]] = defaultdict(list)
        for note in notes:
            by_flow[note.flow].append(note)
        nodes = await read_nodes(statements, rows)
        changed = await fold_members(statements, list(nodes))
        maps = await read_maps(statements, rows)
        advanced: list[Advance] = []
        for row in rows:
            if row["ended_at"] is not None:
                continue  # a late note: taken away
            flow = row["id"]
            step = _Step(await self._plans.of(row), row, nodes[flow], maps[flow], self._builder)
            advanced.append(await step.take(statements, by_flow[flow], changed[flow]))
        return advanced


class _Step:
    """One workflow run in one transaction."""

    def __init__(
        self,
        plan: WorkflowPlan,
        row: Any,
        nodes: dict[int, NodeRow],
        maps: Mapping[int, Members],
        builder: JobBuilder,
    ) -> None:
        self._plan = plan
        self._row = row
        self._rows = nodes
        self._builder = builder
        self._results: dict[int, Any] = {}
        self._made: list[NodeRun] = []
        self._maps: list[NewMap] = []
        self._run_of: dict[int, UUID] = {}
        self._progress = Progress(
            plan.graph,
            {number: _state_of(node, maps.get(number)) for number, node in nodes.items() if node.state != "waiting"},
            generation=row["generation"],
            stop=row["stop"],
            fail_fast=plan.fail_fast,
            start=self._start,
            now=row["database_time"],
        )

    async def take(self, statements: Statements, notes: Sequence[FlowNote], maps: Iterable[int]) -> Advance:
        """Hears notes, and of maps whose members ended; decides what follows."""
        self._progress.look_at(maps)
        ended: dict[int, FlowNote] = {}
        for note in notes:
            if note.node is None:
                self._progress.look_at_all()
            elif self._is_current(note):
                ended[note.node] = note
                ending = note.outcome if note.outcome in ("success", "cancelled") else "failed"
                reason = note.reason if note.outcome != "expired" else f"expired: {note.reason}"
                self._progress.hear(note.node, ending, reason)  # type: ignore[arg-type]
        await self._read_results(statements, ended)
        again = self._progress.go_on(STEPS)
        return self._advance(ended, again=again)

    def _is_current(self, note: FlowNote) -> bool:
        node = self._rows.get(note.node or 0)
        return node is not None and node.state == "open" and node.run_id == note.run_id

    async def _read_results(self, statements: Statements, ended: Mapping[int, FlowNote]) -> None:
        """Reads the results that nodes which may start now refer to."""
        wanted = {
            self._plan.graph.number_of[reference["$from"]]
            for number, node in enumerate(self._plan.nodes)
            if number not in self._progress.nodes
            for reference in references_in([node.payload, node.when, node.map and node.map.items])
            if "$from" in reference
        }
        for number, note in ended.items():
            if note.outcome == "success":
                self._results[number] = _decoded(note.result)
        known = [at for at in wanted - {*ended} if at in self._rows and self._rows[at].state == "success"]
        if known:
            found = await read_results(statements, self._row["namespace"], self._row["id"], known)
            self._results |= {number: _decoded(text) for number, (text, _) in found.items()}

    def _start(self, number: int) -> Start:
        node = self._plan.nodes[number]
        values = self._values()
        if node.map is not None:
            return self._start_map(number, node.map, values)
        try:
            if node.when is not None and not holds(node.when, values):
                return Start("skipped_by_condition", "its condition does not hold")
            payload = None if node.payload is None else render(node.payload, values)
            text = self._builder.payload(msgspec.Raw(msgspec.json.encode(payload))) if payload is not None else None
            self._builder.check_node(node.definition.task, text)
        except (MissingValueError, BadInputError) as error:
            return Start("failed", f"its payload could not be made: {error}")
        run_id = new_id(self._row["database_time"])
        key = key_of(self._row["id"], node.key, self._inputs_of(number))
        definition = msgspec.structs.replace(node.definition, payload=text)
        self._made.append(NodeRun(run_id, number, definition, key))
        self._run_of[number] = run_id
        return Start()

    def _start_map(self, number: int, wanted: MapPlan, values: Values) -> Start:
        items: Any = None
        if wanted.object is None:
            try:
                items = render(wanted.items, values)
            except MissingValueError as error:
                return Start("failed", f"its items could not be read: {error}")
            if not isinstance(items, list):
                return Start("failed", "its items are not a list")
        self._maps.append(
            NewMap(
                number,
                None if wanted.object is not None else msgspec.json.encode(items).decode(),
                wanted.object,
                wanted.window,
                wanted.tolerated,
                wanted.tolerated_percent,
                wanted.stops,
            )
        )
        return Start(members=Members())

    def _inputs_of(self, number: int) -> int:
        row = self._rows.get(number)
        generation: int = self._row["generation"]
        return generation if row is None else row.inputs_of

    def _values(self) -> Values:
        return values_of(self._row["payload"], self._row["nominal_at"], self._result_of)

    def _result_of(self, key: str) -> Any:
        number = self._plan.graph.number_of[key]
        state = self._progress.nodes.get(number)
        if state is not None and state.members is not None:
            return state.members.handle
        return self._results.get(number)

    def _advance(self, ended: Mapping[int, FlowNote], *, again: bool) -> Advance:
        progress = self._progress
        over = progress.is_over
        return Advance(
            self._row,
            [self._written(number, ended.get(number)) for number in sorted(progress.changed)],
            self._made,
            self._maps,
            stop=progress.stop,
            outcome=progress.outcome if over else None,
            culprit=progress.culprit if over else None,
            again=again,
        )

    def _written(self, number: int, note: FlowNote | None) -> NodeRow:
        state = self._progress.nodes[number]
        keeps = note is not None and state.state == "success"
        return NodeRow(
            number,
            state.state,
            state.generation,
            self._inputs_of(number),
            self._run_of.get(number),
            state.reason,
            state.culprit,
            state.ended_at,
            note.result if keeps and note else None,
            note.result_blob if keeps and note else None,
        )


def key_of(flow: UUID, node: str, inputs_of: int, item: int | None = None) -> UUID:
    """The idempotency key of a node's or member's runs: the same as long as its inputs are."""
    text = f"{flow.hex}/{node}/{inputs_of}" + ("" if item is None else f"/{item}")
    return UUID(bytes=sha256(text.encode()).digest()[:16])


def values_of(inputs: str | None, nominal_at: Any, results: Any) -> Values:
    """What references of a workflow run can name."""
    return Values(
        inputs=msgspec.json.decode(inputs) if inputs else {}, nominal=nominal_at.astimezone(_UTC), results=results
    )


def _state_of(node: NodeRow, members: Members | None) -> NodeState:
    state: Any = node.state
    return NodeState(state, node.generation, node.reason, node.culprit, node.ended_at, members)


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
