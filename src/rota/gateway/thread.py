"""A gateway for tasks in threads: their calls are made on the worker's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from rota.contract.jobs import Submitted
from rota.contract.workflows import WorkflowRunOut, WorkflowRunStarted
from rota.errors import RotaError, SetupError
from rota.gateway.protocol import JobGateway, OutgoingJob, RunSnapshot
from rota.gateway.workflow_acts import WorkflowAct

T = TypeVar("T")


class ThreadGateway:
    """Calls another gateway from a thread."""

    def __init__(
        self,
        gateway: JobGateway,
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[Coroutine[Any, Any, Any]], Future[Any]] | None = None,
    ) -> None:
        """`begin` starts a coroutine on the loop, if there is more to it than that."""
        self._gateway = gateway
        self._loop = loop
        self._begin = begin or self._begin_on_loop

    def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Submitted | RotaError]:
        return self._wait(self._gateway.submit(jobs))

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        return self._wait(self._gateway.look(run_id, wait_seconds))

    def cancel(self, run_id: str) -> None:
        self._wait(self._gateway.cancel(run_id))

    def caller(self) -> tuple[str, str] | None:
        return self._wait(self._gateway.caller())

    def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        return self._wait(self._gateway.start_workflow(workflow, inputs, key))

    def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        return self._wait(self._gateway.act_on_workflow(act))

    def _wait(self, asked: Coroutine[Any, Any, T]) -> T:
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            asked.close()
            raise SetupError(
                "`.sync` would block the event loop of an async task: leave out `.sync`, and await the call."
            )
        try:
            answer: T = self._begin(asked).result()
        except CancelledError:
            raise RotaError("the application was closed meanwhile; the job may have been accepted") from None
        return answer

    def _begin_on_loop(self, asked: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(asked, self._loop)
