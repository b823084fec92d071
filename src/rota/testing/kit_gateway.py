"""The gateways of code under test, outside and inside runs: they submit to the test's database from any event loop or
thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from rota.contract.jobs import Submitted
from rota.errors import RotaError, SetupError
from rota.gateway.protocol import JobGateway, OutgoingJob, RunSnapshot
from rota.gateway.thread import ThreadGateway
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


class KitGateway:
    """Submits for the application; waiting for a run runs everything that is due."""

    def __init__(
        self,
        outside: JobGateway,
        *,
        settle: Callable[[], Awaitable[Any]],
        status_ahead: StatusAhead,
        note: Callable[[Sequence[Submitted | RotaError]], None],
    ) -> None:
        """`outside` is for code outside runs."""
        self._outside = outside
        self._settle = settle
        self._status_ahead = status_ahead
        self._note = note
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
