"""Errors as problems: the kind, status and words of each error that a submission can meet."""

from __future__ import annotations

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


def problem_of(error: RotaError) -> Problem:
    for kind, status, title in _KINDS:
        if isinstance(error, kind):
            found = make_problem(status, title, _detail(error))
            if isinstance(error, BadInputError) and error.fields:
                found.errors = [FieldProblem(field=field, message=message) for field, message in error.fields]
            return found
    return make_problem(500, "Internal error", "something went wrong; the server's log has the details")


def make_problem(status: int, title: str, detail: str) -> Problem:
    return Problem(type=f"urn:rota:{title.lower().replace(' ', '-')}", title=title, status=status, detail=detail)


def _detail(error: RotaError) -> str:
    if isinstance(error, DiskFullError):
        return "the database's disk is full: nothing was written, and nothing will be until there is room"
    if isinstance(error, DatabaseUnavailableError):
        return "the database did not answer, so the outcome is unknown; repeat with an Idempotency-Key to be safe"
    if isinstance(error, BadInputError) and error.fields:
        return "; ".join(_named(field, message) for field, message in error.fields)
    return str(error)


def _named(field: str, message: str) -> str:
    return message if message.startswith(field) else f"{field}: {message}"
