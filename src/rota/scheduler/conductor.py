"""Conducting: workflow runs move on when runs of their nodes end.

Every end of a node's run leaves a note in its own transaction (note_end, a trigger of the database), and so does the
end of a wait. A round takes notes under the lock of their workflow runs, and decides by the rules
(domain/workflows/progress.py) which nodes start, which are skipped, and whether a workflow run is over. What is decided
is written in the transaction that takes the notes. A round changes at most STEPS nodes of a workflow run: the rest
follows in the next one.

What a stop, or a map that fails for good, concerns is cancelled after the commit, until a whole look finds nothing
left: nothing new can come, because a stopped workflow run makes nothing.

A workflow run that can't be dealt with is set aside and tried again later: it stops no other.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from rota.domain.workflows.graph import GraphNode
from rota.domain.workflows.progress import Members, to_resume, what_runs_again
from rota.errors import DatabaseUnavailableError, RotaError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import Pins, PlanCache, WorkflowPlan, decode_pins, find_pins
from rota.scheduler.flow_step import FlowStep, state_of
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.store.flow import Flows
from rota.store.flow.rows import (
    Advance,
    FlowNote,
    NodeRow,
    Resume,
    find_workflow,
    fold_members,
    lock_parent,
    note_resume,
    read_maps,
    read_nodes,
    stop_part,
    write_resume,
)
from rota.store.postgres.database import Statements

STEPS = 1000
FLOWS = 50
_FOLD_SECONDS = 0.05
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
        return await self.get(row["namespace"], row["workflow_id"], row["version"])

    async def get(self, namespace: str, workflow_id: UUID, version: str) -> WorkflowPlan:
        key = (namespace, workflow_id, version)
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

    def __init__(
        self,
        *,
        flows: Flows,
        plans: Plans,
        builder: JobBuilder,
        leases: LeaseKeeper,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_room`: called when members of maps ended, or maps were opened."""
        super().__init__(leases=leases)
        self._on_room = on_room
        self._flows = flows
        self._builder = builder
        self._plans = plans
        self._aside = SetAside("a workflow run can't be conducted and is set aside")
        self._set_aside: dict[UUID, None] = {}
        self._met: list[UUID] = []  # the workflow runs of this round
        self._careful = 0  # rounds in which one workflow run is dealt with
        self._folds = False  # whether members of maps ended in the last round
        self._stops = False  # whether a workflow run was stopped, or a map fails
        self._looks_at = 0.0  # when it looks for what is due, and for what was stopped

    @property
    def pause_seconds(self) -> float:
        """Short while members of maps end: they are counted together, and no message comes for each."""
        return _FOLD_SECONDS if self._folds else super().pause_seconds

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round; returns how many notes it took."""
        self._folds = False
        notes = await self._conduct(owned)
        if self._stops or time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + self.interval_seconds / 2
            self._stops = False
            await self._flows.stop_overdue(owned)
            notes += await self._flows.end_waits(owned)
            for row in await self._flows.unswept(owned):
                await self._try_to_sweep(row)
        return notes

    async def _conduct(self, owned: Mapping[int, int]) -> int:
        """Moves some workflow runs on. If that fails, they are tried one by one, and the guilty ones set aside."""
        self._aside.begin()
        aside = [flow for flow in self._set_aside if self._aside.passes_over(flow)]
        self._met = []
        try:
            done = await self._flows.conduct(owned, aside, self._decide, 1 if self._careful else FLOWS)
        except Exception as error:
            if not self._met:
                raise
            if len(self._met) == 1:
                self._set_aside[self._met[0]] = None
                self._aside.add(self._met[0], error, flow=str(self._met[0]))
            self._careful = max(self._careful, len(self._met))
            if isinstance(error, DatabaseUnavailableError):
                raise  # it is away, or it cut a transaction that took too long: then one of these is to blame
            return 1
        for flow in self._met:
            self._set_aside.pop(flow, None)
        self._careful = max(0, self._careful - 1)
        self._stops |= any(one.stop is not None or one.row["stop"] is not None for one in done.advanced)
        if self._folds or any(one.maps or one.reopened for one in done.advanced):
            self._on_room()
        return done.notes

    async def _try_to_sweep(self, row: Any) -> None:
        key = ("sweep", row["flow"], row["node"])
        if self._aside.passes_over(key):
            return
        try:
            await self._sweep(row)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - one that can't be read must not keep the others from stopping
            self._aside.add(key, error, flow=str(row["flow"]))

    async def _sweep(self, row: Any) -> None:
        """Stops what runs of a workflow run that was stopped, or what waits of a map that fails."""
        if row["node"] is not None:
            await self._flows.sweep(row, [row["node"]], "too many members of the map failed")
            return
        concerned = None  # all; the definition is not needed for it, so what can't be read can be cancelled
        if row["stop"] == "failure":
            nodes = (await self._plans.of(row)).graph.nodes
            concerned = [number for number, node in enumerate(nodes) if _is_stopped(node, row["stop"])]
        await self._flows.sweep(row, concerned, _REASONS[row["stop"]])

    async def _decide(self, statements: Statements, rows: Sequence[Any], notes: Sequence[FlowNote]) -> list[Advance]:
        self._met = [row["id"] for row in rows]
        by_flow: dict[UUID, list[FlowNote]] = defaultdict(list)
        for note in notes:
            by_flow[note.flow].append(note)
        nodes = await read_nodes(statements, rows)
        plans = {row["id"]: await self._plans.of(row) for row in rows}
        mapped = [row for row in rows if plans[row["id"]].has_maps]
        changed, maps = await fold_members(statements, mapped), await read_maps(statements, mapped)
        self._folds = any(changed.values())
        advanced: list[Advance] = []
        for row in rows:
            flow = row["id"]
            if row["ended_at"] is not None:
                await self._resume(statements, row, nodes[flow], maps.get(flow, {}), by_flow[flow])
                continue  # any other note is late: taken away
            pins = await self._pins(statements, row, plans[flow])
            step = FlowStep(plans[flow], row, nodes[flow], maps.get(flow, {}), self._builder, pins, STEPS)
            advanced.append(await step.take(statements, by_flow[flow], changed.get(flow, ())))
        return advanced

    async def _resume(
        self,
        statements: Statements,
        row: Any,
        nodes: Mapping[int, NodeRow],
        maps: Mapping[int, Members],
        notes: Sequence[FlowNote],
    ) -> None:
        """The node of a sub-workflow is run again: what failed in that is. If the parent was stopped meanwhile, it ends
        as stopped: the sweep of the parent has not seen it."""
        asked = [note for note in notes if note.outcome == "resume" and note.run_id is not None]
        if not asked:
            return
        parent = await lock_parent(statements, row)
        if parent is None:
            await note_resume(statements, row, asked[-1])
            return
        plan = await self._plans.of(row)
        states = {number: state_of(node, None) for number, node in nodes.items() if node.state != "waiting"}
        again = what_runs_again(plan.graph, states, to_resume(plan.graph, states, is_over=True))
        await write_resume(
            statements,
            row,
            Resume(
                again.nodes,
                again.same_inputs,
                again.same_inputs & {*maps},
                asked[-1].run_id or row["id"],
                plan.deadline_seconds,
                parent["deadline_at"],
                node=asked[-1].node,
            ),
        )
        node = (await self._plans.of(parent)).graph.nodes[asked[-1].node or 0]
        if _is_stopped(node, parent["stop"]):
            await stop_part(statements, row)

    async def _pins(self, statements: Statements, row: Any, plan: WorkflowPlan) -> Pins:
        """The versions of all workflows below this one; they are found out once, for the root."""
        if row["pins"] is not None:
            return decode_pins(row["pins"])

        async def find(name: str) -> Any:
            return await find_workflow(statements, row["namespace"], name)

        return await find_pins(plan.children, row["owner"], find)


def _is_stopped(node: GraphNode, stop: str | None) -> bool:
    """Whether the stop of a workflow run is for this node of it."""
    return stop is not None and (stop != "failure" or not node.is_handler)
