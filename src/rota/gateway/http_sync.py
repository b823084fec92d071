# Made from src/rota/gateway/http.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""Submitting over HTTP.

http_sync.py is generated from this file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from typing import Self

from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.answers import JobResult
from rota.client.bodies import with_key
from rota.client.errors import is_temporary, refusal, refusal_of
from rota.client.retries import Patience
from rota.contract.jobs import BatchJobIn, Submitted
from rota.errors import RotaError
from rota.gateway.protocol import RunSnapshot

_ANSWER_SECONDS = 1.0  # for the answer, after the wait
_PAUSE_SECONDS = 0.5


class SyncHttpGateway:
    """Submits over HTTP; requests without an answer are repeated, with idempotency keys."""

    def __init__(
        self, url: str | None, token: str | None, namespace: str | None = None, patience_seconds: float | None = None
    ) -> None:
        self._client = Client(url, token, namespace=namespace, patience=patience_seconds)
        self.submit_seconds: float | None = None
        self._patience = Patience()

    def patient(self, seconds: float | None) -> Self:
        """The same gateway, with another time limit for repeating submissions; None: the client's."""
        if seconds is None:
            return self
        made = copy(self)
        made.submit_seconds = seconds
        return made

    def submit(self, jobs: Sequence[BatchJobIn]) -> list[Submitted | RotaError]:
        """A temporary error has its job, with a key, in `to_repeat`; an error that is raised has all jobs there."""
        keyed = [with_key(job) for job in jobs]
        try:
            results = self._client.submit_many(keyed, patience=self.submit_seconds)
        except (ServerUnreachableError, AnswerError) as error:
            error.to_repeat = keyed if is_temporary(error) else ()
            raise
        return [_answer(result) for result in results]

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The server waits. While it does not answer the status is unknown; after a minute that is an error."""
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
        try:
            self._client.cancel_run(run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    def caller(self) -> None:
        """Known to the server only, by the token."""

    def close(self) -> None:
        self._client.close()


def _answer(result: JobResult) -> Submitted | RotaError:
    if result.error is not None:
        error = refusal(result.error)
        error.to_repeat = [result.to_repeat] if result.to_repeat is not None else ()
        return error
    return Submitted(
        job_id=result.job_id or "", status=result.status or "", run_id=result.run_id, duplicate=result.duplicate
    )
