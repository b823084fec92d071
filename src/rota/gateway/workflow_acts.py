"""What a program does to a workflow run, as gateways pass it on: over HTTP, to the worker, or into the database."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rota.contract.workflows import WorkflowRunOut

_OPEN = ("running", "cancelling")


class WorkflowAct(msgspec.Struct, frozen=True, omit_defaults=True):
    """An act on a workflow run. `name`: of the signal, or the key of the node that is approved or rejected."""

    verb: Literal["look", "cancel", "resume", "signal", "approve", "reject"]
    run_id: str
    wait_seconds: float = 0.0
    generation: int | None = None
    nodes: list[str] | None = None
    items: list[int] | None = None
    version: str | None = None
    name: str = ""
    payload: Any = None
    key: str | None = None
    comment: str | None = None


class WorkflowStart(msgspec.Struct, frozen=True):
    """A run of a workflow to be started."""

    workflow: str
    inputs: dict[str, Any]
    key: str


def has_ended(run: WorkflowRunOut) -> bool:
    return run.status not in _OPEN
