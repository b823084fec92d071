"""One workflow run in one transaction of a conductor: it hears what ended, and says what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from rota.contract.workflows import MOST_WAIT_SECONDS, NodeIn, NodeKey, WaitIn, WorkflowIn
from rota.domain.ids import new_id
from rota.domain.rights import Caller
from rota.domain.workflows.progress import FlowProgress, Members, NodeState, Start
from rota.domain.workflows.references import (
    MissingValueError,
    Values,
    holds,
    render,
    stored_values,
    with_stored,
)
from rota.errors import BadInputError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import (
    MOST_LEVELS,
    MapPlan,
    NodePlan,
    Pin,
    Pins,
    WorkflowPlan,
    canonical,
    encode_pins,
    plan_of,
)
from rota.store.flow.rows import (
    Advance,
    FlowNote,
    NewChild,
    NewMap,
    NewWait,
    NodeRow,
    NodeRun,
    failed_children,
    read_results,
)
from rota.store.postgres.database import Statements

_LARGEST_RESULT_BYTES = 64 * 1024
_LATEST = 253_000_000_000.0  # in the year 9987: what is later is no time in every zone
_ON_TIMEOUT = {"fail": "failed", "skip": "skipped", "succeed": "success"}


class FlowStep:
    """One workflow run, under its lock."""

    def __init__(
        self,
        plan: WorkflowPlan,
        row: Any,
        nodes: dict[int, NodeRow],
        maps: Mapping[int, Members],
        builder: JobBuilder,
        pins: Pins,
        most: int,
    ) -> None:
        self._plan = plan
        self._row = row
        self._rows = nodes
        self._old_maps = maps
        self._builder = builder
        self._pins = pins
        self._most = most
        self._results: dict[int, Any] = {}
        self._stored: dict[str, str] = {}  # the keys in object storage of results, by node
        self._resumable: set[UUID] = set()  # workflow runs of nodes that failed before
        self._run_of: dict[int, UUID] = {}
        self._added: dict[int, str] = {}  # the results of nodes that added some
        self._advance = Advance(row, pins=encode_pins(pins) if row["pins"] is None else None)
        self._progress = FlowProgress(
            plan.graph,
            {number: state_of(node, maps.get(number)) for number, node in nodes.items() if node.state != "waiting"},
            generation=row["generation"],
            stop=row["stop"],
            fail_fast=plan.fail_fast,
            is_paused=row["is_paused"],
            start=self._start,
            now=row["database_time"],
        )

    async def take(self, statements: Statements, notes: Sequence[FlowNote], maps: Iterable[int]) -> Advance:
        """Hears notes, and of maps whose members ended; decides what follows."""
        progress = self._progress
        progress.look_at(maps)
        ended: dict[int, FlowNote] = {}
        for note in notes:
            if note.node is None:
                progress.look_at_all()
            elif self._is_current(note) and note.node not in ended:
                ended[note.node] = note
                if not self._adds_nodes(note.node, note):
                    progress.hear(note.node, note.outcome or "failed", note.reason)
        self._hear_results(ended)
        await self._read_children(statements)
        while ready := progress.settle(self._most):
            await self._read_results(statements, ready)
            for number in ready:
                progress.open(number)
        advance = self._advance
        advance.again = progress.is_cut_off or bool(advance.reopened) or any(wait.signal for wait in advance.waits)
        advance.stop = progress.stop
        advance.nodes = [self._written(number, ended.get(number)) for number in sorted(progress.changed)]
        if progress.is_over:
            advance.outcome, advance.culprit = progress.outcome, progress.culprit
            advance.result = await self._result(statements, ended)
        return advance

    def _is_current(self, note: FlowNote) -> bool:
        node = self._rows.get(note.node or 0)
        return node is not None and node.state == "open" and node.run_id == note.run_id

    # What nodes read

    def _hear_results(self, ended: Mapping[int, FlowNote]) -> None:
        for number, note in ended.items():
            if note.outcome == "success" and not self._rows[number].adds:
                self._keep_result(number, self._added.get(number, note.result), note.result_blob)

    async def _read_results(self, statements: Statements, starting: Iterable[int]) -> None:
        """Reads the results that nodes which start refer to."""
        wanted = {read for number in starting for read in self._plan.reads[number]}
        known = [at for at in wanted - {*self._results} if at in self._rows and self._rows[at].state != "waiting"]
        if known:
            found = await read_results(statements, self._row["namespace"], self._row["id"], known)
            for number, (text, blob) in found.items():
                self._keep_result(number, text, blob)

    def _keep_result(self, number: int, text: str | None, blob: str | None) -> None:
        if blob is not None:
            self._stored[self._plan.nodes[number].key] = blob
        self._results[number] = None if text is None else msgspec.json.decode(text)

    async def _read_children(self, statements: Statements) -> None:
        """Finds out which workflow runs of nodes that run again failed: these are resumed."""
        before = [
            row.run_id
            for number, row in self._rows.items()
            if row.state == "waiting" and row.run_id is not None and self._plan.nodes[number].child is not None
        ]
        if before:
            self._resumable = await failed_children(statements, self._row["namespace"], before)

    def _values(self, number: int) -> Values:
        row = self._row
        return values_of(
            row["inputs"],
            row["nominal_at"],
            row["timezone"],
            self._result_of,
            self._stored,
            self._progress.triggered_by(number),
        )

    def _result_of(self, key: str) -> Any:
        number = self._plan.graph.number_of[key]
        state = self._progress.nodes.get(number)
        if state is not None and state.members is not None:
            return state.members.handle
        return self._results.get(number) if state is not None and state.state == "success" else None

    # What starts

    def _start(self, number: int) -> Start:
        node = self._plan.nodes[number]
        values = self._values(number)
        try:
            if node.when is not None and node.map is None and not holds(node.when, values):
                return Start("skipped_by_condition", "its condition does not hold")
            if node.map is not None:
                return self._start_map(number, node.map, values)
            if node.wait is not None:
                return self._start_wait(number, node.wait, values)
            if node.child is not None:
                return self._start_child(number, node, node.child, values)
            return self._start_run(number, node, values)
        except (MissingValueError, BadInputError) as error:
            return Start("failed", str(error))

    def _start_run(self, number: int, node: NodePlan, values: Values) -> Start:
        try:
            text = payload_of(node, values, self._builder)
        except (MissingValueError, BadInputError) as error:
            return Start("failed", f"its payload could not be made: {error}")
        run_id = new_id(self._row["database_time"])
        options = (
            node.definition.options
            if node.payload is None
            else with_stored(node.definition.options, stored_values(node.payload, values))
        )
        definition = msgspec.structs.replace(node.definition, payload=text, options=options)
        self._advance.runs.append(NodeRun(run_id, number, definition, self._key(number)))
        self._run_of[number] = run_id
        return Start()

    def _start_child(self, number: int, node: NodePlan, name: str, values: Values) -> Start:
        pin = self._pins.get(name)
        if pin is None:
            return Start("failed", f"there is no workflow named {name!r}")
        if self._row["depth"] + 1 > MOST_LEVELS:
            return Start("failed", f"workflows are nested deeper than {MOST_LEVELS} levels")
        carrier = new_id(self._row["database_time"])
        self._run_of[number] = carrier
        before = self._rows.get(number)
        if before is not None and before.run_id in self._resumable and before.inputs_of < self._row["generation"]:
            self._advance.resumed.append((before.run_id, carrier, number))
            return Start()
        inputs = render(node.payload, values) if node.payload is not None else {}
        self._open(number, carrier, name, pin, inputs)
        return Start()

    def _open(self, number: int, flow: UUID, name: str, pin: Pin, inputs: Any, definition: str | None = None) -> None:
        text = msgspec.json.encode(inputs).decode() if inputs else None
        self._advance.children.append(
            NewChild(
                flow,
                number,
                self._key(number),
                self._row["shard"],
                pin.owner,
                name,
                text,
                pin.workflow_id,
                pin.version,
                pin.deadline_seconds,
                encode_pins(self._pins),
                definition,
            )
        )

    def _start_wait(self, number: int, wait: WaitIn, values: Values) -> Start:
        now = self._row["database_time"]
        wakes_at = None if wait.timeout_seconds is None else now + wait.timeout_seconds
        outcome = _ON_TIMEOUT[wait.on_timeout]
        if wait.seconds is not None:
            wakes_at, outcome = now + _seconds(render(wait.seconds, values)), "success"
        elif wait.until is not None:
            wakes_at, outcome = _moment(render(wait.until, values), values), "success"
        mark = new_id(now)
        self._run_of[number] = mark
        approvers = "\n".join(wait.approvers) if wait.approval else None
        self._advance.waits.append(NewWait(number, mark, wakes_at, outcome, wait.signal, approvers))
        return Start()

    def _start_map(self, number: int, wanted: MapPlan, values: Values) -> Start:
        before, known = self._rows.get(number), self._old_maps.get(number)
        if before is not None and known is not None and before.inputs_of == known.inputs_of:
            self._advance.reopened.append(number)
            # What is written now is read by the next look; it must not end before.
            return Start(members=msgspec.structs.replace(known, is_redone=True, is_failing=False, stopped=0))
        items: Any = None
        if wanted.object is None:
            if stored_values(wanted.items, values):
                return Start("failed", "its items are too large to be read: use an object with a line for each item")
            try:
                items = render(wanted.items, values)
            except MissingValueError as error:
                return Start("failed", f"its items could not be read: {error}")
            if not isinstance(items, list):
                return Start("failed", "its items are not a list")
        self._advance.maps.append(
            NewMap(
                number,
                self._inputs_of(number),
                None if wanted.object is not None else msgspec.json.encode(items).decode(),
                wanted.object,
                wanted.window,
                wanted.tolerated,
                wanted.tolerated_percent,
                wanted.stops,
            )
        )
        return Start(members=Members())

    def _adds_nodes(self, number: int, note: FlowNote) -> bool:
        """Opens what a node's run added with its success; False: it added nothing."""
        if note.outcome != "success" or note.result is None or '"$add"' not in note.result or self._rows[number].adds:
            return False
        if self._plan.nodes[number].wait is not None:
            return False  # what a signal carries is a value, whoever sent it
        found = msgspec.json.decode(note.result)
        if not isinstance(found, dict) or "$add" not in found:
            return False
        result = found.get("$result")
        self._added[number] = msgspec.json.encode(result).decode()
        if self._progress.stop is not None and self._progress.is_stopped(number):
            return False
        key = self._plan.nodes[number].key
        try:
            text, version = self._check_added(key, found["$add"])
        except (BadInputError, msgspec.ValidationError) as error:
            self._progress.hear(number, "failed", f"what it added can't be run: {error}")
            return True
        child = new_id(self._row["database_time"])
        self._run_of[number] = child
        pin = Pin(self._row["workflow_id"], version, self._row["owner"], None)
        inputs = msgspec.json.decode(self._row["inputs"]) if self._row["inputs"] else {}
        self._open(number, child, f"{self._row['name']}/{key}"[:200], pin, inputs, text)
        self._progress.changed.add(number)
        return True

    def _check_added(self, key: str, added: Any) -> tuple[str, str]:
        if self._row["depth"] + 1 > MOST_LEVELS:
            raise BadInputError(f"nodes are added deeper than {MOST_LEVELS} levels")
        nodes = msgspec.convert(added, dict[NodeKey, NodeIn])
        wanted = WorkflowIn(name=f"{self._row['name']}/{key}"[:200], nodes=nodes, inputs=dict(self._plan.inputs))
        plan = plan_of(wanted, Caller(namespace=self._row["namespace"], owner=self._row["owner"]), self._builder)
        if unknown := plan.children - {name for name, pin in self._pins.items() if pin is not None}:
            raise BadInputError(f"the workflow {min(unknown)!r} is not among those that this run began with")
        return canonical(wanted)

    # What is written

    def _inputs_of(self, number: int) -> int:
        row = self._rows.get(number)
        generation: int = self._row["generation"]
        return generation if row is None else row.inputs_of

    def _key(self, number: int) -> UUID:
        return key_of(self._row["id"], self._plan.nodes[number].key, self._inputs_of(number))

    def _written(self, number: int, note: FlowNote | None) -> NodeRow:
        state = self._progress.nodes[number]
        keeps = note is not None and note.outcome == "success"
        added = number in self._added
        return NodeRow(
            number,
            state.state,
            state.generation,
            self._inputs_of(number),
            self._run_of.get(number),
            added and state.state == "open",
            state.reason,
            state.culprit,
            state.ended_at,
            self._added[number] if added else note.result if keeps and note else None,
            note.result_blob if keeps and note else None,
        )

    async def _result(self, statements: Statements, ended: Mapping[int, FlowNote]) -> str | None:
        """The results of the nodes that nothing but handlers follows, if they are not too large together."""
        graph = self._plan.graph
        last = [
            number
            for number in range(len(graph))
            if all(graph.nodes[after].is_handler for after in graph.after[number])
        ]
        left = [one for one in last if one not in ended and self._progress.nodes[one].state == "success"]
        found = await read_results(statements, self._row["namespace"], self._row["id"], left) if left else {}
        texts = {number: text for number, (text, _) in found.items()}
        for number in last:
            if number in ended and self._progress.nodes[number].state == "success":
                texts[number] = self._added.get(number, ended[number].result)
        results = {
            graph.nodes[number].key: msgspec.Raw(text.encode()) for number, text in sorted(texts.items()) if text
        }
        for number in last:
            members = self._progress.nodes[number].members
            if members is not None:
                results[graph.nodes[number].key] = msgspec.Raw(msgspec.json.encode(members.handle))
        text = msgspec.json.encode(results).decode() if results else None
        return text if text is not None and len(text) <= _LARGEST_RESULT_BYTES else None


def payload_of(node: NodePlan, values: Values, builder: JobBuilder) -> str | None:
    """The payload of a node's run; raises MissingValueError, or BadInputError if it is none of its task."""
    payload = None if node.payload is None else render(node.payload, values)
    text = builder.payload(msgspec.Raw(msgspec.json.encode(payload))) if payload is not None else None
    builder.check_node(node.definition.task, text)
    return text


def key_of(flow: UUID, node: str, inputs_of: int, item: int | None = None) -> UUID:
    """The idempotency key of a node's or member's runs: the same as long as its inputs are."""
    text = key_prefix(flow, node, inputs_of) + ("" if item is None else f"/{item}")
    return UUID(bytes=sha256(text.encode()).digest()[:16])


def key_prefix(flow: UUID, node: str, inputs_of: int) -> str:
    return f"{flow.hex}/{node}/{inputs_of}"


def values_of(
    inputs: str | None,
    nominal_at: datetime,
    timezone: str,
    results: Callable[[str], Any],
    stored: Mapping[str, str],
    triggered_by: str | None = None,
) -> Values:
    """What references of a workflow run can name."""
    return Values(
        inputs=msgspec.json.decode(inputs) if inputs else {},
        nominal=nominal_at.astimezone(ZoneInfo(timezone)),
        results=results,
        stored=stored,
        triggered_by=triggered_by,
    )


def state_of(node: NodeRow, members: Members | None) -> NodeState:
    """A stored node as the rules see it."""
    state: Any = node.state
    return NodeState(state, node.generation, node.reason, node.culprit, node.ended_at, members)


def _seconds(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= MOST_WAIT_SECONDS:
        raise BadInputError(f"it can't wait for {given!r} seconds")
    return float(given)


def _moment(given: Any, values: Values) -> float:
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(given)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=values.nominal.tzinfo)).timestamp()
    except (TypeError, ValueError, OverflowError):
        raise BadInputError(f"it can't wait until {given!r}: that is no time") from None
    if seconds > _LATEST:
        raise BadInputError(f"it can't wait until {given!r}: that is too far away")
    return max(seconds, 0.0)
