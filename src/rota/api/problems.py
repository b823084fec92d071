"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

import msgspec
from starlette.responses import Response

from rota.blobs import BlobError
from rota.contract.fields import MisfirePolicy, OnDuplicate, OnFailure, PriorityName, RunStatusName
from rota.contract.problems import FieldProblem, Problem
from rota.domain.job import ScheduleType
from rota.domain.policies import Overlap
from rota.domain.retry import Strategy
from rota.domain.schedule import ClockChange
from rota.errors import (
    BadInputError,
    ConflictError,
    DatabaseUnavailableError,
    DataRejectedError,
    KeyReusedError,
    NotFoundError,
    OverloadedError,
    RotaError,
    TooMuchWaitingError,
    VersionMismatchError,
)

_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"^Object (?:contains unknown|missing required) field `(?P<field>[^`]*)`")
# What the decoder says, in words for people.
_PHRASES = (
    (re.compile(r"^Expected `str` of length >= 1$"), "must not be empty"),
    (re.compile(r"^Expected `str` of length <= (\d+)$"), r"must have at most \1 characters"),
    (re.compile(r"^Expected `array` of length <= (\d+)$"), r"must have at most \1 items"),
    (re.compile(r"^Expected `(?:int|float)` ([<>]=?) ([\d.]+)$"), r"must be \1 \2"),
    (re.compile(r"^Expected `str` matching regex '\^\[A-Za-z.*$"), "may hold letters, digits and _ . : - only"),
    (re.compile(r"^Expected `str` matching regex '\^(job|run)_.*$"), r"must be \1_ and 32 hex digits"),
    (re.compile(r"^Expected `str` matching regex .*,\]\+.*$"), "may hold neither commas nor control characters"),
    (re.compile(r"^Expected `str` matching regex .*$"), "holds characters that are not allowed"),
    (
        re.compile(r"^(?:Invalid RFC3339 encoded datetime|Expected `datetime` with a timezone component)$"),
        "must be a valid time with an offset, such as 2030-01-31T09:30:00Z",
    ),
)
_CHOICES = {
    "scheduleType": get_args(ScheduleType),
    "priority": get_args(PriorityName),
    "strategy": get_args(Strategy),
    "status": get_args(RunStatusName),
    "dst": get_args(ClockChange),
    "overlap": get_args(Overlap),
    "misfire": get_args(MisfirePolicy),
    "policy": get_args(MisfirePolicy),
    "orderingOnFailure": get_args(OnFailure),
    "onDuplicate": get_args(OnDuplicate),
}
_encoder = msgspec.json.Encoder()

# The first class that fits gives status and title.
_KINDS: tuple[tuple[type[RotaError], int, str], ...] = (
    (BadInputError, 400, "Bad input"),
    (NotFoundError, 404, "Not found"),
    (VersionMismatchError, 412, "Version mismatch"),
    (ConflictError, 409, "Conflict"),
    (KeyReusedError, 422, "Idempotency key reused"),
    (DataRejectedError, 422, "Refused by the database"),
    (TooMuchWaitingError, 429, "Too much is waiting"),
    (OverloadedError, 503, "Overloaded"),
    (DatabaseUnavailableError, 503, "Database unavailable"),
    (BlobError, 503, "Object storage unavailable"),
)


class HttpError(RotaError):
    """An error that only HTTP knows: wrong method, no token, too large a body."""

    def __init__(self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.headers = dict(headers or {})


def problem_of(error: RotaError) -> Problem:
    """The problem document of an error."""
    if isinstance(error, HttpError):
        return _problem(error.status, error.title, str(error))
    for kind, status, title in _KINDS:
        if isinstance(error, kind):
            found = _problem(status, title, _detail(error))
            if isinstance(error, BadInputError) and error.fields:
                found.errors = [FieldProblem(field=field, message=message) for field, message in error.fields]
            return found
    return _problem(500, "Internal error", "something went wrong; the server's log has the details")


def response_of(error: RotaError) -> Response:
    """The HTTP response of an error."""
    problem = problem_of(error)
    headers = dict(error.headers) if isinstance(error, HttpError) else {}
    if isinstance(error, OverloadedError):
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, (DatabaseUnavailableError, BlobError)):
        headers["Retry-After"] = "1"
    return Response(_encoder.encode(problem), problem.status, headers, "application/problem+json")


def bad_json(error: msgspec.MsgspecError) -> BadInputError:
    """Our error for a body that does not decode; names the field."""
    message = str(error)
    path = ""
    if at := _AT.search(message):
        path, message = at["path"], message[: at.start()]
    if named := _NAMED.match(message):
        path = f"{path}.{named['field']}" if path else named["field"]
        message = "unknown field" if "unknown" in message else "required, but missing"
    for pattern, phrase in _PHRASES:
        message = pattern.sub(phrase, message)
    if message.startswith("Invalid enum value") and (known := _CHOICES.get(path.rpartition(".")[2])):
        message = f"must be one of {', '.join(known)}"
    if not path:
        return BadInputError(f"the body is not what is expected: {message}")
    return BadInputError(message, field=path)


def _problem(status: int, title: str, detail: str) -> Problem:
    return Problem(type=f"urn:rota:{title.lower().replace(' ', '-')}", title=title, status=status, detail=detail)


def _detail(error: RotaError) -> str:
    if isinstance(error, DatabaseUnavailableError):
        return "the database did not answer, so the outcome is unknown; repeat with an Idempotency-Key to be safe"
    if isinstance(error, BadInputError) and error.fields:
        field, message = error.fields[0]
        return message if message.startswith(field) else f"{field}: {message}"
    return str(error)
