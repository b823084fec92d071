"""What submitting and waiting may raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.errors import RotaError


class RunFailedError(RotaError):
    """A run that was waited for failed for good, was cancelled or skipped."""

    def __init__(self, run_id: str, status: str, why: str | None, traceback: str | None = None) -> None:
        super().__init__(f"{run_id} is {status}" + (f": {why}" if why else ""))
        self.run_id = run_id
        self.status = status
        self.error = why
        self.traceback = traceback


class NotAcceptedError(RotaError):
    """Some of many submissions were not accepted: `results` has, in their order, a run or an error for each."""

    def __init__(self, results: Sequence[Any]) -> None:
        errors = [result for result in results if isinstance(result, RotaError)]
        super().__init__(f"{len(errors)} of {len(results)} were not accepted; the first: {errors[0]}")
        self.results = list(results)
