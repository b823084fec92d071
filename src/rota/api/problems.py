"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from rota.blobs import BlobError
from rota.contract.problems import FieldProblem, Problem
from rota.errors import (
    BadInputError,
    ConflictError,
    DatabaseUnavailableError,
    DataRejectedError,
    DiskFullError,
    DuplicateError,
    ForbiddenError,
    KeyHeldError,
    KeyReusedError,
    KeysUnavailableError,
    NotAuthenticatedError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    RotaError,
    TooLargeError,
    TooMuchWaitingError,
    VersionMismatchError,
)

_encoder = msgspec.json.Encoder()

# The first class that fits gives status and title.
_KINDS: tuple[tuple[type[RotaError], int, str], ...] = (
    (BadInputError, 400, "Bad input"),
    (KeysUnavailableError, 503, "Keys unavailable"),
    (NotAuthenticatedError, 401, "Not authenticated"),
    (NotFoundError, 404, "Not found"),
    (ForbiddenError, 403, "Forbidden"),
    (VersionMismatchError, 412, "Version mismatch"),
    (DuplicateError, 409, "Duplicate"),
    (ConflictError, 409, "Conflict"),
    (KeyReusedError, 422, "Idempotency key reused"),
    (KeyHeldError, 503, "Key held"),
    (DataRejectedError, 422, "Refused by the database"),
    (TooMuchWaitingError, 429, "Too much is waiting"),
    (RateLimitedError, 429, "Rate limited"),
    (TooLargeError, 413, "Too large"),
    (OverloadedError, 503, "Overloaded"),
    (DatabaseUnavailableError, 503, "Database unavailable"),
    (BlobError, 503, "Object storage unavailable"),
)


class HttpProblemError(RotaError):
    """An error of HTTP itself: wrong method, body too large."""

    def __init__(self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.headers = dict(headers or {})


def problem_of(error: RotaError) -> Problem:
    if isinstance(error, HttpProblemError):
        return _problem(error.status, error.title, str(error))
    for kind, status, title in _KINDS:
        if isinstance(error, kind):
            found = _problem(status, title, _detail(error))
            if isinstance(error, BadInputError) and error.fields:
                found.errors = [FieldProblem(field=field, message=message) for field, message in error.fields]
            return found
    return _problem(500, "Internal error", "something went wrong; the server's log has the details")


def response_of(error: RotaError) -> Response:
    problem = problem_of(error)
    headers = dict(error.headers) if isinstance(error, (HttpProblemError, RateLimitedError)) else {}
    if isinstance(error, OverloadedError):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, (DatabaseUnavailableError, BlobError)):
        headers["Retry-After"] = "1"
    elif isinstance(error, KeysUnavailableError):
        headers["Retry-After"] = "5"
    elif isinstance(error, NotAuthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    return Response(_encoder.encode(problem), problem.status, headers, "application/problem+json")


def _problem(status: int, title: str, detail: str) -> Problem:
    return Problem(type=f"urn:rota:{title.lower().replace(' ', '-')}", title=title, status=status, detail=detail)


def _detail(error: RotaError) -> str:
    if isinstance(error, DiskFullError):
        return "the database's disk is full: nothing was written, and nothing will be until there is room"
    if isinstance(error, DatabaseUnavailableError):
        return "the database did not answer, so the outcome is unknown; repeat with an Idempotency-Key to be safe"
    if isinstance(error, BadInputError) and error.fields:
        field, message = error.fields[0]
        return message if message.startswith(field) else f"{field}: {message}"
    return str(error)
