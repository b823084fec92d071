"""Results and failures of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rota.contract.workflows import WorkflowRunOut
from rota.errors import RotaError
from rota.gateway.protocol import RunSnapshot
from rota.task.arguments import ArgumentsError

if TYPE_CHECKING:
    from rota.sdk.task import Task

R = TypeVar("R")
WAIT_SECONDS = 20.0  # the longest wait in one request


def value_of(task: Task[..., R], run_id: str, outcome: RunSnapshot) -> R:
    """The task's return value; raises RunFailedError."""
    if outcome.status != "success":
        raise RunFailedError(run_id, outcome.status, outcome.error or outcome.reason, outcome.traceback)
    try:
        value: R = task.parameters.result_of(outcome.result)
    except msgspec.ValidationError as error:
        raise ArgumentsError(f"the result of {run_id} doesn't fit the return type of {task.name}: {error}") from None
    return value


class RunFailedError(RotaError):
    """The run failed for good, was cancelled or skipped."""

    def __init__(self, run_id: str, status: str, why: str | None, traceback: str | None = None) -> None:
        super().__init__(f"{run_id} is {status}" + (f": {why}" if why else ""))
        self.run_id = run_id
        self.status = status
        self.error = why
        self.traceback = traceback


class WorkflowFailedError(RotaError):
    """The workflow run failed or was cancelled. `run` has its nodes; `culprit` is the key of the node that failed
    first."""

    def __init__(self, run: WorkflowRunOut) -> None:
        node = (run.nodes or {}).get(run.culprit or "")
        why = f": {run.culprit} failed" + (f" ({node.reason})" if node and node.reason else "") if run.culprit else ""
        super().__init__(f"{run.workflow_run_id} is {run.status}{why}")
        self.run = run
        self.status = run.status
        self.culprit = run.culprit


class NotAcceptedError(RotaError):
    """Some submissions were not accepted: `results` has a run or an error for each, in order. `to_repeat` has the calls
    that can be submitted again, with their keys."""

    def __init__(self, results: Sequence[Any]) -> None:
        errors = [result for result in results if isinstance(result, RotaError)]
        super().__init__(f"{len(errors)} of {len(results)} were not accepted; the first: {errors[0]}")
        self.results = list(results)
        self.to_repeat = [call for error in errors for call in error.to_repeat]
