"""The ASGI application: routes made from operations, errors as problem documents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rota.access.authenticator import Authenticator
from rota.access.authorization import Authorizer
from rota.api.backend import Backend
from rota.api.http.messages import IncomingRequest
from rota.api.http.security_headers import GuardedApplication, guard
from rota.api.openapi import document
from rota.api.operations import Operation
from rota.api.paths import PathTree
from rota.api.problems import HttpProblemError, response_of
from rota.api.routes import OPERATIONS
from rota.api.routes.metrics import metrics, public_metrics

_JOBS = "/jobs"


class Api(GuardedApplication):
    """Answers operations itself, without Starlette's middleware and routes; the rest is Starlette's."""

    def __init__(
        self, operations: Sequence[Operation], services: Any, authorizer: Authorizer, routes: Sequence[Route] = ()
    ) -> None:
        super().__init__(routes=list(routes), exception_handlers={HTTPException: _as_problem})
        self.router.redirect_slashes = False
        self._services = services
        self._authorizer = authorizer
        by_path: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            by_path.setdefault(operation.path, {})[operation.method] = operation
        self._paths: PathTree[dict[str, Operation]] = PathTree()
        for path, methods in by_path.items():
            self._paths.add(path, methods)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._paths.find(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            if scope["type"] == "http" and _is_unversioned(scope["path"]):
                redirect = _to_version_1(scope)
                guard(redirect, scope)
                await redirect(scope, receive, send)
                return
            await super().__call__(scope, receive, send)
            return
        methods, scope["path_params"] = found
        request = IncomingRequest(scope, receive, send)
        method = scope["method"]
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is not None:
            response = await operation.answer_to(request, self._services, self._authorizer)
        else:
            # /v1/jobs/batch is never a job called batch, whatever the method.
            allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
            response = await _as_problem(request, HTTPException(405, headers={"Allow": allowed}))
        guard(response, scope)
        await response(scope, receive, send)


def build_app(services: Backend, authenticator: Authenticator, version: str, *, metrics_public: bool = False) -> Api:
    """The application; the backend's services must run beside it."""

    async def openapi(_request: Request) -> Response:
        # Made when it is first asked for: that takes longer than other requests should wait.
        return Response(await asyncio.to_thread(_description, version), media_type="application/json")

    routes = [Route("/openapi.json", openapi, methods=["GET"])]
    operations = OPERATIONS
    if metrics_public:
        operations = tuple(one for one in OPERATIONS if one is not metrics)
        routes.append(public_metrics(services))
    return Api(operations, services, Authorizer(authenticator, services), routes)


@cache  # tests build many applications in one process
def _description(version: str) -> bytes:
    return msgspec.json.encode(document(OPERATIONS, version))


def _is_unversioned(path: str) -> bool:
    return path == _JOBS or path.startswith(f"{_JOBS}/")


def _to_version_1(scope: Scope) -> Response:
    """Where the path of a job is without its version; method and body stay the same."""
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    place = b"/v1" + scope["raw_path"].partition(b"?")[0] + query
    return Response(status_code=308, headers={"Location": place.decode("latin-1")})


async def _as_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for no other
    words = {
        404: ("Not found", f"there is nothing at {request.url.path}"),
        405: ("Method not allowed", f"{request.method} is not possible here"),
    }
    title, detail = words.get(error.status_code, ("Error", str(error)))
    return response_of(HttpProblemError(error.status_code, title, detail, error.headers))
