"""HTTP jobs as a way into networks that are not the caller's: every form of an address, redirects, names that change;
and answers that never end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import socket
import time
import tracemalloc
import zlib
from uuid import uuid4

import pytest

from rota.domain.run import Claim
from rota.http_addresses import AddressGuard, ForbiddenAddressError
from rota.task.context import Context, Final
from rota.worker.runners import http
from rota.worker.runners.http import HttpCallError, HttpRunner
from support import in_time

ALLOWED = "127.0.0.2"  # stands for the public internet
OK = b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def context():
    now = time.time()
    return Context(Claim("default", uuid4(), uuid4(), 1, "http", 0, None, None, "{}", None, now, now, 0, 0))


@contextlib.asynccontextmanager
async def listening(host, answer=OK, port=0):
    """A server that collects the heads of requests (an empty one for a mere connection) and answers each the same."""
    heads, serving = [], set()

    async def serve(reader, writer):
        heads.append("")
        serving.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                heads[-1] += (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                if callable(answer):
                    await answer(writer)
                else:
                    writer.write(answer)
                await writer.drain()

    async def serve_and_close(reader, writer):
        try:
            await serve(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve_and_close, host, port)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def call(context, *, allow=(ALLOWED,), **payload):
    runner = HttpRunner(AddressGuard(allow))
    try:
        return await runner.run("http", payload, context)
    finally:
        await runner.close()


def redirect(location, status=302):
    return f"HTTP/1.1 {status} X\r\nLocation: {location}\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n".encode()


# Ways to write the address of this very machine, or of others that are nobody's business.
HOSTS = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "0177.0x0.0.1",
    "127.0.0.1.",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "ip6-localhost",
    "0",
    "0.0.0.0",  # noqa: S104 - called, never bound to
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[fe80::1%25lo]",
    "user:password@127.0.0.1",
    "example.com@127.0.0.1",
    "example.com:80@127.0.0.1",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "%6c%6f%63%61%6c%68%6f%73%74",
    "127.0.0.1%2f@example.com",
]


async def attempt(context, **payload):
    """One call that must not succeed, however it fails."""
    with pytest.raises((HttpCallError, Final)) as caught:
        await in_time(call(context, allow=[], **payload))
    return caught.value


@pytest.mark.parametrize("host", HOSTS)
async def test_no_way_to_write_an_address_gets_around_the_check(context, host):
    async with listening("127.0.0.1") as (port, heads), contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(OSError):  # a machine may have no IPv6
            await stack.enter_async_context(listening("::1", port=port))
        await attempt(context, url=f"http://{host}:{port}/")
        assert heads == []


@pytest.mark.parametrize("host", [*HOSTS, "169.254.169.254", "10.0.0.1", "[fd00:ec2::254]", "[::ffff:a9fe:a9fe]"])
async def test_no_redirect_gets_around_the_check(context, host):
    async with listening("127.0.0.1") as (inside, heads):
        for location in (f"http://{host}:{inside}/", f"//{host}:{inside}/"):
            async with listening(ALLOWED, redirect(location)) as (port, asked):
                with pytest.raises((HttpCallError, Final)):
                    await in_time(call(context, url=f"http://{ALLOWED}:{port}/"))
                assert len(asked) == 1
        assert heads == []


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::169.254.169.254",
        "::ffff:169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::1",
        "2001:0:1:1::5601:5601",
        "0.1.2.3",
        "::0.1.2.3",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
    ],
)
def test_what_is_never_called_is_never_called_in_disguise(address):
    with pytest.raises(ForbiddenAddressError):
        AddressGuard(["0.0.0.0/0", "::/0"]).check(address)


@pytest.mark.parametrize(
    "address",
    ["100.64.0.1", "198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "240.0.0.1", "2001:db8::1", "fc00::1"],
)
def test_networks_that_are_nobodys_are_not_public(address):
    with pytest.raises(ForbiddenAddressError):
        AddressGuard().check(address)


@pytest.fixture
def names(monkeypatch):
    """A resolver of ours: what a name means is taken from lists, one after the other, the last one for ever."""
    asked = []
    real = socket.getaddrinfo

    def install(*answers):
        def look_up(host, port, *arguments, **options):
            if host != "changing.example":
                return real(host, port, *arguments, **options)
            asked.append(host)
            addresses = answers[min(len(asked), len(answers)) - 1]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        return asked

    return install


@pytest.mark.parametrize("later", [["127.0.0.1"], ["127.0.0.1", ALLOWED]])
async def test_a_name_that_means_something_else_later_leads_nowhere(context, names, later):
    asked = names([ALLOWED], later)
    async with listening(ALLOWED) as (port, heads), listening("127.0.0.1", port=port) as (_, inside):
        assert (await call(context, url=f"http://changing.example:{port}/"))["body"] == "ok"
        for _ in range(3):
            with contextlib.suppress(HttpCallError, Final):
                await call(context, url=f"http://changing.example:{port}/")
        assert len(asked) == 4
        assert len(heads) >= 1
        assert inside == []


async def test_a_name_that_changes_between_two_hops_leads_nowhere(context, names, monkeypatch):
    asked = names([ALLOWED], ["127.0.0.1"])
    monkeypatch.setattr(http.aiohttp, "TCPConnector", _without_memory(http.aiohttp.TCPConnector))
    async with (
        listening(ALLOWED, redirect("/again") + b"") as (port, heads),
        listening("127.0.0.1", port=port) as (_, inside),
    ):
        with pytest.raises((HttpCallError, Final)):
            await call(context, url=f"http://changing.example:{port}/")
        assert len(heads) == 1
        assert len(asked) == 2
        assert inside == []


def _without_memory(kind):
    """Each request looks the name up anew, on a connection of its own."""
    return lambda **options: kind(**options, use_dns_cache=False, force_close=True)


async def test_of_several_addresses_only_those_are_tried_that_may_be_called(context, names):
    names([ALLOWED, "127.0.0.1"])
    async with listening("127.0.0.1") as (port, inside):  # nobody listens at the allowed one
        with pytest.raises((HttpCallError, Final)):
            await call(context, url=f"http://changing.example:{port}/")
        assert inside == []


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"])
async def test_proxies_of_the_environment_are_not_for_jobs(context, monkeypatch, name):
    async with listening("127.0.0.1") as (proxy, asked), listening(ALLOWED) as (port, _):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy}")
        assert (await call(context, url=f"http://{ALLOWED}:{port}/"))["body"] == "ok"
        assert asked == []


SECRETS = {"Authorization": "Bearer tell-nobody", "Cookie": "tell-nobody", "X-Api-Key": "tell-nobody"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location", ["http://127.0.0.3:{port}/", "//127.0.0.3:{port}/", "http://ada@127.0.0.3:{port}/"]
)
async def test_credentials_do_not_go_with_a_redirect_to_another_host(context, status, location):
    async with (
        listening("127.0.0.3") as (other, heads),
        listening(ALLOWED, redirect(location.format(port=other), status)) as (port, first),
    ):
        url = f"http://ada:tell-nobody@{ALLOWED}:{port}/?key=tell-nobody"
        headers = {name: value for name, value in SECRETS.items() if name != "Authorization"}
        await call(context, allow=[ALLOWED, "127.0.0.3"], url=url, headers=headers)
        await call(context, allow=[ALLOWED, "127.0.0.3"], url=f"http://{ALLOWED}:{port}/", headers=SECRETS)
    assert all("tell-nobody" in head for head in first)
    assert len(heads) == 2
    for head in heads:
        assert "tell-nobody" not in head
        assert "Cookie" not in head


async def test_cookies_of_an_answer_are_not_sent_back(context):
    async with listening(ALLOWED, redirect("/again")) as (port, heads):
        with pytest.raises(HttpCallError, match="redirects"):
            await call(context, url=f"http://{ALLOWED}:{port}/")
    assert "Cookie" not in "".join(heads)


@pytest.mark.parametrize(
    "path", ["/a%0d%0aX-Forged:%201", "/a?b=%0d%0aX-Forged:%201", "/\u010a\u010dX-Forged", "/%E5%98%8A"]
)
async def test_an_address_does_not_add_lines_to_a_request(context, path):
    async with listening(ALLOWED) as (port, heads):
        await call(context, url=f"http://{ALLOWED}:{port}{path}")
        location = f"http://{ALLOWED}:{port}{path.encode('unicode_escape').decode()}"
        async with listening(ALLOWED, redirect(location)) as (first, _):
            await call(context, url=f"http://{ALLOWED}:{first}/")
    assert len(heads) == 2
    for head in heads:
        assert "\r\nX-Forged" not in head
        assert len(head.split("\r\n")[0].split(" ")) == 3


async def endless(writer, *, piece, head=b""):
    writer.write(head)
    with contextlib.suppress(OSError):
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)


BOMB = gzip.compress(b"\0" * 200 * 1024 * 1024)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, gzip"])
async def test_an_answer_that_grows_when_unpacked_takes_little_memory(context, encoding):
    body = {"gzip": BOMB, "deflate": zlib.compress(b"\0" * 200 * 1024 * 1024), "gzip, gzip": gzip.compress(BOMB)}[
        encoding
    ]
    head = f"HTTP/1.1 200 X\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with listening(ALLOWED, head + body) as (port, _):
        tracemalloc.start()
        try:
            with contextlib.suppress(HttpCallError):
                answer = await call(context, url=f"http://{ALLOWED}:{port}/")
                assert answer.get("cut") or encoding == "gzip, gzip"
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


async def test_a_body_without_an_end_is_cut(context):
    async def answer(writer):
        await endless(writer, head=b"HTTP/1.1 200 X\r\n\r\n", piece=b"x" * 10_000)

    async with listening(ALLOWED, answer) as (port, _):
        answered = await in_time(call(context, url=f"http://{ALLOWED}:{port}/"))
    assert answered["cut"]


async def test_headers_without_an_end_are_given_up(context):
    async def answer(writer):
        await endless(writer, head=b"HTTP/1.1 200 X\r\n", piece=b"X-More: and more\r\n" * 100)

    async with listening(ALLOWED, answer) as (port, _):
        with pytest.raises(HttpCallError):
            await in_time(call(context, url=f"http://{ALLOWED}:{port}/"))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 X\r\n", b"HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\n"])
async def test_an_answer_that_trickles_is_given_up_in_time(context, monkeypatch, head):
    monkeypatch.setattr(http, "LONGEST_SECONDS", 0.5)

    async def answer(writer):
        writer.write(head)
        with contextlib.suppress(OSError):
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with listening(ALLOWED, answer) as (port, _):
        with pytest.raises(HttpCallError, match=r"within 0\.5 s"):
            await in_time(call(context, url=f"http://{ALLOWED}:{port}/"))


@pytest.mark.parametrize("body", [b"is tell-nobody", b"\xff\x00tell-nobody\xfe"])
async def test_a_secret_that_an_answer_repeats_is_masked(engine, body):
    answer = b"HTTP/1.1 200 X\r\nX-Echo: tell-nobody\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    runner = HttpRunner(AddressGuard([ALLOWED]))
    async with listening(ALLOWED, answer) as (port, _):
        worker = engine.worker(runners={"http": runner}, secrets={"KEY": "tell-nobody"})
        async with engine.running(worker):
            run_id = await engine.submit(task="http", payload={"url": f"http://{ALLOWED}:{port}/"})
            run = await engine.until(run_id, "success", "failed")
    await runner.close()
    result = run["result"]
    shown = base64.b64decode(result["bodyBase64"]) if "bodyBase64" in result else result["body"].encode()
    assert shown == body.replace(b"tell-nobody", b"***")
    assert result["headers"]["X-Echo"] == "***"
