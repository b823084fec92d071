"""Answers that are written at once, head and body together, are those that uvicorn would write, byte by byte."""

from __future__ import annotations

import re

import pytest
from raw import Seen, build_echo, say, served
from starlette.responses import Response

from rota.api.http.connection import GuardedCycle
from rota.api.http.messages import JsonResponse
from rota.api.operations import json_response
from support import job

from listening import listening  # isort: skip

CLOSE = b"Connection: close\r\n"
TOKEN = b"Authorization: Bearer test-token\r\n"
BODY = b'{"name": "x", "scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z", "task": "rota.echo"}'
DIFFERING = re.compile(rb"(?<=date: )[^\r]*|(?<=(?:job|run)_)[0-9a-f]{32}")


def request(line, *headers, body=b""):
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"".join([line, b" HTTP/1.1\r\nHost: rota\r\n", *headers, length, b"\r\n", body])


REQUESTS = {
    "a job": request(b"POST /v1/jobs", TOKEN, CLOSE, body=BODY),
    "chunked": request(b"POST /v1/jobs", TOKEN, b"Transfer-Encoding: chunked\r\n", CLOSE)
    + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    "slowly": [request(b"POST /v1/jobs", TOKEN, CLOSE, body=BODY)[:-20], BODY[-20:]],
    "expecting to be asked": request(b"POST /v1/jobs", TOKEN, b"Expect: 100-continue\r\n", CLOSE, body=BODY),
    "a namespace twice": request(b"POST /v1/jobs", TOKEN, b"Rota-Namespace: a\r\n" * 2, CLOSE, body=BODY),
    "a key twice": request(b"POST /v1/jobs", TOKEN, b"Idempotency-Key: a\r\n" * 2, CLOSE, body=BODY),
    "a query": request(b"POST /v1/jobs?x=1", TOKEN, CLOSE, body=BODY),
    "no JSON": request(b"POST /v1/jobs", TOKEN, CLOSE, body=b"{"),
    "nobody": request(b"POST /v1/jobs", CLOSE, body=BODY),
    "two of them": request(b"POST /v1/jobs", TOKEN, TOKEN, CLOSE, body=BODY),
    "too large": request(b"POST /v1/jobs", TOKEN, b"Content-Length: 2000000\r\n", CLOSE) + b" " * 2_000_000,
    "a wrong method": request(b"PUT /v1/jobs", TOKEN, CLOSE),
    "nothing there": request(b"GET /nowhere", TOKEN, CLOSE),
    "a list": request(b"GET /v1/pools", TOKEN, CLOSE),
    "a list's head": request(b"HEAD /v1/pools", TOKEN, CLOSE),
    "no such status": request(b"GET /v1/jobs/job_%b/status" % (b"0" * 32), TOKEN, CLOSE),
    "two in a row": request(b"GET /v1/pools", TOKEN) + request(b"GET /healthz", CLOSE),
    "HTTP/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
}


async def answered(server, given):
    pieces = given if isinstance(given, list) else [given]
    return DIFFERING.sub(b"", await say(server.port, *pieces, pause=0.05 if len(pieces) > 1 else 0.0))


async def test_answers_are_the_same_to_the_byte(api, monkeypatch):
    async with listening(api.services) as server:
        at_once = {name: await answered(server, given) for name, given in REQUESTS.items()}
        monkeypatch.setattr(GuardedCycle, "_head_of", lambda *_given: None)
        by_uvicorn = {name: await answered(server, given) for name, given in REQUESTS.items()}
    assert at_once == by_uvicorn
    assert at_once["a job"].startswith(b"HTTP/1.1 201 Created\r\n")
    assert at_once["two in a row"].count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize("path", [b"/", b"/large", b"/wait"])
async def test_answers_of_any_size_are_whole(path):
    seen = Seen()
    seen.go_on.set()
    async with served(build_echo(seen)) as server:
        whole = await say(server.port, b"GET %b HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n" % path)
    head, _, body = whole.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head


@pytest.mark.parametrize("headers", [None, {}, {"Location": "/v1/jobs/job_1", "ETag": '"3"'}])
def test_an_answer_has_the_headers_that_starlette_gives_it(headers):
    ours = json_response(job(), 201, headers)
    theirs = Response(ours.body, 201, headers, "application/json")
    assert isinstance(ours, JsonResponse)
    assert ours.raw_headers == theirs.raw_headers
    ours.headers["x-more"] = theirs.headers["x-more"] = "1"
    assert ours.raw_headers == theirs.raw_headers
