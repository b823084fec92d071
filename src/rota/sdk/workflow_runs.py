"""Starts workflows and follows their runs. workflow_runs_sync.py is generated from this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rota.clock import Deadline
from rota.contract.workflows import WorkflowRunOut
from rota.domain.durations import Duration, seconds_of
from rota.gateway.workflow_acts import WorkflowAct, has_ended
from rota.sdk.results import WAIT_SECONDS, WorkflowFailedError

if TYPE_CHECKING:
    from rota.sdk.app import App


class WorkflowRun:
    """A run of a workflow."""

    def __init__(self, app: App, name: str, run_id: str) -> None:
        self._app = app
        self.name = name
        self.id = run_id

    def __repr__(self) -> str:
        return f"<WorkflowRun {self.id} of {self.name}>"

    async def result(self, timeout: Duration | None = None) -> WorkflowRunOut:
        """Waits for its end, and gives it with its nodes; raises TimeoutError, or WorkflowFailedError if it did not
        succeed."""
        deadline = Deadline(None if timeout is None else seconds_of(timeout))
        while True:
            run = await self._act(WorkflowAct("look", self.id, wait_seconds=deadline.within(WAIT_SECONDS)))
            if has_ended(run):
                if run.status != "success":
                    raise WorkflowFailedError(run)
                return run
            if deadline.is_over:
                raise TimeoutError(f"{self.id} has not ended within {deadline.seconds:g} s; it is {run.status}")

    async def look(self) -> WorkflowRunOut:
        """The run as it is now, with its nodes."""
        return await self._act(WorkflowAct("look", self.id))

    async def status(self) -> str:
        """Its status: running, cancelling, success, failed, cancelled."""
        return (await self.look()).status

    async def result_of(self, node: str) -> Any:
        """What a node returned, as JSON; None if it has not succeeded."""
        found = (await self.look()).nodes or {}
        if node not in found:
            raise KeyError(node)
        run_id = found[node].run_id
        if run_id is None or found[node].status != "success":
            return None
        return (await self._app.gateways.open_async().look(run_id, 0)).result

    async def cancel(self) -> None:
        """Cancels it: nothing of it starts any more, and what runs is asked to stop."""
        await self._act(WorkflowAct("cancel", self.id))

    async def resume(
        self,
        nodes: Sequence[str] | None = None,
        *,
        generation: int | None = None,
        items: Sequence[int] | None = None,
        version: str | None = None,
    ) -> None:
        """Runs again what failed, or these nodes, and everything after them. With `generation`, only if no other resume
        came first. `items`: of the one map in `nodes`, only the failed members with these numbers. `version`: it goes
        on with another version of the workflow, or the "latest"."""
        chosen = None if nodes is None else list(nodes)
        numbers = None if items is None else list(items)
        await self._act(
            WorkflowAct("resume", self.id, nodes=chosen, generation=generation, items=numbers, version=version)
        )

    async def signal(self, name: str, payload: Any = None) -> None:
        """Sends a signal to a node that waits for one, now or later."""
        await self._act(WorkflowAct("signal", self.id, name=name, payload=payload, key=uuid4().hex))

    async def approve(self, node: str, *, comment: str | None = None) -> None:
        """Approves what a node waits for."""
        await self._act(WorkflowAct("approve", self.id, name=node, comment=comment))

    async def reject(self, node: str, *, comment: str | None = None) -> None:
        """Rejects what a node waits for: the node fails."""
        await self._act(WorkflowAct("reject", self.id, name=node, comment=comment))

    async def _act(self, act: WorkflowAct) -> WorkflowRunOut:
        return await self._app.gateways.open_async().act_on_workflow(act)


class WorkflowStarter:
    """Starts runs of a workflow, by its name."""

    def __init__(self, app: App, name: str) -> None:
        self.app = app
        self.name = name

    async def start(
        self, given: Mapping[str, Any] | None = None, /, *, idempotency_key: str | None = None, **inputs: Any
    ) -> WorkflowRun:
        """Starts a run with these inputs, by name or in a dict. The same key again, within 24 hours, gives the first
        run."""
        gateway = self.app.gateways.open_async()
        values = {**(given or {}), **inputs}
        started = await gateway.start_workflow(self.name, values, idempotency_key or uuid4().hex)
        return WorkflowRun(self.app, self.name, started.workflow_run_id)

    async def run(
        self, given: Mapping[str, Any] | None = None, /, *, timeout: Duration | None = None, **inputs: Any
    ) -> WorkflowRunOut:
        """Starts a run and waits for its end, as `result` does."""
        return await (await self.start({**(given or {}), **inputs})).result(timeout)

    def run_of(self, run_id: str) -> WorkflowRun:
        """A run that was started earlier."""
        return WorkflowRun(self.app, self.name, run_id)
