"""Submitting over HTTP.

http_sync.py is generated from this file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rota.client import AnswerError, AsyncClient, ServerUnreachableError
from rota.client.errors import refusal, refusal_of
from rota.client.retries import Patience
from rota.contract.jobs import BatchJobIn, BatchResult, Submitted
from rota.errors import RotaError
from rota.gateway.protocol import RunSnapshot

_ANSWER_SECONDS = 1.0  # for the answer, after the wait
_PAUSE_SECONDS = 0.5


class HttpGateway:
    """Submits over HTTP; requests without an answer are repeated, with idempotency keys."""

    def __init__(self, url: str | None, token: str | None, namespace: str | None = None) -> None:
        self._client = AsyncClient(url, token, namespace=namespace)
        self._patience = Patience()

    async def submit(self, jobs: Sequence[BatchJobIn]) -> list[Submitted | RotaError]:
        return [_answer(result) for result in await self._client.submit_many(jobs)]

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The server waits. While it does not answer the status is unknown; after a minute that is an error."""
        try:
            run = await self._client.look(run_id, wait_seconds, within=wait_seconds + _ANSWER_SECONDS)
        except (ServerUnreachableError, AnswerError) as error:
            if wait_seconds <= 0:
                raise
            self._patience.bear(error)
            await asyncio.sleep(min(wait_seconds, _PAUSE_SECONDS))
            return RunSnapshot("unknown", error=str(error))
        self._patience.begin_anew()
        return RunSnapshot(run.status, run.result, run.error, run.reason, run.traceback)

    async def cancel(self, run_id: str) -> None:
        try:
            await self._client.cancel_run(run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    async def caller(self) -> None:
        """Known to the server only, by the token."""

    async def close(self) -> None:
        await self._client.aclose()


def _answer(result: BatchResult) -> Submitted | RotaError:
    if result.error is not None:
        return refusal(result.error)
    return Submitted(
        job_id=result.job_id or "", status=result.status or "", run_id=result.run_id, duplicate=result.duplicate
    )
