"""Workflows between the contract and the rules: definitions are checked, stored and read again as plans.

A plan is what a scheduler needs to run a workflow: its graph, and for each node the job that it makes. Plans are made
of stored definitions and never change, so they are remembered by version.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from rota.contract.jobs import JobIn
from rota.contract.workflows import InputIn, MapIn, NodeIn, WaitIn, WorkflowIn
from rota.domain.job import WORKFLOW_TASK, Definition
from rota.domain.rights import Caller
from rota.domain.workflows.graph import Graph, GraphNode
from rota.domain.workflows.references import check_condition, check_template, is_reference, references_in
from rota.errors import BadInputError
from rota.gateway.job_builder import JobBuilder

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(WorkflowIn)
_JOB_FIELDS = {field.name for field in msgspec.structs.fields(JobIn)} & {
    field.name for field in msgspec.structs.fields(NodeIn)
}
_NODE_DEFAULTS: Mapping[str, Any] = {name: getattr(NodeIn(), name) for name in NodeIn.__struct_fields__}
_shown_as = dict(zip(NodeIn.__struct_fields__, NodeIn.__struct_encode_fields__, strict=True))
_WINDOW = 4000
_MOST_PINS = 1000
MOST_LEVELS = 10  # of workflows in workflows, and of nodes that nodes added
_OBJECT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


class MapPlan(msgspec.Struct, frozen=True):
    """How a node runs once per item. `object`: the name of the object with the items."""

    items: Any
    object: str | None
    window: int
    tolerated: int | None
    tolerated_percent: float | None
    stops: bool


class NodePlan(msgspec.Struct, frozen=True):
    """A node as it is run. `child`: the workflow that it runs."""

    key: str
    definition: Definition  # without a payload
    payload: dict[str, Any] | None
    when: dict[str, Any] | None
    map: MapPlan | None = None
    wait: WaitIn | None = None
    child: str | None = None


class WorkflowPlan(msgspec.Struct, frozen=True):
    """A workflow as it is run. Nodes are in the order of their numbers in the graph."""

    name: str
    graph: Graph
    nodes: tuple[NodePlan, ...]
    inputs: Mapping[str, InputIn]
    fail_fast: bool
    deadline_seconds: float | None = None

    has_maps: bool = False
    children: frozenset[str] = frozenset()  # the names of the workflows that nodes run
    reads: tuple[tuple[int, ...], ...] = ()  # of each node: the nodes whose results it may need


def canonical(wanted: WorkflowIn) -> tuple[str, str]:
    """The definition as it is stored, and its version: the same for requests that mean the same."""
    nodes = dict(sorted(wanted.nodes.items()))
    text = _encoder.encode(msgspec.structs.replace(wanted, nodes=nodes, schedule=None))
    return text.decode(), sha256(text).hexdigest()[:32]


def read_definition(text: str) -> WorkflowIn:
    """A stored definition."""
    return _decoder.decode(text)


def plan_of(wanted: WorkflowIn, owner: Caller, builder: JobBuilder) -> WorkflowPlan:
    """What a workflow does; raises BadInputError that names the node."""
    keys = sorted(wanted.nodes)
    graph = Graph([_rules_of(key, wanted.nodes[key]) for key in keys])
    plans = tuple(_plan_of(wanted.name, key, wanted.nodes[key], wanted.inputs, owner, builder) for key in keys)
    for name, given in wanted.inputs.items():
        if given.default is not UNSET:
            _check_type(name, given, given.default)
    return WorkflowPlan(
        wanted.name,
        graph,
        plans,
        wanted.inputs,
        wanted.fail_fast,
        wanted.deadline_seconds,
        any(node.map is not None for node in plans),
        frozenset(node.child for node in plans if node.child is not None),
        tuple(tuple(_read_by_number(number, node, graph)) for number, node in enumerate(plans)),
    )


def _read_by_number(number: int, node: NodePlan, graph: Graph) -> Iterator[int]:
    waited = node.wait and [node.wait.seconds, node.wait.until]
    for reference in references_in([node.payload, node.when, node.map and node.map.items, waited]):
        if "$from" in reference:
            yield graph.number_of[reference["$from"]]
        elif "$trigger" in reference:
            yield from graph.before[number]


def check_inputs(given: Mapping[str, Any], wanted: Mapping[str, InputIn]) -> dict[str, Any]:
    """The values of all inputs; raises BadInputError for one that is missing, not known or of another type."""
    for name in given:
        if name not in wanted:
            raise BadInputError("is no input of this workflow", field=f"inputs.{name}")
    values: dict[str, Any] = {}
    for name, one in wanted.items():
        value = given.get(name, one.default)
        if value is UNSET:
            raise BadInputError("required, but missing", field=f"inputs.{name}")
        _check_type(name, one, value)
        values[name] = value
    return values


def _check_type(name: str, wanted: InputIn, value: Any) -> None:
    if wanted.type is None:
        return
    fits = isinstance(value, _TYPES[wanted.type]) and (isinstance(value, bool) == (wanted.type == "boolean"))
    if not fits:
        raise BadInputError(f"must be of type {wanted.type}", field=f"inputs.{name}")


def _rules_of(key: str, node: NodeIn) -> GraphNode:
    return GraphNode(key, tuple(node.after), node.trigger, node.allow_failure, tuple(_read_by(node)))


def _read_by(node: NodeIn) -> Iterator[str]:
    items = node.map.items if node.map else None
    waited = [node.wait.seconds, node.wait.until] if node.wait else None
    for reference in references_in([node.payload if node.payload is not UNSET else None, node.when, items, waited]):
        if isinstance(key := reference.get("$from"), str):
            yield key


def _plan_of(
    workflow: str, key: str, node: NodeIn, inputs: Mapping[str, InputIn], owner: Caller, builder: JobBuilder
) -> NodePlan:
    field = f"nodes.{key}"
    payload = None if node.payload is UNSET else node.payload
    in_map = node.map is not None
    check_template(payload, f"{field}.payload", in_map=in_map, inputs=inputs)
    if node.when is not None:
        check_condition(node.when, f"{field}.when", in_map=in_map, inputs=inputs)
    _check_kind(node, field, inputs)
    fields = {name: getattr(node, name) for name in _JOB_FIELDS - {"payload"}}
    if node.task is None:
        fields["task"] = WORKFLOW_TASK
    job = JobIn(name=f"{workflow}/{key}"[:200], schedule_type="immediate", **fields)
    try:
        definition = builder.template(job, owner)
    except BadInputError as error:
        raise _within(error, field) from None
    items = _map_of(node.map, f"{field}.map", inputs)
    return NodePlan(key, definition, payload, node.when, items, node.wait, node.workflow)


def _check_kind(node: NodeIn, field: str, inputs: Mapping[str, InputIn]) -> None:
    """Raises BadInputError unless it is one thing, with options that fit it."""
    kinds = [name for name in ("task", "wait", "workflow") if getattr(node, name) is not None]
    if len(kinds) != 1:
        raise BadInputError("needs one of task, wait and workflow", field=f"{field}.{kinds[1] if kinds else 'task'}")
    if node.task is not None:
        return
    for name in (_JOB_FIELDS - {"task", "payload"}) | ({"map", "payload"} if node.wait is not None else set()):
        if getattr(node, name) != _NODE_DEFAULTS[name]:
            raise BadInputError(f"a node with `{kinds[0]}` has none", field=f"{field}.{_shown_as[name]}")
    if node.wait is not None:
        _check_wait(node.wait, f"{field}.wait", inputs)


def _check_wait(wait: WaitIn, field: str, inputs: Mapping[str, InputIn]) -> None:
    kinds = [name for name in ("seconds", "until", "signal") if getattr(wait, name) is not None]
    kinds += ["approval"] * wait.approval
    if len(kinds) != 1:
        raise BadInputError("needs one of seconds, until, signal and approval", field=field)
    ends_by_itself = kinds[0] in ("seconds", "until")
    if ends_by_itself and (wait.timeout_seconds is not None or wait.on_timeout != "fail"):
        raise BadInputError("ends by itself: it has no timeout", field=f"{field}.timeoutSeconds")
    if wait.approvers and not wait.approval:
        raise BadInputError("are for approvals", field=f"{field}.approvers")
    if any("\n" in name for name in wait.approvers):
        raise BadInputError("has a line break in a name", field=f"{field}.approvers")
    for name in ("seconds", "until"):
        if isinstance(given := getattr(wait, name), dict):
            if not is_reference(given):
                raise BadInputError("must be a value or a reference to one", field=f"{field}.{name}")
            check_template(given, f"{field}.{name}", in_map=False, inputs=inputs)


def _map_of(wanted: MapIn | None, field: str, inputs: Mapping[str, InputIn]) -> MapPlan | None:
    if wanted is None:
        return None
    named = wanted.items.get("$object") if isinstance(wanted.items, dict) else None
    if named is not None:
        if len(wanted.items) > 1 or not isinstance(named, str) or not _OBJECT.fullmatch(named):
            raise BadInputError("must name an object: letters, digits and _.-/", field=f"{field}.items")
    elif isinstance(wanted.items, dict) and not any(name in wanted.items for name in ("$from", "$input")):
        raise BadInputError("must be a list, or name one: $from, $input or $object", field=f"{field}.items")
    else:
        check_template(wanted.items, f"{field}.items", in_map=False, inputs=inputs)
    share = wanted.tolerate_failures if isinstance(wanted.tolerate_failures, str) else None
    percent = None if share is None else float(share.removesuffix("%"))
    if percent is not None and percent > 100:  # noqa: PLR2004
        raise BadInputError("is more than all of them", field=f"{field}.tolerateFailures")
    if wanted.stop_on_failure and wanted.tolerate_failures not in (0, "0%"):
        raise BadInputError("tolerates no failure: leave tolerateFailures out", field=f"{field}.stopOnFailure")
    return MapPlan(
        None if named is not None else wanted.items,
        named,
        wanted.max_concurrency or _WINDOW,
        None if percent else 0 if percent == 0 else int(wanted.tolerate_failures),
        percent or None,
        wanted.stop_on_failure,
    )


def _within(error: BadInputError, field: str) -> BadInputError:
    """The same error, of a field inside another one."""
    told = BadInputError(str(error))
    told.fields = [(f"{field}.{name}", message) for name, message in error.fields] or [(field, str(error))]
    return told


class Pin(msgspec.Struct, frozen=True, array_like=True):
    """The version of a workflow that a workflow run uses for its nodes."""

    workflow_id: UUID
    version: str
    owner: str
    deadline_seconds: float | None


Pins = Mapping[str, Pin | None]  # by name; None: there is no such workflow


async def find_pins(names: Iterable[str], owner: str, find: Callable[[str], Awaitable[Any]]) -> Pins:
    """The current versions of an owner's workflows, and of all that these run; `find` gives the row of one by name."""
    pins: dict[str, Pin | None] = {}
    left = sorted(names)
    while left and len(pins) < _MOST_PINS:
        name = left.pop()
        if name in pins:
            continue
        row = await find(name)
        if row is None or row["owner"] != owner:
            pins[name] = None
            continue
        pins[name] = Pin(row["id"], row["version"], row["owner"], row["deadline_seconds"])
        left += sorted({node.workflow for node in read_definition(row["definition"]).nodes.values() if node.workflow})
    return pins


def encode_pins(pins: Pins) -> str:
    return msgspec.json.encode(pins).decode()


def decode_pins(text: str) -> Pins:
    return _pins.decode(text)


_pins = msgspec.json.Decoder(dict[str, Pin | None])


class PlanCache:
    """Plans by (namespace, workflow, version)."""

    def __init__(self, builder: JobBuilder, most: int = 1000) -> None:
        self._builder = builder
        self._most = most
        self._plans: dict[tuple[str, Any, str], WorkflowPlan] = {}

    def get(self, key: tuple[str, Any, str]) -> WorkflowPlan | None:
        return self._plans.get(key)

    def add(self, key: tuple[str, Any, str], text: str, owner: str) -> WorkflowPlan:
        """The plan of a stored definition."""
        plan = plan_of(read_definition(text), Caller(namespace=key[0], owner=owner), self._builder)
        if len(self._plans) >= self._most:
            self._plans.pop(next(iter(self._plans)))
        self._plans[key] = plan
        return plan
