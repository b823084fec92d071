"""What people do with workflows: create, change, run, look, cancel, resume.

`only` is the owner whose workflows a caller may see; None: all of the namespace.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET

from rota.contract.jobs import JobIn
from rota.contract.workflows import (
    MemberList,
    MemberOut,
    ResumeIn,
    SignalSent,
    VersionList,
    WorkflowIn,
    WorkflowList,
    WorkflowOut,
    WorkflowRunList,
    WorkflowRunOut,
    WorkflowRunStarted,
)
from rota.domain.ids import (
    FIRST_ID,
    LAST_ID,
    new_id,
    parse_run,
    parse_workflow,
    parse_workflow_run,
    shard_of,
    show_run,
    show_workflow,
)
from rota.domain.ids import show_workflow_run as show_flow
from rota.domain.job import NODE_CAUSES, STORED_BYTES, WORKFLOW_TASK, Recurring, SubmissionKey
from rota.domain.policies import decode_policies, encode_policies
from rota.domain.rights import Caller
from rota.domain.workflows.graph import Graph
from rota.domain.workflows.progress import Members, NodeState, to_resume, what_runs_again
from rota.errors import (
    BadInputError,
    ConflictError,
    DuplicateError,
    ForbiddenError,
    KeyReusedError,
    NotFoundError,
    VersionMismatchError,
)
from rota.gateway.calendars import CalendarDays, in_schedule
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import (
    WorkflowPlan,
    canonical,
    check_inputs,
    encode_pins,
    find_pins,
    plan_of,
    read_definition,
)
from rota.gateway.workflow_views import show_flow_row, show_version_row, show_workflow_row
from rota.store.flow.rows import NodeRow, Resume
from rota.store.flow.workflows import MOST_SIGNALS, NewFlow, WorkflowRecord, Workflows
from rota.store.submit import Submissions

_MOST_VERSIONS = 100
_AT_ONCE = 100
_TRIES = 10
_CURSOR = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?", re.ASCII)
_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")
Answer = TypeVar("Answer")


class WorkflowGateway:
    """Workflows of one database."""

    def __init__(
        self,
        workflows: Workflows,
        submissions: Submissions,
        builder: JobBuilder,
        calendars: CalendarDays,
        *,
        shards: int,
        now: Callable[[], datetime],
    ) -> None:
        self._workflows = workflows
        self._submissions = submissions
        self._builder = builder
        self._calendars = calendars
        self._shards = shards
        self._now = now

    async def create(self, wanted: WorkflowIn, caller: Caller) -> WorkflowOut:
        """Creates a workflow; raises BadInputError, or DuplicateError if there is one of this name."""
        await self._check(wanted, caller)
        new = record_of(wanted, new_id(self._now().timestamp()), caller.owner)
        if not await self._workflows.create(caller.namespace, new, await self._schedule(wanted, caller)):
            raise DuplicateError(f"there is a workflow named {wanted.name!r} already")
        return await self.show(show_workflow(new.id), caller)

    async def _check(self, wanted: WorkflowIn, caller: Caller) -> None:
        """Raises BadInputError that names what is wrong; those that it runs must be the owner's, and not run it."""
        plan = plan_of(wanted, caller, self._builder)
        left = [(name, f"nodes.{node.key}.workflow") for node in plan.nodes if (name := node.child) is not None]
        seen: set[str] = set()
        while left:
            name, field = left.pop()
            if name == wanted.name:
                raise BadInputError("runs this workflow itself", field=field)
            if name in seen:
                continue
            seen.add(name)
            row = await self._workflows.find(caller.namespace, name=name)
            if row is None or row["owner"] != caller.owner:
                raise BadInputError(f"there is no workflow named {name!r} of the same owner", field=field)
            below = read_definition(row["definition"])
            left += [(node.workflow, field) for node in below.nodes.values() if node.workflow is not None]

    async def _schedule(self, wanted: WorkflowIn, caller: Caller) -> Recurring | None:
        return await self._calendars.attach_workflow(schedule_of(wanted, caller, self._builder, self._now()))

    async def show(self, workflow: str, caller: Caller, only: str | None = None) -> WorkflowOut:
        """A workflow, by its id or name."""
        return show_workflow_row(await self._find(workflow, caller, only))

    async def show_all(self, caller: Caller, only: str | None, after: str, limit: int) -> WorkflowList:
        """A page of workflows, by name, after the one in the cursor (`/` and its name)."""
        if after and not after.startswith("/"):
            raise BadInputError("is not a cursor that was given", field="cursor")
        rows = await self._workflows.find_all(caller.namespace, owner=only, after=after[1:], limit=limit + 1)
        items = [show_workflow_row(row) for row in rows[:limit] if row["definition"] is not None]
        return WorkflowList(items=items, next_cursor=f"/{items[-1].name}" if len(rows) > len(items) else None)

    async def versions(self, workflow: str, caller: Caller, only: str | None = None) -> VersionList:
        """The versions of a workflow, newest first."""
        row = await self._find(workflow, caller, only)
        rows = await self._workflows.versions(caller.namespace, row["id"], _MOST_VERSIONS)
        return VersionList(items=[show_version_row(one) for one in rows])

    async def change(
        self, workflow: str, wanted: WorkflowIn, caller: Caller, *, only: str | None = None, revision: int | None = None
    ) -> tuple[WorkflowOut, WorkflowOut]:
        """Gives a workflow another definition, for runs that are opened from now on; it as it was, and as it is."""
        row = await self._find(workflow, caller, only)
        if revision is not None and row["revision"] != revision:
            raise VersionMismatchError(f"the workflow's revision is {row['revision']}, not {revision}")
        if wanted.name != row["name"]:
            raise BadInputError(f"a workflow keeps its name: {row['name']!r}", field="name")
        owner = Caller(namespace=caller.namespace, owner=row["owner"])
        await self._check(wanted, owner)
        after = record_of(wanted, row["id"], row["owner"])
        if (after.version, after.schedule) != (row["version"], row["schedule"]):
            schedule = await self._schedule(wanted, owner)
            if not await self._workflows.change(row, after, schedule, caller.owner):
                raise VersionMismatchError("the workflow was changed just now; look again")
        return show_workflow_row(row), await self.show(show_workflow(row["id"]), caller)

    async def pause(self, workflow: str, caller: Caller, *, only: str | None, paused: bool) -> WorkflowOut:
        """Pauses a workflow, or lets it go on: its schedule, and the nodes of its open runs that have not started."""
        row = await self._find(workflow, caller, only)
        if not await self._workflows.pause(row, "paused" if paused else "active"):
            raise NotFoundError("there is no such workflow")
        return await self.show(show_workflow(row["id"]), caller)

    async def delete(self, workflow: str, caller: Caller, only: str | None = None) -> WorkflowOut:
        """Deletes a workflow and stops its open runs; one that was deleted stays so."""
        row = await self._find(workflow, caller, only, deleted=True)
        await self._workflows.delete(caller.namespace, row["id"])
        before = LAST_ID
        while flows := await self._workflows.list_runs(
            caller.namespace, before=before, limit=_AT_ONCE, workflow_id=row["id"], status="running", whole=True
        ):
            for flow in flows:
                await self._workflows.stop(caller.namespace, flow["id"], caller.owner)
            before = flows[-1]["id"]
        shown = show_workflow_row(row)
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
        for _ in range(_TRIES):
            row = await self._find(workflow, caller, only)
            wanted = read_definition(row["definition"])
            flow = new_id(self._now().timestamp())
            answer = WorkflowRunStarted(workflow_run_id=show_flow(flow), status="running")
            stored = None
            if key is not None:
                stored = SubmissionKey(caller.own(key), request_hash, _encoder.encode(answer).decode())
                if (known := await self._first_answer(stored, caller, WorkflowRunStarted)) is not None:
                    return known
            values = check_inputs(inputs, wanted.inputs)
            text = _encoder.encode(values).decode() if values else None
            below = {node.workflow for node in wanted.nodes.values() if node.workflow is not None}
            pins = await find_pins(below, row["owner"], lambda name: self._workflows.find(caller.namespace, name=name))
            new = NewFlow(flow, shard_of(flow, self._shards), text, encode_pins(pins), caller.owner, stored)
            if (await self._workflows.open(caller.namespace, row["id"], row["version"], new))["opened"]:
                return answer
            # It was changed just now, or a request with the same key came first: the next look sees it.
        raise ConflictError("the workflow kept changing; try again")

    async def _first_answer(self, key: SubmissionKey, caller: Caller, kind: type[Answer]) -> Answer | None:
        pair = (caller.namespace, key.key)
        known = (await self._submissions.find_keys([pair])).get(pair)
        if known is None:
            return None
        if known.request_hash != key.request_hash:
            raise KeyReusedError("this idempotency key was used with another request within the last 24 hours")
        return msgspec.json.decode(known.answer, type=kind)

    async def show_run(self, run: str, caller: Caller, only: str | None = None) -> WorkflowRunOut:
        """A workflow run with its nodes."""
        return show_flow_row(*await self._get(run, caller, only))

    async def show_runs(
        self, caller: Caller, only: str | None, *, workflow: str | None, status: str | None, cursor: str, limit: int
    ) -> WorkflowRunList:
        """A page of workflow runs, newest first, without their nodes."""
        workflow_id = None if workflow is None else (await self._find(workflow, caller, only))["id"]
        if cursor and not _CURSOR.fullmatch(cursor):
            raise BadInputError("is not a cursor that was given", field="cursor")
        before = UUID(cursor) if cursor else LAST_ID
        rows = await self._workflows.list_runs(
            caller.namespace, before=before, limit=limit + 1, workflow_id=workflow_id, owner=only, status=status
        )
        items = [show_flow_row(row) for row in rows[:limit]]
        return WorkflowRunList(items=items, next_cursor=rows[limit - 1]["id"].hex if len(rows) > limit else None)

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
        asked: ResumeIn | None = None,
    ) -> WorkflowRunOut:
        """Runs failed nodes again, or the named ones, and all after them: the next generation of the workflow run.

        Of a map only failed members run again, if there are some. A run that is part of another one is resumed from
        the root down.
        """
        asked = asked or ResumeIn()
        nodes = asked.nodes
        row, _, _ = await self._get(run, caller, only)
        while row["cause"] in ("node", "member"):
            if nodes is not None:
                raise ConflictError(f"it is a part of {show_flow(row['job_id'])}: resume that")
            row, _, _ = await self._get(show_flow(row["job_id"]), caller, only)
        of = await self._workflows.find(caller.namespace, workflow_id=row["workflow_id"])
        if of is None or of["state"] == "deleted":
            raise ConflictError("its workflow was deleted")
        text, version = await self._version(row, of["version"] if asked.version == "latest" else asked.version)
        wanted = read_definition(text)
        plan = plan_of(wanted, caller, self._builder)
        graph, chosen = plan.graph, None if nodes is None else _chosen(plan.graph, nodes)
        _check_items(plan, chosen, asked.items)
        numbers = _renumbered(row, graph) if version != row["version"] else None

        def decide(row: Any, rows: dict[int, NodeRow], maps: Mapping[int, Members]) -> Resume:
            _check_resume(row, asked.generation, is_other=numbers is not None)
            if numbers is not None:
                rows = {numbers[old]: node for old, node in rows.items() if old in numbers}
                maps = {numbers[old]: it for old, it in maps.items() if old in numbers}
            states = {number: _state_of(node) for number, node in rows.items() if node.state != "waiting"}
            roots = to_resume(graph, states, is_over=row["ended_at"] is not None) if chosen is None else chosen
            if numbers is not None:
                roots = roots | {number for number in range(len(graph)) if number not in states}
            if not roots:
                raise ConflictError("there is nothing to resume: name the nodes that shall run again")
            again = what_runs_again(graph, states, roots)
            parts = {at for at in again.same_inputs if at in maps and _has_more(maps[at], states.get(at))}
            same = {at for at in again.same_inputs if at not in maps or at in parts}
            carrier = new_id(self._now().timestamp())
            return Resume(
                again.nodes,
                same,
                parts,
                carrier,
                wanted.deadline_seconds,
                items=asked.items,
                version=version,
                numbers=numbers,
            )

        await self._workflows.resume(caller.namespace, row["id"], decide)
        return await self.show_run(show_flow(row["id"]), caller)

    async def run_again(
        self, runs: Sequence[Any], caller: Caller, only: str | None = None, *, strict: bool = True
    ) -> int:
        """Runs of nodes (as `nodes_of` gives them) run again: one resume of each workflow run. Returns how many runs it
        was for; raises ConflictError if there is one workflow run, and it can't be resumed, unless not `strict`."""
        by_flow: dict[UUID, list[Any]] = defaultdict(list)
        for run in runs:
            by_flow[run["flow"]].append(run)
        count = 0
        for flow, those in by_flow.items():
            try:
                await self._run_again(flow, those, caller, only)
            except ConflictError:
                if strict and len(by_flow) == 1:
                    raise
                continue  # it runs, or is being stopped: its dead letters stay
            count += len(those)
        return count

    async def _run_again(self, flow: UUID, runs: Sequence[Any], caller: Caller, only: str | None) -> None:
        row, _, _ = await self._get(show_flow(flow), caller, only)
        if row["cause"] in NODE_CAUSES:
            await self.resume(show_flow(flow), caller, only=only)  # from the root down
            return
        keys = sorted(read_definition(row["definition"]).nodes)
        nodes = {run["node"] for run in runs}
        items = [run["item"] for run in runs] if len(nodes) == 1 and runs[0]["cause"] == "member" else None
        if items is not None and await self._workflows.redo_members(row["namespace"], flow, min(nodes), items):
            return
        asked = ResumeIn(nodes=[keys[number] for number in sorted(nodes)], items=items)
        await self.resume(show_flow(flow), caller, only=only, asked=asked)

    async def resume_carrier(self, run_id: UUID, caller: Caller, only: str | None = None) -> bool:
        """Resumes the workflow run that a run is; False: it is none."""
        flow = await self._workflows.find_carried(caller.namespace, run_id)
        if flow is None:
            return False
        await self.resume(show_flow(flow), caller, only=only)
        return True

    async def nodes_of(self, runs: Sequence[UUID], caller: Caller) -> list[Any]:
        """Which of these runs belong to nodes of workflow runs."""
        return await self._workflows.nodes_of(caller.namespace, runs)

    async def _version(self, row: Any, wanted: str | None) -> tuple[str, str]:
        """The definition that a workflow run goes on with, and its version."""
        version = wanted or row["version"]
        if version == row["version"]:
            return row["definition"], version
        text = await self._workflows.definition(row["namespace"], row["workflow_id"], version)
        if text is None:
            raise BadInputError("is no version of the workflow", field="version")
        return text, version

    async def signal(
        self,
        run: str,
        name: str,
        payload: Any,
        caller: Caller,
        *,
        only: str | None = None,
        key: str | None = None,
        request_hash: bytes = b"",
    ) -> SignalSent:
        """Sends a signal: the first wait for it takes it. A repeat with the same key gets the first answer."""
        await self._get(run, caller, only)
        text = _encoder.encode(payload).decode()
        if len(text.encode()) > STORED_BYTES:
            raise BadInputError(f"has more than {STORED_BYTES} bytes", field="payload")
        answer = SignalSent(workflow_run_id=run, signal=name)
        stored = None
        if key is not None:
            stored = SubmissionKey(caller.own(key), request_hash, _encoder.encode(answer).decode())
            if (known := await self._first_answer(stored, caller, SignalSent)) is not None:
                return known
        flow = parse_workflow_run(run)
        state = await self._workflows.signal(caller.namespace, flow, name, text, caller.owner, stored)
        if state == "ended":
            raise ConflictError("the workflow run has ended")
        if state == "full":
            raise ConflictError(f"the workflow run has {MOST_SIGNALS} signals that no node took")
        if state == "taken" and stored is not None:
            return await self._first_answer(stored, caller, SignalSent) or answer
        return answer

    async def decide(
        self, run: str, node: str, caller: Caller, *, only: str | None, approve: bool, comment: str | None
    ) -> WorkflowRunOut:
        """Approves or rejects what a node waits for: those that it names, whosever it is, or those who may act on all
        jobs (`only` is None)."""
        row, nodes, _ = await self._get(run, caller, None)
        numbers = {key: number for number, key in enumerate(sorted(read_definition(row["definition"]).nodes))}
        found = next((it for it in nodes if it["node"] == numbers.get(node)), None)
        approvers = None if found is None else found["approvers"]
        is_named = bool(approvers) and caller.owner in (approvers or ())
        if only is not None and row["owner"] != only and not is_named:
            raise NotFoundError("there is no such workflow run")  # whether it has such a node or not
        number = _number_of(row, node)
        if approvers is None:
            raise ConflictError(f"the node {node!r} does not wait for a decision")
        if not is_named and (approvers or only is not None):
            raise ForbiddenError(f"you may not decide on the node {node!r}: {', '.join(approvers) or 'operators'} may")
        word = "approved" if approve else "rejected"
        said = f"{word} by {caller.owner}" + (f": {comment}" if comment else "")
        result = {"approved": approve, "by": caller.owner, "comment": comment}
        if not await self._workflows.decide(
            caller.namespace,
            row["id"],
            number,
            outcome="success" if approve else "failed",
            result=_encoder.encode(result).decode(),
            reason=None if approve else said,
        ):
            raise ConflictError(f"the node {node!r} was decided, or ended, before")
        return await self.show_run(run, caller)

    async def members(
        self, run: str, node: str, caller: Caller, *, only: str | None, status: str, cursor: str, limit: int
    ) -> MemberList:
        """A page of the members of a map that failed, or that have not ended."""
        row, _, maps = await self._get(run, caller, only)
        number = _number_of(row, node)
        if number not in maps:
            raise NotFoundError(f"the node {node!r} has no members")
        flow = row["id"]
        if status == "failed":
            rows = await self._workflows.failed_members(
                caller.namespace, flow, number, after=_position(cursor), limit=limit + 1
            )
            items = [
                MemberOut(
                    index=it["item"],
                    run_id=it["run_id"] and show_run(it["run_id"]),
                    status="waiting" if it["is_redone"] else "failed",
                    reason=it["reason"],
                )
                for it in rows[:limit]
            ]
            return MemberList(items=items, next_cursor=str(items[-1].index) if len(rows) > limit else None)
        after = parse_run(cursor) if cursor else FIRST_ID
        rows = await self._workflows.open_members(caller.namespace, flow, number, after=after, limit=limit + 1)
        items = [MemberOut(index=it["item"], run_id=show_run(it["id"]), status=it["status"]) for it in rows[:limit]]
        return MemberList(items=items, next_cursor=items[-1].run_id if len(rows) > limit else None)

    async def results(
        self, run: str, node: str, caller: Caller, *, only: str | None, cursor: str, limit: int = 500
    ) -> tuple[list[tuple[int, Any, str | None]], str | None]:
        """A page of what the members of a map returned: the number of an item, and the result or its key in object
        storage; and the next cursor."""
        row, _, maps = await self._get(run, caller, only)
        number = _number_of(row, node)
        if number not in maps:
            raise NotFoundError(f"the node {node!r} has no members")
        first, offset = _place(cursor)
        part = await self._workflows.results_of_map(caller.namespace, row["id"], number, first)
        if part is None:
            return [], None
        lines = part["lines"].split("\n")
        skipped = offset if part["part"] == first else 0
        taken = [msgspec.json.decode(line) for line in lines[skipped : skipped + limit]]
        at_end = skipped + limit >= len(lines)
        next_cursor = f"{part['part'] + 1}.0" if at_end else f"{part['part']}.{skipped + limit}"
        return [(it["index"], it.get("result"), it.get("stored")) for it in taken], next_cursor

    async def _get(self, run: str, caller: Caller, only: str | None) -> tuple[Any, list[Any], Mapping[int, Members]]:
        found = await self._workflows.get(caller.namespace, parse_workflow_run(run))
        if found is None or (only is not None and found[0]["owner"] != only):
            raise NotFoundError("there is no such workflow run")
        return found

    async def _find(self, workflow: str, caller: Caller, only: str | None = None, *, deleted: bool = False) -> Any:
        by_id = _id_of(workflow)
        row = await self._workflows.find(caller.namespace, workflow_id=by_id, name=None if by_id else workflow)
        if row is None or (row["state"] == "deleted" and not deleted) or (only is not None and row["owner"] != only):
            raise NotFoundError("there is no such workflow")
        return row


def record_of(wanted: WorkflowIn, workflow_id: UUID, owner: str) -> WorkflowRecord:
    """A workflow as it is stored."""
    text, version = canonical(wanted)
    schedule = None if wanted.schedule is None else _sorted.encode(wanted.schedule).decode()
    zone = (wanted.schedule and wanted.schedule.timezone) or "UTC"
    return WorkflowRecord(workflow_id, wanted.name, owner, version, text, wanted.deadline_seconds, schedule, zone)


def schedule_of(wanted: WorkflowIn, caller: Caller, builder: JobBuilder, now: datetime) -> Recurring | None:
    """The recurring job that fires a workflow."""
    if wanted.schedule is None:
        return None
    values = check_inputs(wanted.schedule.inputs, wanted.inputs)
    given = {name: getattr(wanted.schedule, name) for name in wanted.schedule.__struct_fields__ if name != "inputs"}
    kind: Any = "interval" if wanted.schedule.cron_expression is None else "cron"
    payload = msgspec.Raw(_encoder.encode(values)) if values else UNSET
    job = JobIn(name=wanted.name, schedule_type=kind, task=WORKFLOW_TASK, payload=payload, max_retries=0, **given)
    try:
        item, _ = builder.prepare(job, caller, now, None)
    except BadInputError as error:
        in_schedule(error)
        raise
    if not isinstance(item, Recurring):
        raise BadInputError("needs cronExpression or everySeconds", field="schedule")
    policies = msgspec.structs.replace(decode_policies(item.definition.policies), opens=True)
    definition = msgspec.structs.replace(item.definition, policies=encode_policies(policies))
    return msgspec.structs.replace(item, definition=definition)


def _id_of(text: str) -> UUID | None:
    return parse_workflow(text) if text.startswith("wf_") and len(text) == len("wf_") + 32 else None


def _chosen(graph: Graph, keys: Sequence[str]) -> set[int]:
    for key in keys:
        if key not in graph.number_of:
            raise BadInputError(f"{key!r} is no node of the workflow", field="nodes")
    return {graph.number_of[key] for key in keys}


def _check_items(plan: WorkflowPlan, chosen: set[int] | None, items: Sequence[int] | None) -> None:
    if items is not None and (chosen is None or len(chosen) != 1 or plan.nodes[min(chosen)].map is None):
        raise BadInputError("needs one map in `nodes`", field="items")


def _has_more(members: Members, state: NodeState | None) -> bool:
    """Whether a map has members that failed, or were never made: then these are what a resume runs."""
    return bool(members.failed or members.stopped or members.is_redone or not members.is_made) or state is None


def _renumbered(row: Any, graph: Graph) -> dict[int, int]:
    """The numbers of nodes in another version, by those in the version of a workflow run."""
    keys = sorted(read_definition(row["definition"]).nodes)
    return {old: graph.number_of[key] for old, key in enumerate(keys) if key in graph.number_of}


def _number_of(row: Any, node: str) -> int:
    keys = sorted(read_definition(row["definition"]).nodes)
    if node not in keys:
        raise NotFoundError(f"the workflow has no node {node!r}")
    return keys.index(node)


def _position(cursor: str) -> int:
    if not cursor:
        return -1
    if not cursor.isdecimal() or not cursor.isascii() or len(cursor) > 9:  # noqa: PLR2004
        raise BadInputError("is not a cursor that was given", field="cursor")
    return int(cursor)


def _place(cursor: str) -> tuple[int, int]:
    """A part of the results of a map, and where in it a page begins."""
    found = _PLACE.fullmatch(cursor or "0")
    if found is None:
        raise BadInputError("is not a cursor that was given", field="cursor")
    return int(found[1]), int(found[2] or 0)


def _check_resume(row: Any, generation: int | None, *, is_other: bool) -> None:
    if is_other and row["ended_at"] is None:
        raise ConflictError("the workflow run has not ended: it can go on with another version when it has")
    if generation is not None and row["generation"] != generation:
        raise ConflictError(f"the workflow run is at generation {row['generation']}, not {generation}")
    if row["ended_at"] is None and row["stop"] is not None:
        raise ConflictError("the workflow run is being stopped; resume it when it has ended")


def _state_of(node: NodeRow) -> NodeState:
    state: Any = node.state
    return NodeState(state, node.generation)
