"""Workflows and their runs as people see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rota.contract.workflows import (
    MembersOut,
    NodeOut,
    VersionOut,
    WorkflowOut,
    WorkflowRunOut,
    WorkflowScheduleIn,
)
from rota.domain.ids import show_run, show_workflow
from rota.domain.ids import show_workflow_run as show_flow
from rota.domain.job import NODE_CAUSES
from rota.domain.workflows.graph import Graph, GraphNode
from rota.domain.workflows.progress import FAILURES, Members
from rota.gateway.workflow_plans import read_definition

_SHOWN_FAILURES = {"failed": "failed", "stopped": "was stopped", "skipped_by_failure": "was skipped"}
_SKIPS: Mapping[str, Any] = {"skipped_by_condition": "condition", "skipped_by_failure": "failure"}


def show_workflow_row(row: Any) -> WorkflowOut:
    wanted = read_definition(row["definition"])
    return WorkflowOut(
        workflow_id=show_workflow(row["id"]),
        name=row["name"],
        owner=row["owner"],
        status=row["state"],
        version=row["version"],
        revision=row["revision"],
        nodes=wanted.nodes,
        inputs=wanted.inputs,
        schedule=None if row["schedule"] is None else msgspec.json.decode(row["schedule"], type=WorkflowScheduleIn),
        fail_fast=wanted.fail_fast,
        deadline_seconds=wanted.deadline_seconds,
        created_at=row["created_at"],
        changed_at=row["changed_at"],
    )


def show_version_row(row: Any) -> VersionOut:
    return VersionOut(
        version=row["version"],
        number=row["number"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        nodes=read_definition(row["definition"]).nodes,
    )


def show_flow_row(
    row: Any, nodes: list[Any] | None = None, maps: Mapping[int, Members] | None = None
) -> WorkflowRunOut:
    stopping = row["stop"] is not None and row["stop"] != "failure"
    return WorkflowRunOut(
        workflow_run_id=show_flow(row["id"]),
        workflow_id=show_workflow(row["workflow_id"]),
        name=row["name"],
        owner=row["owner"],
        status=row["outcome"] or ("cancelling" if stopping else "running"),
        version=row["version"],
        generation=row["generation"],
        start_time=row["opened_at"],
        end_time=row["ended_at"],
        deadline=row["deadline_at"],
        culprit=row["culprit"],
        nominal_time=row["nominal_at"],
        cause=row["cause"],
        parent=show_flow(row["job_id"]) if row["cause"] in NODE_CAUSES else None,
        started_by=row["started_by"],
        stopped_by=row["stopped_by"],
        paused=row["is_paused"],
        result=None if row["result"] is None else msgspec.json.decode(row["result"]),
        inputs=None if nodes is None or row["inputs"] is None else msgspec.json.decode(row["inputs"]),
        nodes=None if nodes is None else _shown_nodes(row, nodes, maps or {}),
    )


def _shown_nodes(row: Any, nodes: list[Any], maps: Mapping[int, Members]) -> dict[str, NodeOut]:
    wanted = read_definition(row["definition"])
    keys = sorted(wanted.nodes)
    graph = Graph(
        [
            GraphNode(key, tuple(node.after), node.trigger, node.allow_failure)
            for key, node in ((key, wanted.nodes[key]) for key in keys)
        ]
    )
    by_number = {node["node"]: node for node in nodes if node["state"] != "waiting"}
    shown = {key: _shown_node(number, graph, by_number, maps.get(number)) for number, key in enumerate(keys)}
    for key, node in shown.items():
        if wanted.nodes[key].wait is not None:
            node.run_id = None  # it has a mark instead
    return shown


def _shown_node(number: int, graph: Graph, nodes: Mapping[int, Any], members: Members | None) -> NodeOut:
    row = nodes.get(number)
    if row is None:
        return NodeOut(
            status="waiting",
            waiting_for=_waits_for(number, graph, nodes),
            reason=_will_be_skipped(number, graph, nodes),
        )
    kind = _SKIPS.get(row["state"])
    is_waiting = row["state"] == "open" and (row["signal"] or row["approvers"] is not None or row["wakes_at"])
    status: Any = "running" if row["state"] == "open" else row["state"]
    if row["state"] == "open" and row["run_status"]:
        status = row["run_status"]
    own_run = row["run_id"] is not None and members is None
    return NodeOut(
        status="skipped" if kind else "waiting" if is_waiting else status,
        run_id=show_run(row["run_id"]) if own_run else None,
        start_time=row["opened_at"],
        end_time=row["ended_at"],
        reason=row["reason"],
        skipped_by=kind,
        culprit=row["culprit"],
        waiting_for=_wait_of(row) if is_waiting else None,
        generation=row["generation"],
        members=None if members is None else _shown_members(members),
        workflow_run_id=None if row["child"] is None else show_flow(row["child"]),
    )


def _waits_for(number: int, graph: Graph, nodes: Mapping[int, Any]) -> dict[str, str]:
    """The nodes before it that have not ended, and how they are."""
    return {
        graph.nodes[one].key: "waiting" if one not in nodes else nodes[one]["run_status"] or "running"
        for one in graph.before[number]
        if one not in nodes or nodes[one]["state"] == "open"
    }


def _will_be_skipped(number: int, graph: Graph, nodes: Mapping[int, Any]) -> str | None:
    """Why a node that waits will be skipped when all before it have ended."""
    node = graph.nodes[number]
    if node.trigger not in ("all_succeeded", "none_failed"):
        return None
    for one in graph.before[number]:
        state = nodes[one]["state"] if one in nodes else "waiting"
        if state in FAILURES and not (state == "failed" and graph.nodes[one].allow_failure):
            return f"will be skipped: {graph.nodes[one].key} {_SHOWN_FAILURES[state]}"
    return None


def _wait_of(row: Any) -> dict[str, str]:
    """What a wait waits for."""
    found = {"signal": row["signal"]} if row["signal"] else {}
    if row["approvers"] is not None:
        found["approval"] = ", ".join(row["approvers"]) or "all who may approve"
    if row["wakes_at"] is not None:
        found["until"] = row["wakes_at"].isoformat()
    return found


def _shown_members(members: Members) -> MembersOut:
    counts = members.handle
    return MembersOut(
        total=counts["total"] if members.is_made else None,
        success=counts["success"],
        failed=members.failed,
        skipped=members.skipped,
        running=members.made - members.ended,
    )
