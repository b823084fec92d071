"""The database as a door: how a task that runs submits others, and looks how they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from rota.blobs import Blobs
from rota.contract.jobs import BatchJobIn, Submitted
from rota.contract.json_rules import hash_request
from rota.domain.ids import parse_run
from rota.domain.rights import Caller
from rota.errors import FanOutError, NotFoundError, RotaError
from rota.gateway.intake import Intake, JobRequest, Repeated
from rota.gateway.protocol import RunSnapshot
from rota.store.postgres.listener import GATE, WORKER
from rota.store.postgres.wakeups import Notifier
from rota.store.runs import Runs

FIRST_LOOK_SECONDS = 0.01
LONGEST_LOOK_SECONDS = 0.2
Whose = Callable[[], Awaitable[Caller]]


class LocalGateway:
    """Submits on behalf of somebody."""

    def __init__(
        self, *, intake: Intake, runs: Runs, blobs: Blobs, notifier: Notifier, whose: Whose, of_run: bool = False
    ) -> None:
        """`of_run`: the door of one run, which may submit only so many."""
        self._intake = intake
        self._runs = runs
        self._blobs = blobs
        self._notifier = notifier
        self._whose = whose
        self._of_run = of_run
        self._submitted = 0

    async def submit(self, jobs: Sequence[BatchJobIn]) -> list[Submitted | RotaError]:
        """Committed together with what others submit; raises FanOutError when a run has submitted too many."""
        asked = [JobRequest(job, job.idempotency_key, _hash(job)) for job in jobs]
        caller = await self._whose()
        if self._of_run:
            return await self._fan_out(asked, caller)
        return await self._intake.submit(asked, caller)

    async def _fan_out(self, asked: list[JobRequest], caller: Caller) -> list[Submitted | RotaError]:
        """Counts before it submits, so that two at once don't both fit where one does; only new jobs stay counted."""
        await self._intake.limits.open()
        most = self._intake.limits.most_fan_out(caller)
        if most is not None and self._submitted + len(asked) > most:
            raise FanOutError(
                f"a run may submit {most} jobs in all; this one has submitted {self._submitted} "
                f"and wants {len(asked)} more"
            )
        self._submitted += len(asked)
        made = 0
        try:
            answers = await self._intake.submit(asked, caller)
            made = sum(_is_new(answer) for answer in answers)
        finally:
            self._submitted -= len(asked) - made
        return answers

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """Looks again and again, less and less often."""
        whose, run = await self._whose(), parse_run(run_id)
        deadline = asyncio.get_running_loop().time() + wait_seconds
        pause = FIRST_LOOK_SECONDS
        while True:
            row = await self._own(whose, run)
            left = deadline - asyncio.get_running_loop().time()
            if row["place"] == "finished" or left <= 0:
                return RunSnapshot(
                    row["status"], await self._result(row), row["error"], row["reason"], row["traceback"]
                )
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_LOOK_SECONDS)

    async def cancel(self, run_id: str) -> None:
        """Its worker is told."""
        whose, run = await self._whose(), parse_run(run_id)
        await self._own(whose, run)
        _, workers = await self._runs.cancel(whose.namespace, run)
        for worker_id in workers:
            self._notifier.hint(WORKER, str(worker_id))
        self._notifier.hint(GATE)

    async def caller(self) -> tuple[str, str]:
        """Whose run it is that submits."""
        whose = await self._whose()
        return whose.namespace, whose.owner

    async def _own(self, whose: Caller, run_id: UUID) -> Any:
        """A run of the same owner; raises NotFoundError for another's, as if it were not there."""
        row = await self._runs.get(whose.namespace, run_id)
        if row["owner"] != whose.owner:
            raise NotFoundError("there is no such run")
        return row

    async def _result(self, row: Any) -> Any:
        if row["result_blob"] is not None:
            return msgspec.json.decode(await self._blobs.get(row["result_blob"]))
        return None if row["result"] is None else msgspec.json.decode(row["result"])


def _is_new(answer: Submitted | RotaError) -> bool:
    return not isinstance(answer, (RotaError, Repeated)) and not answer.duplicate


def _hash(job: BatchJobIn) -> bytes:
    return hash_request(msgspec.json.encode(job)) if job.idempotency_key else b""
