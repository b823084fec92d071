"""Submitting over HTTP.

The sync face (http_sync.py) is made of this file.
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

_ANSWER_SECONDS = 1.0  # what an answer may take on top of what it waits for
_PAUSE_SECONDS = 0.5


class HttpGateway:
    """Submits and asks over HTTP; what was not answered is repeated, with idempotency keys."""

    def __init__(self, url: str | None, token: str | None, namespace: str | None = None) -> None:
        self._client = AsyncClient(url, token, namespace=namespace)
        self._patience = Patience()

    async def submit(self, jobs: Sequence[BatchJobIn]) -> list[Submitted | RotaError]:
        """One request, or as many as so many jobs need."""
        return [_answer(result) for result in await self._client.submit_many(jobs)]

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The server waits. While none answers the status is not known; after a minute of that, it is an error."""
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
        """As the API does."""
        try:
            await self._client.cancel_run(run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    async def caller(self) -> None:
        """Known to the server, by the token."""

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()


def _answer(result: BatchResult) -> Submitted | RotaError:
    if result.error is not None:
        return refusal(result.error)
    return Submitted(
        job_id=result.job_id or "", status=result.status or "", run_id=result.run_id, duplicate=result.duplicate
    )
