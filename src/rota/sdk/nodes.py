"""Nodes of a workflow as code makes them: `task.node(…)`, `task.map(…)`, `flow.wait(…)`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar

from rota.contract.fields import wire_name
from rota.contract.workflows import NodeIn
from rota.domain.workflows.graph import EARLY, Trigger
from rota.errors import SetupError
from rota.sdk.options import Defaults, contract_name, depends_on_arguments, fields_of
from rota.sdk.placeholders import (
    Condition,
    Reference,
    Value,
    index,
    item,
    placeholders_in,
    plain,
    template_of,
)

if TYPE_CHECKING:
    from rota.sdk.task import Task
    from rota.sdk.workflow import Workflow

R = TypeVar("R")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_NAME = 94  # of a key, without a number
_current: ContextVar[Workflow | None] = ContextVar("rota_workflow", default=None)


class MapCounts(TypedDict):
    """What the result of a map is to the nodes after it: how many members there were, and how they ended."""

    total: int
    success: int
    failed: int
    skipped: int


class Node(Value, Generic[R]):
    """A node of a workflow, and a placeholder for its result: given to another node as an argument, it is what its task
    returned, and the other one runs after it.

    `node["path"]` is a part of the result. `node.result` is the same as the node, with its task's type: type checkers
    then check that it fits.
    """

    def __init__(self, flow: Workflow, name: str, content: Mapping[str, Any], reads: Iterable[Value]) -> None:
        super().__init__(lambda: {"$from": self.key}, f"result of {name}")
        self.name = name
        self._flow = flow
        self._content = dict(content)
        self._reads = list(reads)
        self._after: list[Node[Any]] = []
        self._given_key: str | None = None
        self._condition: Condition | None = None
        flow.add(self)

    def __repr__(self) -> str:
        return f"<Node {self._given_key or self.name}>"

    @property
    def result(self) -> R:
        """Its result, typed."""
        return self  # a placeholder passes for any type

    @property
    def key(self) -> str:
        """Its key in the workflow: the one given, else the task's own name, with a number if several nodes have it."""
        return self._flow.key_of(self)

    @property
    def given_key(self) -> str | None:
        """For the SDK: the key that was given to it."""
        return self._given_key

    @property
    def flow(self) -> Workflow:
        """For the SDK: the workflow that it belongs to."""
        return self._flow

    def after(self, *nodes: Node[Any] | Iterable[Node[Any]], trigger: Trigger | None = None) -> Self:
        """Runs it after these nodes, too. `trigger`: which of their ends start it."""
        for one in nodes:
            self._after += [one] if isinstance(one, Node) else list(one)
        for node in self._after:
            if not isinstance(node, Node) or node.flow is not self._flow:
                raise SetupError(f"{self!r} comes after nodes of its own workflow; {node!r} is none.")
        return self if trigger is None else self.with_options(trigger=trigger)

    def when(self, condition: Condition) -> Self:
        """Runs it only if a condition holds, such as `rows["count"] > 0`; else it is skipped."""
        if not isinstance(condition, Condition):
            raise SetupError(f"{self!r}: .when() takes a condition, such as rows['count'] > 0, not {condition!r}.")
        self._condition = condition
        return self

    def with_options(
        self, *, key: str | None = None, trigger: Trigger | None = None, allow_failure: bool | None = None
    ) -> Self:
        """Sets its key, which ends of the nodes before it start it, or that what comes after goes on if it fails."""
        if key is not None:
            self._given_key = key
            self._flow.forget_keys()
        given = {"trigger": trigger, "allowFailure": allow_failure}
        self._content |= {name: value for name, value in given.items() if value is not None}
        return self

    def written(self) -> Reference:
        """For the SDK: the reference to its result."""
        return {"$from": self.key}

    def definition(self) -> dict[str, Any]:
        """For the SDK: the node as the definition has it."""
        content = {name: template_of(value) if name in _TEMPLATES else value for name, value in self._content.items()}
        if "map" in content:
            content["map"] = {**content["map"], "items": _items_of(content["map"]["items"])}
        if after := self._predecessors():
            content["after"] = after
        if self._condition is not None:
            content["when"] = self._condition.written()
        return content

    def _predecessors(self) -> list[str]:
        """The nodes before it: those given, and those whose results it is given.

        A node that starts at the first end of those given is not held up by others; it may only read what has surely
        ended by then, which is checked with the whole graph.
        """
        found = list(self._after)
        if not found or self._content.get("trigger") not in EARLY:
            found += self._read_nodes()
        return list(dict.fromkeys(node.key for node in found))

    def _read_nodes(self) -> Iterator[Node[Any]]:
        for value in (*self._reads, *(() if self._condition is None else self._condition.reads)):
            source = value.source
            if isinstance(source, Node):
                if source.flow is not self._flow:
                    raise SetupError(f"{self!r} is given {source!r} of another workflow.")
                yield source


# Fields whose values can have placeholders in them.
_TEMPLATES = frozenset({"payload", "wait"})


class StoredObject:
    """An object in storage with one item per line, for a map."""

    def __init__(self, name: str) -> None:
        self.name = name


def _items_of(items: Any) -> Any:
    if isinstance(items, StoredObject):
        return {"$object": items.name}
    return template_of(items)


def current_workflow(what: str) -> Workflow:
    """The workflow of the surrounding `with` block; raises SetupError outside of one."""
    flow = _current.get()
    if flow is None:
        raise SetupError(f"{what} makes a node of a workflow: use it inside `with app.workflow(…) as flow:`.")
    return flow


def node_of(
    task: Task[..., R], options: Mapping[str, Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Node[R]:
    """A node that runs a task with these arguments."""
    flow = current_workflow(f"{short_name(task.name)}.node(…)")
    bound = task.parameters.bind(arguments, keywords)
    _check_known(task, bound)
    return Node(flow, task.name, _content_of(task, options, bound), placeholders_in(bound))


def map_of(
    task: Task[..., Any],
    options: Mapping[str, Any],
    items: Any,
    wanted: Mapping[str, Any],
    keywords: Mapping[str, Any],
) -> Node[MapCounts]:
    """A node that runs a task once per item."""
    flow = current_workflow(f"{short_name(task.name)}.map(…)")
    given = dict(keywords)
    if not any(value.source is item or value.source is index for value in placeholders_in(given)):
        given[_parameter_of_item(task, given)] = item
    bound = task.parameters.bind((), given)
    _check_known(task, bound)
    content = _content_of(task, options, bound)
    limits = {name: value for name, value in wanted.items() if value is not None}
    reads = [*placeholders_in(bound), *placeholders_in(items)]
    if not isinstance(items, Value | StoredObject | list | tuple):
        raise SetupError(
            f"{short_name(task.name)}.map() takes a list, a node, a part of its result, an input or "
            f"flow.object(…), not {items!r}."
        )
    content["map"] = {"items": items, **{wire_name(name): value for name, value in limits.items()}}
    return Node(flow, task.name, content, reads)


def _check_known(task: Task[..., Any], bound: Mapping[str, Any]) -> None:
    """Arguments without placeholders fail here, not when the node runs."""
    task.parameters.check_some(
        {name: one for name, one in bound.items() if not any(True for _ in placeholders_in(one))}
    )


def _parameter_of_item(task: Task[..., Any], given: Mapping[str, Any]) -> str:
    """The only parameter left, or the only one left that must be given."""
    left = [one for one in task.parameters.names if one not in given]
    needed = [one for one in left if task.parameters.needs(one)]
    for some in (needed, left):
        if len(some) == 1:
            return some[0]
    several = ", ".join(needed or left) or "none"
    raise SetupError(
        f"Which parameter of {short_name(task.name)} gets the item? It has {several} left: name it, such as "
        f"{(needed or left or ['file'])[0]}=rota.item, and give the others."
    )


def _content_of(task: Task[..., Any], options: Mapping[str, Any], bound: Mapping[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"task": task.name}
    if bound:
        content["payload"] = dict(bound)
    return content | node_options(task.name, {**task.defaults, **options}, bound)


def node_options(name: str, options: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a node for a task's options; raises SetupError for one that a node can't have."""
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if contract_name(option) not in NodeIn.__struct_fields__ or option not in Defaults.__annotations__:
            raise SetupError(
                f"{short_name(name)}: a node can't have {option}. Leave it out: "
                f"{short_name(name)}.with_options({option}=None).node(…)"
            )
    fields = {field: _fixed(name, field, value) for field, value in _fields(name, given, arguments).items()}
    return {wire_name(field): plain(value) for field, value in fields.items()}


def _fields(name: str, given: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return fields_of(given, arguments)
    except SetupError as error:
        if keys := [option for option, value in given.items() if depends_on_arguments(value)]:
            raise _unknown_key(name, keys[0]) from error
        raise


def _fixed(name: str, field: str, value: Any) -> Any:
    """A field that depends on no placeholder."""
    if isinstance(value, Value) or (hasattr(value, "key") and isinstance(value.key, Value)):
        raise _unknown_key(name, field)
    return value


def _unknown_key(name: str, option: str) -> SetupError:
    return SetupError(
        f"{short_name(name)}: {option} is made of arguments that are known only when the workflow runs. Give the node "
        f"a fixed one, or none: {short_name(name)}.with_options({option}=…).node(…)"
    )


def short_name(task: str) -> str:
    """The last part of a task's name."""
    return task.rpartition(".")[2] or task


def keys_of(nodes: Iterable[Node[Any]]) -> dict[int, str]:
    """The key of each node, by its identity; raises SetupError if two were given the same."""
    nodes = list(nodes)
    taken: set[str] = set()
    found: dict[int, str] = {}
    for node in nodes:
        if node.given_key is not None:
            if node.given_key in taken:
                raise SetupError(f"Two nodes have the key {node.given_key!r}; give one of them another.")
            taken.add(node.given_key)
            found[id(node)] = node.given_key
    names: Counter[str] = Counter()
    for node in nodes:
        if node.given_key is None:
            name = _UNFIT.sub("_", short_name(node.name))[:_LONGEST_NAME] or "node"
            found[id(node)] = _next_key(name, names, taken)
    return found


def _next_key(name: str, names: Counter[str], taken: set[str]) -> str:
    """The name, or with the next number that is free."""
    while True:
        names[name] += 1
        key = name if names[name] == 1 else f"{name}_{names[name]}"
        if key not in taken:
            return key


def entered(flow: Workflow | None) -> Any:
    """Makes a workflow the current one; gives what undoes it."""
    return _current.set(flow)


def left(token: Any) -> None:
    """Undoes `entered`."""
    _current.reset(token)
