"""A body over the limit is answered, and the answer arrives, whatever the client and however it means to go on."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest
from raw import read_answers, served
from starlette.responses import Response
from starlette.routing import Route

from rota.api.http.security_headers import GuardedApplication
from rota.client import AnswerError, Client
from support import GUARD_SECONDS, in_time

SAID = b'{"status": 413, "title": "Too large", "detail": "the body is too large"}'
BODY = b"x" * 40_000_000  # far more than the buffers between two processes hold


async def refuse(_request):
    """Answers without having read the body."""
    return Response(SAID, 413, media_type="application/problem+json")


@pytest.fixture
async def port():
    async with served(GuardedApplication(routes=[Route("/{path:path}", refuse, methods=["POST"])])) as server:
        yield server.port


def by_http_client(port, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD_SECONDS)
    try:
        connection.request("POST", "/", BODY, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def by_urllib(port):
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", BODY, timeout=GUARD_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("headers", [{}, {"Connection": "close"}], ids=["to go on", "to close"])
async def test_pythons_client_gets_it(port, headers):
    assert await asyncio.to_thread(by_http_client, port, headers) == (413, SAID)


async def test_urllib_which_always_asks_to_close_gets_it(port):
    assert await asyncio.to_thread(by_urllib, port) == (413, SAID)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("options", [[], ["-H", "Expect:"], ["-0"], ["-H", "Connection: close", "-H", "Expect:"]])
async def test_curl_gets_it(port, tmp_path, options):
    (tmp_path / "body").write_bytes(BODY)
    command = ["curl", "-sS", "-w", "%{http_code}", *options, "--data-binary", f"@{tmp_path / 'body'}"]
    done = await asyncio.to_thread(
        subprocess.run, [*command, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{SAID.decode()}413", "")


async def test_our_own_client_gets_it(port):
    def call():
        with Client(f"http://127.0.0.1:{port}", "t", retries=0) as client:
            client.call("POST", "/v1/jobs", body={"name": "x" * len(BODY)})

    with pytest.raises(AnswerError) as raised:
        await asyncio.to_thread(call)
    assert raised.value.status == 413


HEAD = b"POST / HTTP/1.1\r\nHost: rota\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


async def test_the_connection_is_closed_when_the_rest_has_come(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD % 8 + b"half")
    answer = await in_time(reader.readuntil(SAID))
    writer.write(b"rest")
    assert await in_time(reader.read()) == b""
    writer.close()
    assert [one.headers["connection"] for one in read_answers(answer)] == ["close"]


async def test_a_rest_that_does_not_come_is_waited_for_only_so_long():
    app = GuardedApplication(routes=[Route("/{path:path}", refuse, methods=["POST"])])
    async with served(app, rest_seconds=0.2) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD % 8 + b"half")
        assert (await in_time(reader.read())).endswith(SAID), "and it is closed then"
        writer.close()
