"""What the API refuses, as the errors that are raised everywhere else; and a server that is away for a while."""

from __future__ import annotations

import time

import msgspec

from rota.client import AnswerError, ServerUnreachableError
from rota.contract.problems import Problem
from rota.errors import BadInputError, ConflictError, DuplicateError, KeyReusedError, RotaError

ANSWER_SECONDS = 1.0  # what an answer may take on top of what it waits for
PAUSE_SECONDS = 0.5
AWAY_SECONDS = 60.0
_NOT_NOW = (429, 502, 503, 504)
_KINDS: dict[str, type[RotaError]] = {
    "urn:rota:duplicate": DuplicateError,
    "urn:rota:conflict": ConflictError,
    "urn:rota:idempotency-key-reused": KeyReusedError,
}


def refusal(problem: Problem) -> RotaError:
    """The error behind a problem document."""
    if problem.type == "urn:rota:bad-input":
        return BadInputError(problem.detail, field=problem.errors[0].field if problem.errors else None)
    if kind := _KINDS.get(problem.type):
        return kind(problem.detail)
    return AnswerError(problem.status, msgspec.to_builtins(problem))


def refusal_of(error: AnswerError) -> RotaError:
    """The error behind an answer."""
    try:
        return refusal(msgspec.convert(error.problem, Problem))
    except msgspec.ValidationError:
        return error


class Away:
    """For how long no server has answered."""

    def __init__(self) -> None:
        self._since: float | None = None

    def bears(self, error: ServerUnreachableError | AnswerError) -> bool:
        """Whether it may come back, and has not been away for too long."""
        if isinstance(error, AnswerError) and error.status not in _NOT_NOW:
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since < AWAY_SECONDS

    def ended(self) -> None:
        """It is there."""
        self._since = None
