# Made from src/rota/client/async_workflows.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""The calls about workflows and their runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from rota.client._sync.transport import Calls
from rota.client.bodies import fields_of, new_key
from rota.client.errors import AnswerError, ServerUnreachableError
from rota.client.retries import Patience
from rota.clock import Deadline
from rota.contract.workflows import (
    MemberList,
    MemberOut,
    MemberResult,
    MemberResults,
    SignalSent,
    VersionList,
    VersionOut,
    WorkflowIn,
    WorkflowList,
    WorkflowOut,
    WorkflowRunList,
    WorkflowRunOut,
    WorkflowRunStarted,
    WorkflowRunStatus,
)

_PAGE_SIZE = 100
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_GROWTH = 1.5
_OPEN = ("running", "cancelling")


class WorkflowCalls(Calls):
    """Workflows, by their id or name, and their runs, by their id."""

    def create_workflow(self, definition: WorkflowIn | Mapping[str, Any]) -> WorkflowOut:
        """Creates a workflow. Not retried once sent: a repeat would find the name taken."""
        return self._ask(WorkflowOut, "POST", "/v1/workflows", body=definition)

    def change_workflow(
        self, workflow: str, definition: WorkflowIn | Mapping[str, Any], *, if_match: int | None = None
    ) -> WorkflowOut:
        """Gives a workflow another definition, for runs that start from now on.

        With `if_match`, only if the workflow still has that revision (else AnswerError with status 412); then it is not
        retried once sent.
        """
        return self._ask(
            WorkflowOut,
            "PUT",
            _workflow(workflow),
            body=definition,
            headers=None if if_match is None else {"If-Match": f'"{if_match}"'},
            repeatable=if_match is None,
        )

    def workflow(self, workflow: str) -> WorkflowOut:
        """A workflow with its definition."""
        return self._ask(WorkflowOut, "GET", _workflow(workflow), repeatable=True)

    def workflows(self, *, page_size: int = _PAGE_SIZE) -> Iterator[WorkflowOut]:
        """Workflows, by name."""
        return self._items(WorkflowList, "/v1/workflows", {}, page_size)

    def workflow_versions(self, workflow: str) -> list[VersionOut]:
        """The latest versions of a workflow, newest first."""
        return (self._ask(VersionList, "GET", f"{_workflow(workflow)}/versions", repeatable=True)).items

    def delete_workflow(self, workflow: str) -> WorkflowOut:
        """Deletes a workflow and cancels its open runs.

        AnswerError with status 404 if there is none, also if an earlier try of this call deleted it.
        """
        return self._ask(WorkflowOut, "DELETE", _workflow(workflow), repeatable=True)

    def pause_workflow(self, workflow: str) -> WorkflowOut:
        """Stops its schedule, and starts no more nodes of its open runs; what runs ends."""
        return self._ask(WorkflowOut, "POST", f"{_workflow(workflow)}/pause", repeatable=True)

    def resume_workflow(self, workflow: str) -> WorkflowOut:
        """Resumes a paused workflow."""
        return self._ask(WorkflowOut, "POST", f"{_workflow(workflow)}/resume", repeatable=True)

    def run_workflow(
        self, workflow: str, inputs: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> WorkflowRunStarted:
        """Starts a run of a workflow; the same key again, within 24 hours, gets the first answer."""
        return self._ask(
            WorkflowRunStarted,
            "POST",
            f"{_workflow(workflow)}/run",
            body={"inputs": inputs or {}},
            headers={"Idempotency-Key": idempotency_key or new_key()},
            repeatable=True,
        )

    def workflow_runs(
        self,
        *,
        workflow: str | None = None,
        status: WorkflowRunStatus | None = None,
        page_size: int = _PAGE_SIZE,
    ) -> Iterator[WorkflowRunOut]:
        """Workflow runs, newest first, without their nodes."""
        return self._items(WorkflowRunList, "/v1/workflow-runs", {"workflow": workflow, "status": status}, page_size)

    def workflow_run(self, workflow_run_id: str) -> WorkflowRunOut:
        """A workflow run with its nodes."""
        return self._ask(WorkflowRunOut, "GET", _workflow_run(workflow_run_id), repeatable=True)

    def wait_for_workflow_run(self, workflow_run_id: str, timeout: float | None = None) -> WorkflowRunOut:
        """The workflow run once it has ended; raises TimeoutError after `timeout` seconds. Tolerates a minute without
        server."""
        deadline, patience, pause = Deadline(timeout), Patience(), _FIRST_PAUSE_SECONDS
        while True:
            try:
                run = self.workflow_run(workflow_run_id)
            except (ServerUnreachableError, AnswerError) as error:
                time.sleep(deadline.within(patience.pause_after(error)))
            else:
                if run.status not in _OPEN:
                    return run
                patience.begin_anew()
                time.sleep(deadline.within(pause))
                pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
            if deadline.is_over:
                raise TimeoutError(f"{workflow_run_id} has not ended after {timeout:g} seconds")

    def cancel_workflow_run(self, workflow_run_id: str) -> WorkflowRunOut:
        """Cancels a workflow run: nothing of it starts any more, and what runs is asked to stop.

        AnswerError with status 409 if it has ended otherwise.
        """
        return self._ask(WorkflowRunOut, "POST", f"{_workflow_run(workflow_run_id)}/cancel", repeatable=True)

    def resume_workflow_run(
        self,
        workflow_run_id: str,
        *,
        generation: int | None = None,
        nodes: Sequence[str] | None = None,
        items: Sequence[int] | None = None,
        version: str | None = None,
    ) -> WorkflowRunOut:
        """Runs again what failed, or these nodes, and everything after them. Not retried once sent.

        With `generation`, only if no other resume came first (else AnswerError with status 409). `items`: of the one
        map in `nodes`, only the failed members with these numbers. `version`: it goes on with another version of the
        workflow, or the "latest".
        """
        body = fields_of({"generation": generation, "nodes": nodes, "items": items, "version": version})
        return self._ask(WorkflowRunOut, "POST", f"{_workflow_run(workflow_run_id)}/resume", body=body)

    def signal_workflow_run(
        self, workflow_run_id: str, signal: str, payload: Any = None, *, idempotency_key: str | None = None
    ) -> SignalSent:
        """Sends a signal: it is kept until a node that waits for one of this name takes it."""
        return self._ask(
            SignalSent,
            "POST",
            f"{_workflow_run(workflow_run_id)}/signals/{quote(signal, safe='')}",
            body={"payload": payload},
            headers={"Idempotency-Key": idempotency_key or new_key()},
            repeatable=True,
        )

    def approve_node(self, workflow_run_id: str, node: str, *, comment: str | None = None) -> WorkflowRunOut:
        """Approves what a node waits for. Not retried once sent: a second decision is refused."""
        body = fields_of({"comment": comment})
        return self._ask(WorkflowRunOut, "POST", f"{_node(workflow_run_id, node)}/approve", body=body)

    def reject_node(self, workflow_run_id: str, node: str, *, comment: str | None = None) -> WorkflowRunOut:
        """Rejects what a node waits for: the node fails. Not retried once sent, as `approve_node`."""
        body = fields_of({"comment": comment})
        return self._ask(WorkflowRunOut, "POST", f"{_node(workflow_run_id, node)}/reject", body=body)

    def members(
        self,
        workflow_run_id: str,
        node: str,
        *,
        status: Literal["failed", "running"] | None = None,
        page_size: int = _PAGE_SIZE,
    ) -> Iterator[MemberOut]:
        """Members of a map that failed (if not said otherwise), or that have not ended: `running`."""
        return self._items(MemberList, f"{_node(workflow_run_id, node)}/members", {"status": status}, page_size)

    def member_results(self, workflow_run_id: str, node: str) -> Iterator[MemberResult]:
        """What the members of a map returned; those that returned nothing are left out."""
        return self._items(MemberResults, f"{_node(workflow_run_id, node)}/results", {}, None)


def _workflow(workflow: str) -> str:
    return f"/v1/workflows/{quote(workflow, safe='')}"


def _workflow_run(workflow_run_id: str) -> str:
    return f"/v1/workflow-runs/{quote(workflow_run_id, safe='')}"


def _node(workflow_run_id: str, node: str) -> str:
    return f"{_workflow_run(workflow_run_id)}/nodes/{quote(node, safe='')}"
