# Made from src/rota/sdk/remote.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""The API as a door.

The sync face (remote_sync.py) is made of this file.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rota.client import AnswerError, Client
from rota.contract.jobs import BatchJobIn, BatchResult, Submitted
from rota.doors import Outcome
from rota.errors import RotaError


class SyncApiDoor:
    """Submits and asks over HTTP; what was not answered is repeated, with idempotency keys."""

    def __init__(self, url: str | None, token: str | None) -> None:
        self._client = Client(url, token)

    def submit(self, jobs: Sequence[BatchJobIn]) -> list[Submitted | RotaError]:
        """One request, or as many as so many jobs need."""
        return [_answer(result) for result in self._client.submit_many(jobs)]

    def look(self, run_id: str, wait_seconds: float) -> Outcome:
        """The server waits."""
        try:
            run = self._client.wait(run_id, wait_seconds)
        except TimeoutError:
            run = self._client.run(run_id)
        return Outcome(run.status, run.result, run.error, run.reason, run.traceback)

    def cancel(self, run_id: str) -> None:
        """As the API does."""
        self._client.cancel_run(run_id)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def _answer(result: BatchResult) -> Submitted | RotaError:
    if result.error is not None:
        return AnswerError(result.error.status, msgspec.to_builtins(result.error))
    return Submitted(
        job_id=result.job_id or "", status=result.status or "", run_id=result.run_id, duplicate=result.duplicate
    )
