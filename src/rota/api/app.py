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
    """The application; the backend's services must run beside it."""
    description = _description(version)

    async def openapi(_request: Request) -> Response:
        return Response(description, media_type="application/json")

    routes = routes_of(OPERATIONS, services, authenticator)
    routes.append(Route("/openapi.json", openapi, methods=["GET"]))
    app = GuardedApplication(routes=routes, exception_handlers={HTTPException: _as_problem})
    app.router.redirect_slashes = False
    app.state.authenticator = authenticator
    return app


@cache  # tests build many applications in one process
def _description(version: str) -> bytes:
    return msgspec.json.encode(document(OPERATIONS, version))


async def _as_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for no other
    words = {
        404: ("Not found", f"there is nothing at {request.url.path}"),
        405: ("Method not allowed", f"{request.method} is not possible here"),
    }
    title, detail = words.get(error.status_code, ("Error", str(error)))
    return response_of(HttpProblemError(error.status_code, title, detail, error.headers))
