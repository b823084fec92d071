"""Random workflows, of which is known how each node ends: its task is told, and the rules say the rest."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from rota.domain.workflows.graph import Graph, GraphNode
from workflows.graphs import expected, random_graph

KINDS = ("task",) * 10 + ("flaky",) * 3 + ("map",) * 3 + ("part", "adds", "wait", "signal", "late", "approval")
PART = "part"
_QUICK_RETRY = {"strategy": "fixed", "baseSeconds": 0.2, "jitter": 0}
_KEPT = {"maxRetries": 50, "retry": _QUICK_RETRY}  # enough for every worker that is killed
_ON_TIMEOUT = {"failed": "fail", "skipped_by_condition": "skip", "success": "succeed"}
_FAILS = 0.2
_UNWANTED = 0.1
State = Literal["success", "failed", "skipped_by_condition"]


class Told(msgspec.Struct):
    """A node, and what it is told to do. `fails`: until its workflow is healed. `items`: which members of a map do."""

    key: str
    after: list[str]
    trigger: str
    allow_failure: bool
    kind: str
    fails: bool = False
    is_wanted: bool = True
    on_timeout: State = "success"
    seconds: float = 0.0
    items: list[bool] = []
    window: int = 1
    tolerated: int = 0

    def end(self, *, healed: bool) -> State:
        """How it ends if it runs."""
        if not self.is_wanted:
            return "skipped_by_condition"
        if self.kind == "late":
            return self.on_timeout
        fails = sum(self.items) > self.tolerated if self.kind == "map" else self.fails
        return "failed" if fails and not healed else "success"


class Story(msgspec.Struct, dict=True):
    """A workflow and how it goes."""

    name: str
    nodes: list[Told]
    is_cancelled: bool = False  # in its first generation
    is_signalled_early: bool = False
    is_paused: bool = False  # for some time in its first generation

    @cached_property
    def graph(self) -> Graph:
        """In the order of the keys, as nodes are numbered in the database."""
        return Graph([GraphNode(it.key, tuple(it.after), it.trigger, it.allow_failure) for it in self.told])

    @cached_property
    def told(self) -> list[Told]:
        return sorted(self.nodes, key=lambda it: it.key)

    def ends(self, *, healed: bool, kept: Mapping[str, str] | None = None) -> dict[str, str]:
        """How each node ends by the rules."""
        graph = self.graph
        by_number = {graph.number_of[key]: state for key, state in (kept or {}).items()}
        ends = {number: it.end(healed=healed) for number, it in enumerate(self.told)}
        fails = {number: end == "failed" for number, end in ends.items()}
        wanted = {number: end != "skipped_by_condition" for number, end in ends.items()}
        found = expected(graph, fails, wanted, by_number)
        return {graph.nodes[number].key: end for number, end in found.items()}

    def reset(self, states: Mapping[str, str]) -> set[str]:
        """The nodes that a resume runs again."""
        again: set[str] = set()
        for number in self.graph.order:
            it = self.told[number]
            own = states[it.key] == "failed" and not it.allow_failure
            if own or states[it.key] in ("stopped", "skipped_by_failure") or again & {*it.after}:
                again.add(it.key)
        return again

    @property
    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inputs": {"no": {"default": False}},
            "nodes": {it.key: self._node(it) for it in self.nodes},
        }

    def _node(self, it: Told) -> dict[str, Any]:
        node: dict[str, Any] = {"after": it.after, "trigger": it.trigger, "allowFailure": it.allow_failure}
        if not it.is_wanted:
            node["when"] = {"$input": "no", "eq": True}
        return node | self._work(it)

    def _work(self, it: Told) -> dict[str, Any]:
        told = {"flow": self.name, "fails": it.fails}
        waits: dict[str, dict[str, Any]] = {
            "wait": {"seconds": it.seconds},
            "signal": {"signal": f"to-{it.key}"},
            "approval": {"approval": True},
            "late": {"signal": "never", "timeoutSeconds": 0.2, "onTimeout": _ON_TIMEOUT[it.on_timeout]},
        }
        if it.kind in waits:
            return {"wait": waits[it.kind]}
        if it.kind == "part":
            return {"workflow": PART, "payload": told}
        if it.kind == "adds":
            return {"task": "adder", "payload": told} | _KEPT
        told |= {"seconds": it.seconds}
        if it.kind == "map":
            items = {"items": it.items, "maxConcurrency": it.window, "tolerateFailures": it.tolerated}
            return {"task": "node", "payload": told | {"fails": {"$item": ""}}, "map": items} | _KEPT
        return {"task": "node", "payload": told | {"flaky": 2 if it.kind == "flaky" else 0}} | _KEPT


def part() -> dict[str, Any]:
    """The workflow that nodes of others run: its second node fails if it is told to."""
    told = {"flow": {"$input": "flow"}}
    first = {"task": "node", "payload": told} | _KEPT
    second = {"task": "node", "payload": told | {"fails": {"$input": "fails"}}, "after": ["first"]} | _KEPT
    third = {"task": "node", "payload": told, "after": ["second"], "trigger": "all_ended"} | _KEPT
    nodes = {"first": first, "second": second, "third": third}
    return {"name": PART, "nodes": nodes, "inputs": {"flow": {"type": "string"}, "fails": {"type": "boolean"}}}


def random_story(chance: random.Random, name: str, most: int, seconds: float, least: int = 1) -> Story:
    """`seconds`: about how long a node takes."""
    graph = random_graph(chance, most, least)
    nodes = [_told(chance, node, seconds) for node in graph.nodes]
    return Story(name, nodes, chance.random() < 0.35, chance.random() < 0.5, chance.random() < 0.35)


def _told(chance: random.Random, node: GraphNode, seconds: float) -> Told:
    told = Told(node.key, list(node.after), node.trigger, node.allow_failure, chance.choice(KINDS))
    told.fails = told.kind in ("task", "part", "adds", "approval") and chance.random() < _FAILS
    told.is_wanted = told.kind == "map" or chance.random() >= _UNWANTED
    told.on_timeout = chance.choice(("failed", "skipped_by_condition", "success"))
    told.seconds = chance.choice((0, seconds, 2 * seconds))
    if told.kind == "map":
        told.items = [chance.random() < _FAILS / 2 for _ in range(chance.randint(0, 40))]
        told.window = chance.randint(1, 20)
        told.tolerated = chance.choice((0, 0, 2, 40))
    return told
