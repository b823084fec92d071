"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from rota.blobs import BlobError
from rota.contract.problems import Problem
from rota.errors import (
    DatabaseUnavailableError,
    KeysUnavailableError,
    NotAuthenticatedError,
    OverloadedError,
    RateLimitedError,
    RotaError,
)
from rota.gateway import problems
from rota.gateway.problems import make_problem

_encoder = msgspec.json.Encoder()


class HttpProblemError(RotaError):
    """An error of HTTP itself: wrong method, body too large."""

    def __init__(self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.headers = dict(headers or {})


def problem_of(error: RotaError) -> Problem:
    if isinstance(error, HttpProblemError):
        return make_problem(error.status, error.title, str(error))
    return problems.problem_of(error)


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
