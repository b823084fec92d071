"""Servers without a database, each with one layer of the API more than the one before: what a layer costs is what the
next server takes longer for the same request.

    python -m bench.layers LAYER PORT TOKEN

The token is the admin's, and also a key's: in the servers from `limits` on, the key with it has rate limits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.access.authenticator import Authenticator
from rota.access.authorization import PUBLIC, Authorizer
from rota.access.credential_cache import KEY_PREFIX, CredentialCache
from rota.access.limits.rate_limiter import RateLimiter
from rota.api.app import Api
from rota.api.backend import Backend
from rota.api.http.security_headers import GuardingHeaders
from rota.api.operations import ApiRequest, Operation, json_response
from rota.api.routes import submit
from rota.api.server import http_config
from rota.contract.jobs import JobIn, Submitted
from rota.domain.limits import Limits
from rota.domain.rights import Caller, Grant, Identity, Right, Role
from rota.gateway.local import Answer, LocalGateway
from rota.gateway.requests import JobRequest
from rota.service import ServiceGroup
from rota.store.access.api_keys import KnownCredential
from rota.store.access.limits import Taken

ANSWER = Submitted(job_id="job_" + "0" * 32, run_id="run_" + "0" * 32, status="queued")
AMPLE = Limits(requests_per_second=1_000_000, jobs_per_second=1_000_000)
_body = msgspec.json.encode(ANSWER)
_decoder = msgspec.json.Decoder(JobIn)


async def _bare(_scope: Scope, receive: Receive, send: Send) -> None:
    """Reads a body and answers."""
    while (await receive()).get("more_body"):
        pass
    length = str(len(_body)).encode()
    headers = [(b"content-length", length), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": _body})


async def _decoded(request: Request) -> Response:
    """What an application that checks nothing would do."""
    _decoder.decode(await request.body())
    return Response(msgspec.json.encode(ANSWER), 201, media_type="application/json")


async def _yes(_services: Any, _call: ApiRequest) -> Any:
    """Say yes."""
    return json_response(ANSWER, 201, {"Location": f"/v1/jobs/{ANSWER.job_id}"})


class _YesGateway:
    """Accepts every job at once."""

    def __init__(self, gateway: LocalGateway) -> None:
        self.limits = gateway.limits
        self.job_builder = gateway.job_builder

    async def load(self, _caller: Caller) -> None:
        """Knows no limits and no tasks."""

    async def submit(self, requests: Sequence[JobRequest], _caller: Caller) -> list[Answer]:
        return [ANSWER] * len(requests)


class _OneKey:
    """Every key is of the same submitter."""

    async def find(self, hashes: Sequence[bytes]) -> dict[bytes, KnownCredential]:
        key_id = UUID(int=7)
        who = Identity(name="bench", kind="key", grants={"default": Grant(Role.SUBMITTER)}, key_id=key_id)
        return {each: KnownCredential(key_id, who, None, unused=False) for each in hashes}


class _FullBuckets:
    async def take(self, *_bucket: Any, wanted: int, **_rest: Any) -> Taken:
        return Taken(wanted, 1_000_000.0)


def _backend(*, limits: Limits) -> Backend:
    """Everything that the routes use, and nothing behind it."""
    services = Backend(
        database=SimpleNamespace(pooled=False),  # type: ignore[arg-type]
        shards=64,
        payload_limit_bytes=64 * 1024,
        blobs=None,  # type: ignore[arg-type]
        defaults=limits,
    )
    known = services.gateway.limits
    known.number = 0  # nothing is there to be read
    services.limiter = RateLimiter(limits=known, buckets=_FullBuckets())  # type: ignore[arg-type]
    services.credentials = CredentialCache(_OneKey())  # type: ignore[arg-type]
    services.gateway = _YesGateway(services.gateway)  # type: ignore[assignment]
    return services


def _operation(needs: Any) -> Operation:
    return Operation("POST", "/v1/jobs", needs, body=JobIn, answer=Submitted, status=201)(_yes)


def _bare_config(app: ASGIApp, port: int) -> uvicorn.Config:
    """uvicorn as it comes, without its log of requests."""
    return uvicorn.Config(app, port=port, http="httptools", lifespan="off", access_log=False, log_level="warning")


def _of_operation(operation: Operation, token: str, port: int, *, limited: bool) -> tuple[uvicorn.Config, Backend]:
    services = _backend(limits=AMPLE if limited else Limits())
    # A limited caller's token is a key; the admin's is another.
    authenticator = Authenticator("another" if limited else token, credentials=services.credentials)
    return http_config(Api([operation], services, Authorizer(authenticator, services)), "127.0.0.1", port), services


Server = tuple[uvicorn.Config, Backend | None]
LAYERS: dict[str, Callable[[str, int], Server]] = {
    "bare": lambda _token, port: (_bare_config(_bare, port), None),
    "starlette": lambda _token, port: (
        _bare_config(Starlette(routes=[Route("/v1/jobs", _decoded, methods=["POST"])]), port),
        None,
    ),
    "connection": lambda _token, port: (http_config(GuardingHeaders(_bare), "127.0.0.1", port), None),
    "operation": lambda token, port: _of_operation(_operation(PUBLIC), token, port, limited=False),
    "identity": lambda token, port: _of_operation(_operation(Right.SUBMIT), token, port, limited=False),
    "checks": lambda token, port: _of_operation(submit.submit, token, port, limited=False),
    "limits": lambda token, port: _of_operation(submit.submit, KEY_PREFIX + token, port, limited=True),
}


async def _serve(layer: str, port: int, token: str) -> None:
    config, backend = LAYERS[layer](token, port)
    async with ServiceGroup([backend.credentials] if backend else []):
        await uvicorn.Server(config).serve()


def main() -> None:
    layer, port, token = sys.argv[1:]
    uvloop.run(_serve(layer, int(port), token))


if __name__ == "__main__":
    main()
