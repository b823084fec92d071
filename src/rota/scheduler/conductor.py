"""Conducting: workflow runs move on when runs of their nodes end.

Every end of a node's run leaves a note in its own transaction (note_end, a trigger of the database). A round takes
notes under the lock of their workflow runs, and decides by the rules (domain/workflows/progress.py) which nodes start,
which are skipped, and whether a workflow run is over. What is decided is written in the transaction that takes the
notes. A round changes at most STEPS nodes of a workflow run: the rest follows in the next one.

A workflow run that can't be dealt with is set aside and tried again later: it stops no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from rota.domain.ids import new_id
from rota.domain.workflows.progress import NodeState, Progress, Start
from rota.domain.workflows.references import MissingValueError, Values, holds, references_in, render
from rota.errors import BadInputError, RotaError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import PlanCache, WorkflowPlan
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.store.flow import Advance, FlowNote, Flows, NodeRow, NodeRun, read_nodes, read_results
from rota.store.postgres.database import Statements

STEPS = 1000
_UTC = ZoneInfo("UTC")


class Conductor(ShardService):
    """Moves workflow runs on."""

    interval_seconds = 0.5
    full_round = 1

    def __init__(self, *, flows: Flows, builder: JobBuilder, leases: LeaseKeeper) -> None:
        super().__init__(leases=leases)
        self._flows = flows
        self._builder = builder
        self._plans = PlanCache(builder)
        self._aside = SetAside("a workflow run can't be conducted and is set aside")
        self._set_aside: dict[UUID, None] = {}

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round; returns how many notes it took."""
        await self._flows.stop_overdue(owned)
        self._aside.begin()
        aside = [flow for flow in self._set_aside if self._aside.passes_over(flow)]
        done = await self._flows.conduct(owned, aside, self._decide)
        for one in done.advanced:
            if one.stop is not None and one.outcome is None:
                await self._stop_runs(one)
        return done.notes

    async def _stop_runs(self, one: Advance) -> None:
        plan = self._plans.get(_key_of(one.row))
        if plan is None:
            return
        nodes = [number for number, node in enumerate(plan.graph.nodes) if one.stop != "failure" or not node.is_handler]
        reason = {"cancel": "the workflow run was cancelled", "deadline": "the deadline of the workflow run passed"}
        while await self._flows.stop_runs(
            one.row["namespace"], one.flow, nodes, reason.get(one.stop or "", "another node failed (failFast)")
        ):
            pass

    async def _decide(self, statements: Statements, rows: Sequence[Any], notes: Sequence[FlowNote]) -> list[Advance]:
        by_flow: dict[UUID, list[FlowNote]] = defaultdict(list)
        for note in notes:
            by_flow[note.flow].append(note)
        nodes = await read_nodes(statements, rows)
        advanced: list[Advance] = []
        for row in rows:
            if row["ended_at"] is not None:
                continue  # a late note: taken away
            try:
                one = await self._advance(statements, row, nodes[row["id"]], by_flow[row["id"]])
            except Exception as error:
                self._set_aside[row["id"]] = None
                self._aside.add(row["id"], error, flow=str(row["id"]))
                raise
            self._set_aside.pop(row["id"], None)
            advanced.append(one)
        return advanced

    async def _advance(
        self, statements: Statements, row: Any, nodes: dict[int, NodeRow], notes: Sequence[FlowNote]
    ) -> Advance:
        plan = await self._plan_of(row)
        step = _Step(plan, row, nodes, self._builder)
        return await step.take(statements, notes)

    async def _plan_of(self, row: Any) -> WorkflowPlan:
        key = _key_of(row)
        plan = self._plans.get(key)
        if plan is None:
            found = await self._flows.definition(*key)
            if found is None:
                raise RotaError("the definition of the workflow is gone")
            plan = self._plans.add(key, *found)
        return plan


def _key_of(row: Any) -> tuple[str, UUID, str]:
    return row["namespace"], row["workflow_id"], row["version"]


class _Step:
    """One workflow run in one transaction."""

    def __init__(self, plan: WorkflowPlan, row: Any, nodes: dict[int, NodeRow], builder: JobBuilder) -> None:
        self._plan = plan
        self._row = row
        self._rows = nodes
        self._builder = builder
        self._results: dict[int, Any] = {}
        self._made: list[NodeRun] = []
        self._run_of: dict[int, UUID] = {}
        self._progress = Progress(
            plan.graph,
            {
                number: NodeState(node.state, node.generation, node.reason, node.culprit, node.ended_at)  # type: ignore[arg-type]
                for number, node in nodes.items()
                if node.state != "waiting"
            },
            generation=row["generation"],
            stop=row["stop"],
            fail_fast=plan.fail_fast,
            start=self._start,
            now=row["database_time"],
        )

    async def take(self, statements: Statements, notes: Sequence[FlowNote]) -> Advance:
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
        return self._outcome(ended, again=again)

    def _is_current(self, note: FlowNote) -> bool:
        node = self._rows.get(note.node or 0)
        return node is not None and node.state == "open" and node.run_id == note.run_id

    async def _read_results(self, statements: Statements, ended: Mapping[int, FlowNote]) -> None:
        """Reads the results that nodes which may start now refer to."""
        wanted = {
            self._plan.graph.number_of[reference["$from"]]
            for number, node in enumerate(self._plan.nodes)
            if number not in self._progress.nodes
            for reference in references_in([node.payload, node.when])
            if "$from" in reference
        }
        for number, note in ended.items():
            if note.outcome == "success":
                self._results[number] = _decoded(note.result)
        known = [
            number for number in wanted - {*ended} if number in self._rows and self._rows[number].state == "success"
        ]
        if known:
            found = await read_results(statements, self._row["namespace"], self._row["id"], known)
            self._results |= {number: _decoded(text) for number, (text, _) in found.items()}

    def _start(self, number: int) -> Start:
        node = self._plan.nodes[number]
        values = self._values()
        try:
            if node.when is not None and not holds(node.when, values):
                return Start("skipped_by_condition", "its condition does not hold")
            payload = None if node.payload is None else render(node.payload, values)
            text = self._builder.payload(msgspec.Raw(msgspec.json.encode(payload))) if payload is not None else None
            self._builder.check_node(node.definition.task, text)
        except (MissingValueError, BadInputError) as error:
            return Start("failed", f"its payload could not be made: {error}")
        run_id = new_id(self._row["database_time"])
        key = f"{self._row['id'].hex}/{node.key}/{self._inputs_of(number)}"
        root_id = UUID(bytes=sha256(key.encode()).digest()[:16])
        definition = msgspec.structs.replace(node.definition, payload=text)
        self._made.append(NodeRun(run_id, number, definition, root_id))
        self._run_of[number] = run_id
        return Start()

    def _inputs_of(self, number: int) -> int:
        row = self._rows.get(number)
        generation: int = self._row["generation"]
        return generation if row is None else row.inputs_of

    def _values(self) -> Values:
        inputs = msgspec.json.decode(self._row["payload"]) if self._row["payload"] else {}
        return Values(
            inputs=inputs,
            nominal=self._row["nominal_at"].astimezone(_UTC),
            results=lambda key: self._results.get(self._plan.graph.number_of[key]),
        )

    def _outcome(self, ended: Mapping[int, FlowNote], *, again: bool) -> Advance:
        progress = self._progress
        changed: list[NodeRow] = []
        for number in sorted(progress.changed):
            state = progress.nodes[number]
            note = ended.get(number)
            keeps = note is not None and state.state == "success"
            changed.append(
                NodeRow(
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
            )
        over = progress.is_over
        return Advance(
            self._row,
            changed,
            self._made,
            stop=progress.stop,
            outcome=progress.outcome if over else None,
            culprit=progress.culprit if over else None,
            again=again,
        )


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
