"""Random graphs, and an oracle: how each node ends, computed from how runs end, in the order of the graph."""

from __future__ import annotations

import random
from collections.abc import Mapping

from rota.domain.workflows.graph import Graph, GraphNode

TRIGGERS = ("all_succeeded",) * 3 + ("all_ended", "any_succeeded", "any_failed", "none_failed")
FAILURES = {"failed", "stopped", "skipped_by_failure"}


def random_graph(chance: random.Random, most: int = 12, least: int = 1) -> Graph:
    size = chance.randint(least, most)
    nodes = []
    for number in range(size):
        before = chance.sample(range(number), min(number, chance.choice((0, 1, 1, 2, 3))))
        trigger = chance.choice(TRIGGERS) if before else chance.choice(("all_succeeded", "all_ended", "none_failed"))
        after = tuple(f"n{one}" for one in before)
        nodes.append(GraphNode(f"n{number}", after, trigger, allow_failure=chance.random() < 0.15))
    return Graph(nodes)


def expected(
    graph: Graph, fails: Mapping[int, bool], wanted: Mapping[int, bool], kept: Mapping[int, str] | None = None
) -> dict[int, str]:
    """How each node ends if nothing stops the run: `fails` says which runs do, `wanted` which conditions hold, `kept`
    how those ended that a resume does not run again."""
    ends: dict[int, str] = {}
    for number in graph.order:
        node = graph.nodes[number]
        if kept and number in kept:
            ends[number] = kept[number]
            continue
        seen = []
        for one in graph.before[number]:
            excused = ends[one] == "failed" and graph.nodes[one].allow_failure and node.trigger != "any_failed"
            seen.append("success" if excused else ends[one])
        failed = any(end in FAILURES for end in seen)
        runs = {
            "all_succeeded": all(end == "success" for end in seen),
            "all_ended": True,
            "none_failed": not failed,
            "any_succeeded": "success" in seen,
            "any_failed": failed,
        }[node.trigger]
        if runs:
            ends[number] = ("failed" if fails[number] else "success") if wanted[number] else "skipped_by_condition"
        else:
            ends[number] = "skipped_by_failure" if failed and node.trigger != "any_failed" else "skipped_by_condition"
    return ends
