# Made from src/rota/gateway/http.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""Submitting over HTTP.

The sync face (http_sync.py) is made of this file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.errors import refusal, refusal_of
from rota.client.retries import Patience
from rota.contract.jobs import BatchJobIn, BatchResult, Submitted
from rota.errors import RotaError
from rota.gateway.protocol import RunSnapshot

_ANSWER_SECONDS = 1.0  # what an answer may take on top of what it waits for
_PAUSE_SECONDS = 0.5


class SyncHttpGateway:
    """Submits and asks over HTTP; what was not answered is repeated, with idempotency keys."""

    def __init__(self, url: str | None, token: str | None, namespace: str | None = None) -> None:
        self._client = Client(url, token, namespace=namespace)
        self._patience = Patience()

    def submit(self, jobs: Sequence[BatchJobIn]) -> list[Submitted | RotaError]:
        """One request, or as many as so many jobs need."""
        return [_answer(result) for result in self._client.submit_many(jobs)]

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The server waits. While none answers the status is not known; after a minute of that, it is an error."""
        try:
            run = self._client.look(run_id, wait_seconds, within=wait_seconds + _ANSWER_SECONDS)
        except (ServerUnreachableError, AnswerError) as error:
            if wait_seconds <= 0:
                raise
            self._patience.bear(error)
            time.sleep(min(wait_seconds, _PAUSE_SECONDS))
            return RunSnapshot("unknown", error=str(error))
        self._patience.begin_anew()
        return RunSnapshot(run.status, run.result, run.error, run.reason, run.traceback)

    def cancel(self, run_id: str) -> None:
        """As the API does."""
        try:
            self._client.cancel_run(run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    def caller(self) -> None:
        """Known to the server, by the token."""

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def _answer(result: BatchResult) -> Submitted | RotaError:
    if result.error is not None:
        return refusal(result.error)
    return Submitted(
        job_id=result.job_id or "", status=result.status or "", run_id=result.run_id, duplicate=result.duplicate
    )
