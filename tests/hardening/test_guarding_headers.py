"""Headers against curious browsers and proxies: on every answer there is."""

from __future__ import annotations

import pytest
from raw import Seen, ask, build_echo, served
from starlette.responses import Response
from starlette.routing import Route

from listening import listening
from rota.api.http.security_headers import GUARDING, GuardedApplication
from support import job

EXPECTED = {name.decode(): value.decode() for name, value in GUARDING}


def guarding(headers):
    return {name: value for name, value in headers.items() if name in EXPECTED}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/nowhere", 404),
        ("PUT", "/healthz", 405),
        ("GET", "/v1/jobs", 200),
        ("HEAD", "/v1/jobs", 200),
        ("GET", "/v1/jobs/nonsense", 404),
        ("POST", "/v1/jobs", 400),
    ],
)
async def test_every_answer_has_them(api, method, path, status):
    answer = await api.request(method, path)
    assert answer.status_code == status
    assert guarding(answer.headers) == EXPECTED
    assert "strict-transport-security" not in answer.headers


async def test_answers_without_a_token_have_them(api):
    answer = await api.get("/v1/jobs", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert guarding(answer.headers) == EXPECTED


async def test_streams_have_them(api, database):
    run_id = (await api.post("/v1/jobs", json=job())).json()["runId"]
    async with listening(api.services) as server:
        request = f"GET /v1/runs/{run_id}/logs?follow=true HTTP/1.1\r\nHost: rota\r\n"
        request += "Authorization: Bearer test-token\r\nConnection: close\r\n\r\n"
        await api.post(f"/v1/runs/{run_id}/cancel")
        (answer,) = await ask(server.port, request.encode())
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert guarding(answer.headers) == EXPECTED
    assert "server" not in answer.headers


async def test_an_error_that_nobody_caught_has_them():
    async with served(build_echo(Seen())) as server:
        (answer,) = await ask(server.port, b"GET /fail HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n")
    assert answer.status == 500
    assert guarding(answer.headers) == EXPECTED


async def test_what_is_no_request_has_them():
    async with served(build_echo(Seen())) as server:
        (answer,) = await ask(server.port, b"nonsense\r\n\r\n")
    assert answer.status == 400
    assert guarding(answer.headers) == EXPECTED


async def test_an_answer_that_sets_its_own_keeps_it():
    own = {"Content-Security-Policy": "default-src 'self'", "Cache-Control": "max-age=60"}

    async def page(_request):
        return Response(b"<p>", headers=own, media_type="text/html")

    async with served(GuardedApplication(routes=[Route("/", page)])) as server:
        (answer,) = await ask(server.port, b"GET / HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n")
    changed = {name.lower(): value for name, value in own.items()}
    assert guarding(answer.headers) == EXPECTED | changed
