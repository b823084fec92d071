"""Errors of clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rota.contract.problems import Problem
from rota.errors import BadInputError, ConflictError, DuplicateError, KeyReusedError, RotaError

# The server or a proxy answers with these when it can't accept a request now.
NOT_NOW = frozenset({429, 502, 503, 504})
_KINDS: dict[str, type[RotaError]] = {
    "urn:rota:duplicate": DuplicateError,
    "urn:rota:conflict": ConflictError,
    "urn:rota:idempotency-key-reused": KeyReusedError,
}


class ServerUnreachableError(RotaError):
    """No Rota server answers at the address. `advised`: the message already says what to do; `results`: what
    `submit_many` had been answered before."""

    results: Sequence[Any] = ()

    def __init__(self, message: str, *, advised: bool = False) -> None:
        super().__init__(message)
        self.advised = advised


class AnswerError(RotaError):
    """The server answered with a problem document; `retry_after_seconds` is when to try again, `results` what
    `submit_many` had been answered before."""

    results: Sequence[Any] = ()

    def __init__(self, status: int, problem: dict[str, Any], retry_after_seconds: float | None = None) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"the server answered with {status}")
        self.status = status
        self.problem = problem
        self.retry_after_seconds = retry_after_seconds


def is_temporary(error: AnswerError | ServerUnreachableError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, ServerUnreachableError) or error.status in NOT_NOW


def refusal(problem: Problem) -> RotaError:
    """The error behind a problem document."""
    if problem.type == "urn:rota:bad-input":
        error = BadInputError(problem.detail)
        error.fields = [(wrong.field, wrong.message) for wrong in problem.errors or ()]
        return error
    if kind := _KINDS.get(problem.type):
        return kind(problem.detail)
    return AnswerError(problem.status, msgspec.to_builtins(problem))


def refusal_of(error: AnswerError) -> RotaError:
    """The error behind an answer."""
    try:
        return refusal(msgspec.convert(error.problem, Problem))
    except msgspec.ValidationError:
        return error
