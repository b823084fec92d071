"""The gateways of code under test, outside and inside runs: they submit to the test's database from any event loop or
thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from rota.contract.jobs import Submitted
from rota.contract.workflows import WorkflowRunOut, WorkflowRunStarted
from rota.errors import RotaError, SetupError
from rota.gateway.protocol import JobGateway, OutgoingJob, RunSnapshot
from rota.gateway.thread import ThreadGateway
from rota.gateway.workflow_acts import WorkflowAct, has_ended
from rota.task.context import current_context

T = TypeVar("T")
# The state of a run, with the status that it has by the kit's clock.
StatusAhead = Callable[[str, RunSnapshot], Awaitable[RunSnapshot]]


class RunKitGateway:
    """The gateway of one run: tells when the run waits for another, which must then get its turn."""

    def __init__(self, inside: JobGateway, waits: Callable[[], None], status_ahead: StatusAhead) -> None:
        self._inside = inside
        self._waits = waits
        self._status_ahead = status_ahead

    async def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Submitted | RotaError]:
        """As in a worker."""
        return await self._inside.submit(jobs)

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """As in a worker, by the kit's clock."""
        if wait_seconds:
            self._waits()
        return await self._status_ahead(run_id, await self._inside.look(run_id, wait_seconds))

    async def cancel(self, run_id: str) -> None:
        """As in a worker."""
        await self._inside.cancel(run_id)

    async def caller(self) -> tuple[str, str] | None:
        """As in a worker."""
        return await self._inside.caller()

    async def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        """As in a worker."""
        return await self._inside.start_workflow(workflow, inputs, key)

    async def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        """As in a worker."""
        if act.wait_seconds:
            self._waits()
        return await self._inside.act_on_workflow(act)


class KitGateway:
    """Submits for the application; waiting for a run runs everything that is due."""

    def __init__(
        self,
        outside: JobGateway,
        *,
        settle: Callable[[], Awaitable[Any]],
        status_ahead: StatusAhead,
        note: Callable[[Sequence[Submitted | RotaError]], None],
        declare: Callable[[], Awaitable[Any]],
    ) -> None:
        """`outside` is for code outside runs; `declare` makes what the code declares."""
        self._outside = outside
        self._settle = settle
        self._status_ahead = status_ahead
        self._note = note
        self._declare = declare
        self._loop = asyncio.get_running_loop()

    async def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Submitted | RotaError]:
        """Submits, and notes the accepted jobs."""
        answers = await self._hop((_of_run() or self._outside).submit(jobs))
        self._note(answers)
        return answers

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The state of a run; with `wait_seconds`, after everything due has run."""
        inside = _of_run()
        return await self._hop(inside.look(run_id, wait_seconds) if inside else self._look(run_id, wait_seconds))

    async def cancel(self, run_id: str) -> None:
        """Cancels a run."""
        await self._hop((_of_run() or self._outside).cancel(run_id))

    async def caller(self) -> tuple[str, str] | None:
        """The namespace and owner of its jobs."""
        return await self._hop((_of_run() or self._outside).caller())

    async def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        """Starts a run of a workflow, once what the code declares is there."""
        return await self._hop(self._start_workflow(workflow, inputs, key))

    async def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        """Acts on a workflow run; with `wait_seconds`, after everything due has run."""
        inside = _of_run()
        return await self._hop(inside.act_on_workflow(act) if inside else self._act_on_workflow(act))

    async def _start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        if inside := _of_run():
            return await inside.start_workflow(workflow, inputs, key)
        await self._declare()
        return await self._outside.start_workflow(workflow, inputs, key)

    async def _act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        at_once = msgspec.structs.replace(act, wait_seconds=0.0)
        run = await self._outside.act_on_workflow(at_once)
        if has_ended(run) or not act.wait_seconds:
            return run
        await self._settle()
        run = await self._outside.act_on_workflow(at_once)
        if not has_ended(run):
            raise SetupError(
                f"{act.run_id} is {run.status}, and nothing more is due now. Move time first (kit.advance)."
            )
        return run

    async def _look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        outcome = await self._status_ahead(run_id, await self._outside.look(run_id, 0))
        if outcome.ended or not wait_seconds:
            return outcome
        await self._settle()
        outcome = await self._status_ahead(run_id, await self._outside.look(run_id, 0))
        if not outcome.ended:
            raise SetupError(
                f"{run_id} is {outcome.status}, and nothing more is due now. Move time first (kit.advance)."
            )
        return outcome

    async def _hop(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs work in the kit's event loop, which owns the connections."""
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(_hop(work, self._loop))


class SyncKitGateway(ThreadGateway):
    """The gateway for code that can't await."""

    def __init__(self, gateway: KitGateway) -> None:
        super().__init__(gateway, asyncio.get_running_loop())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if _running_loop() is self._loop:
            work.close()
            raise SetupError(
                "`.sync` would block the event loop that it waits for. Leave it out where code can await; otherwise "
                "call the code in a thread (await asyncio.to_thread(…)), or in a sync test with rota_kit_sync."
            )
        return _hop(work, self._loop).result()


def _of_run() -> JobGateway | None:
    """The current run's gateway: its jobs belong to the run's owner."""
    context = current_context()
    return context.gateway if context else None


def _hop(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> Future[T]:
    """Starts work in another loop; raises SetupError if that loop is not running."""
    if not loop.is_running():
        work.close()
        raise SetupError(
            "The kit's event loop is not running. Give the fixture and the test the same "
            "loop scope, or open the kit inside the test: async with rota.testing.running(app, database_url=…)."
        )
    return asyncio.run_coroutine_threadsafe(work, loop)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
