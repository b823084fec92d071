"""How a workflow, its runs and the difference between two definitions look in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rota.cli.terminal.tables import Column, one_line, print_line, print_table, status, text
from rota.cli.terminal.times import show_length, show_seconds, show_time

Nodes = Mapping[str, Mapping[str, Any]]
_MOST_NAMED = 3


def show_nodes(nodes: Nodes, edges: Mapping[str, Sequence[str]], now: str) -> None:
    """A table of a run's nodes, each below those that it comes after."""
    rows = [_row(key, depth, nodes[key], now) for key, depth in in_order(edges, nodes)]
    columns = (
        Column(heading="NODE", show=lambda row: row["node"], least=12),
        status(),
        *((text("MEMBERS", "members"),) if any(row["members"] for row in rows) else ()),
        text("TOOK", "took", drop=1),
        text("WHY", "why", least=16),
        text("RUN", "runId", drop=2),
    )
    print_table(rows, columns, none="No nodes.")


def show_definition(nodes: Nodes) -> None:
    """A table of a definition's nodes."""
    edges = {key: node.get("after", []) for key, node in nodes.items()}
    rows = [
        {
            "node": "  " * depth + key,
            "runs": what_runs(nodes[key]),
            "after": ", ".join(nodes[key].get("after", [])),
            "trigger": nodes[key].get("trigger", "all_succeeded") if nodes[key].get("after") else "",
        }
        for key, depth in in_order(edges, nodes)
    ]
    columns = (
        Column(heading="NODE", show=lambda row: row["node"], least=12),
        text("RUNS", "runs", least=12),
        text("AFTER", "after", least=8),
        text("TRIGGER", "trigger", drop=1),
    )
    print_table(rows, columns, none="No nodes.")


def what_runs(node: Mapping[str, Any]) -> str:
    """What a node does, in few words."""
    if node.get("workflow"):
        return f"workflow {node['workflow']}"
    if wait := node.get("wait"):
        return _wait_words(wait)
    return f"{node.get('task', '')}{' per item' if node.get('map') else ''}"


def _wait_words(wait: Mapping[str, Any]) -> str:
    if wait.get("approval"):
        return "waits for approval"
    if wait.get("signal"):
        return f"waits for signal {wait['signal']}"
    if wait.get("seconds") is not None:
        return f"waits {show_seconds(wait['seconds'])}"
    return f"waits until {wait.get('until')}"


def in_order(edges: Mapping[str, Sequence[str]], nodes: Nodes) -> Iterator[tuple[str, int]]:
    """Nodes so that each comes after those before it, with its depth, by name within a depth."""
    depths: dict[str, int] = {}
    left = {key: [one for one in edges.get(key, ()) if one in nodes] for key in nodes}
    while left:
        ready = sorted(key for key, before in left.items() if all(one in depths for one in before)) or sorted(left)
        for key in ready:
            depths[key] = max((depths.get(one, 0) + 1 for one in left.pop(key)), default=0)
    for key in sorted(depths, key=lambda key: (depths[key], key)):
        yield key, depths[key]


def _row(key: str, depth: int, node: Mapping[str, Any], now: str) -> dict[str, Any]:
    end = node.get("endTime") or (now if node["status"] == "running" else None)
    return {
        "node": "  " * depth + key,
        "status": node["status"],
        "members": _members(node.get("members")),
        "took": show_length(node.get("startTime"), end),
        "why": why_of(node),
        "runId": node.get("workflowRunId") or node.get("runId"),
    }


def _members(members: Mapping[str, Any] | None) -> str:
    if members is None:
        return ""
    ended = members["success"] + members["failed"] + members["skipped"]
    counts = ", ".join(f"{members[word]} {word}" for word in ("failed", "skipped", "running") if members.get(word))
    total = "?" if members["total"] is None else members["total"]
    return f"{ended}/{total}" + (f" ({counts})" if counts else "")


def why_of(node: Mapping[str, Any]) -> str:
    """What a node waits for, or why it ended as it did."""
    if waiting := node.get("waitingFor"):
        named = [f"{key} ({how})" for key, how in waiting.items()]
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        # A node that was started waits by itself; else for the nodes before it.
        ahead = f"; {node['reason']}" if node.get("reason") else ""
        return one_line(f"{'for' if node.get('startTime') else 'after'} {', '.join(named[:_MOST_NAMED])}{more}{ahead}")
    if node.get("skippedBy") == "failure":
        reason = f": {node['reason']}" if node.get("reason") else ""
        return one_line(f"{node.get('culprit') or 'a node before it'} failed{reason}")
    return one_line(node.get("reason"))


def show_run_line(run: Mapping[str, Any]) -> None:
    """A line about a run: its status, times and culprit."""
    took = show_length(run["startTime"], run.get("endTime"))
    words = [f"{run['workflowRunId']} of {run['name']} is {run['status']}"]
    words += ["paused with its workflow"] if run.get("paused") else []
    words.append(f"started {show_time(run['startTime'])}")
    words += [f"took {took}"] if took else []
    words += [f"deadline {show_time(run['deadline'])}"] if run.get("deadline") and not run.get("endTime") else []
    words += [f"generation {run['generation']}"] if run["generation"] > 1 else []
    words += [f"{run['culprit']} failed first"] if run.get("culprit") else []
    print_line(", ".join(words))


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What changes, a row for each node and for each other field."""
    known: Mapping[str, Any] = before or {}
    rows = [
        _changed(name, known.get(name), after.get(name))
        for name in sorted({*known, *after} - {"name", "nodes"})
        if known.get(name) != after.get(name)
    ]
    old, new = known.get("nodes", {}), after["nodes"]
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    return rows + [_changed(f"nodes.{key}", old.get(key), new.get(key)) for key in changed]


def _changed(what: str, old: Any, new: Any) -> dict[str, Any]:
    if old is None or new is None:
        return {"what": what, "change": "added" if old is None else "removed", "fields": []}
    both = isinstance(old, dict) and isinstance(new, dict)
    fields = sorted(name for name in {*old, *new} if old.get(name) != new.get(name)) if both else []
    return {"what": what, "change": "changed", "fields": fields}


DIFFERENCE = (
    text("WHAT", "what", least=12),
    text("CHANGE", "change"),
    Column(heading="FIELDS", show=lambda row: ", ".join(row["fields"]), least=10),
)
