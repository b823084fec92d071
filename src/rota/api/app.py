"""The ASGI application: routes made from operations, errors as problem documents."""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.access.authenticator import Authenticator
from rota.api.backend import Backend
from rota.api.http.security_headers import GuardedApplication
from rota.api.openapi import document
from rota.api.operations import routes_of
from rota.api.problems import HttpProblemError, response_of
from rota.api.routes import OPERATIONS


def build_app(services: Backend, authenticator: Authenticator, version: str) -> Starlette:
    """The application; `services.run()` must be running beside it."""
    description = _description(version)

    async def openapi(_request: Request) -> Response:
        return Response(description, media_type="application/json")

    routes = routes_of(OPERATIONS, services, authenticator)
    routes.append(Route("/openapi.json", openapi, methods=["GET"]))
    app = GuardedApplication(routes=routes, exception_handlers={HTTPException: _as_problem})
    app.router.redirect_slashes = False
    app.state.authenticator = authenticator
    return app


@cache  # a process that has many applications, as tests do, makes it once
def _description(version: str) -> bytes:
    return msgspec.json.encode(document(OPERATIONS, version))


async def _as_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "Not found", 405: "Method not allowed"}
    details = {
        404: f"there is nothing at {request.url.path}",
        405: f"{request.method} is not possible here",
    }
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return response_of(HttpProblemError(status, words.get(status, "Error"), details.get(status, str(error)), headers))
