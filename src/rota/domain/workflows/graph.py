"""The graph of a workflow: which node comes after which, and what is refused when it is created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import Literal

import msgspec

from rota.errors import BadInputError

MOST_NODES = 10_000
MOST_READS = 1000  # results that one node reads
_MOST_ERRORS = 20  # that are told: to find what each wrong key may mean takes time
_MOST_SHOWN = 20  # nodes of a cycle
Trigger = Literal["all_succeeded", "all_ended", "none_failed", "any_succeeded", "any_failed"]
# These start at the first end that fits. All other triggers are decided when every node before has ended.
EARLY: frozenset[str] = frozenset({"any_succeeded", "any_failed"})
# Nodes that deal with failures: failFast does not stop them.
HANDLERS: frozenset[str] = frozenset({"any_failed", "all_ended"})


class GraphNode(msgspec.Struct, frozen=True):
    """What the rules need to know of a node."""

    key: str
    after: tuple[str, ...] = ()
    trigger: Trigger = "all_succeeded"
    allow_failure: bool = False
    reads: tuple[str, ...] = ()  # the nodes whose results its payload, its condition or its items name

    @property
    def is_handler(self) -> bool:
        return self.trigger in HANDLERS


class Graph:
    """Nodes by number, in the order given."""

    def __init__(self, nodes: Sequence[GraphNode]) -> None:
        """Raises BadInputError that names what is wrong, node by node."""
        self.nodes = tuple(nodes)
        self.number_of = {node.key: number for number, node in enumerate(self.nodes)}
        _refuse(self._bad_edges())
        self.before = [tuple(self.number_of[key] for key in node.after) for node in self.nodes]
        self.after: list[list[int]] = [[] for _ in self.nodes]
        for number, before in enumerate(self.before):
            for one in before:
                self.after[one].append(number)
        self.order = self._sorted()
        _refuse(self._bad_reads())

    def __len__(self) -> int:
        return len(self.nodes)

    def descendants(self, numbers: Iterable[int]) -> set[int]:
        """All nodes after these, without these unless they come after each other."""
        found: set[int] = set()
        left = [after for number in numbers for after in self.after[number]]
        while left:
            number = left.pop()
            if number not in found:
                found.add(number)
                left += self.after[number]
        return found

    def has_surely_ended(self, number: int, *, before: int) -> bool:
        """Whether a node has ended whenever another one starts, whatever happens."""
        return bool(self._sure[before] >> number & 1)

    @cached_property
    def _sure(self) -> list[int]:
        """For each node, those that have surely ended when it starts, as the bits of a number."""
        sure = [0] * len(self.nodes)
        for number in self.order:
            ended = [sure[one] | 1 << one for one in self.before[number]]
            if self.nodes[number].trigger in EARLY:
                sure[number] = ended[0]
                for some in ended:
                    sure[number] &= some
            else:
                for some in ended:
                    sure[number] |= some
        return sure

    def _bad_edges(self) -> Iterator[tuple[str, str]]:
        if len(self.nodes) > MOST_NODES:
            yield "nodes", f"has {len(self.nodes)} nodes; the limit is {MOST_NODES}"
            return
        if not self.nodes:
            yield "nodes", "has no nodes"
        for node in self.nodes:
            field = f"nodes.{node.key}.after"
            for key in node.after:
                if key == node.key:
                    yield field, "names the node itself"
                elif key not in self.number_of:
                    yield field, f"names {key!r}, which is no node{self._nearest(key)}"
            if len({*node.after}) < len(node.after):
                yield field, "names a node twice"
            if node.trigger in EARLY and not node.after:
                yield f"nodes.{node.key}.trigger", f"{node.trigger} needs nodes before it"

    def _bad_reads(self) -> Iterator[tuple[str, str]]:
        for number, node in enumerate(self.nodes):
            if len({*node.reads}) > MOST_READS:
                yield f"nodes.{node.key}", f"reads the results of more than {MOST_READS} nodes"
                continue
            for key in dict.fromkeys(node.reads):
                other = self.number_of.get(key)
                if other is None:
                    yield f"nodes.{node.key}", f"reads {key!r}, which is no node{self._nearest(key)}"
                elif not self.has_surely_ended(other, before=number):
                    yield f"nodes.{node.key}", f"reads {key!r}, which may not have ended when this node starts"

    def _sorted(self) -> list[int]:
        """The numbers so that each node comes after those before it; raises BadInputError for a cycle."""
        missing = [len(before) for before in self.before]
        order = [number for number, count in enumerate(missing) if not count]
        for number in order:
            for after in self.after[number]:
                missing[after] -= 1
                if not missing[after]:
                    order.append(after)
        if len(order) < len(self.nodes):
            cycle = " → ".join(self._cycle({number for number, count in enumerate(missing) if count}))
            raise BadInputError(f"is a cycle: {cycle}", field="nodes")
        return order

    def _cycle(self, among: set[int]) -> list[str]:
        """A cycle; each of these nodes comes after another one of them."""
        place: dict[int, int] = {}
        number = min(among)
        while number not in place:
            place[number] = len(place)
            number = next(one for one in self.before[number] if one in among)
        cycle = [self.nodes[one].key for one in [*list(place)[place[number] :], number]]
        if len(cycle) > _MOST_SHOWN:
            cycle[_MOST_SHOWN - 1 : -1] = [f"{len(cycle) - _MOST_SHOWN} more"]
        return cycle[::-1]

    def _nearest(self, key: str) -> str:
        near = get_close_matches(key, self.number_of, n=1)
        return f"; did you mean {near[0]!r}?" if near else ""


def _refuse(found: Iterable[tuple[str, str]]) -> None:
    errors = list(islice(found, _MOST_ERRORS))
    if errors:
        field, message = errors[0]
        error = BadInputError(message, field=field)
        error.fields = errors
        raise error
