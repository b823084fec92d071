"""Workflows between the contract and the rules: definitions are checked, stored and read again as plans.

A plan is what a scheduler needs to run a workflow: its graph, and for each node the job that it makes. Plans are made
of stored definitions and never change, so they are remembered by version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET

from rota.contract.jobs import JobIn
from rota.contract.workflows import InputIn, MapIn, NodeIn, WorkflowIn
from rota.domain.job import Definition
from rota.domain.rights import Caller
from rota.domain.workflows.graph import Graph, Node
from rota.domain.workflows.references import check_condition, check_template, references_in
from rota.errors import BadInputError
from rota.gateway.job_builder import JobBuilder

_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(WorkflowIn)
_JOB_FIELDS = {field.name for field in msgspec.structs.fields(JobIn)} & {
    field.name for field in msgspec.structs.fields(NodeIn)
}
_WINDOW = 4000
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
    """A node as it is run."""

    key: str
    definition: Definition  # without a payload
    payload: dict[str, Any] | None
    when: dict[str, Any] | None
    map: MapPlan | None = None


class WorkflowPlan(msgspec.Struct, frozen=True):
    """A workflow as it is run. Nodes are in the order of their numbers in the graph."""

    graph: Graph
    nodes: tuple[NodePlan, ...]
    inputs: Mapping[str, InputIn]
    fail_fast: bool


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
    return WorkflowPlan(graph, plans, wanted.inputs, wanted.fail_fast)


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


def _rules_of(key: str, node: NodeIn) -> Node:
    return Node(key, tuple(node.after), node.trigger, node.allow_failure, tuple(_read_by(node)))


def _read_by(node: NodeIn) -> Iterator[str]:
    items = node.map.items if node.map else None
    for reference in references_in([node.payload if node.payload is not UNSET else None, node.when, items]):
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
    fields = {name: getattr(node, name) for name in _JOB_FIELDS - {"payload"}}
    if node.task is None:
        raise BadInputError("required, but missing", field=f"{field}.task")
    job = JobIn(name=f"{workflow}/{key}"[:200], schedule_type="immediate", **fields)
    try:
        definition = builder.template(job, owner)
    except BadInputError as error:
        raise _within(error, field) from None
    return NodePlan(key, definition, payload, node.when, _map_of(node.map, f"{field}.map", inputs))


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
