"""The client's own HTTP, asynchronous and synchronous, against servers that say what they are told."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from scripted import BEGIN, OK, answer, answering, chunk, face_of, scripted

from rota.client import async_http, http_async, http_parser, http_routes, http_sync
from rota.client._sync import http as sync_http
from rota.client.http_messages import (
    ConnectionLostError,
    ConnectTimeoutError,
    ExchangeError,
    ExchangeTimeoutError,
    HungUpError,
    NotConnectedError,
    NotHttpError,
    TimeLimits,
)
from rota.errors import BadInputError
from support import GUARD_SECONDS, wait_until


@pytest.fixture(params=["asyncio", "uvloop", "sync"])
def connect(request):
    """Makes connections of each face."""
    with face_of(request.param) as connect:
        yield connect


def test_an_answer_has_status_headers_and_content(connect):
    with scripted(answering(answer(201, b'{"a":1}', X_One="1", x_one="2", Content_Type="text/x"))) as server:
        found = connect(server.url).request("POST", "/v1/x?y=1", content=b"{}")
    assert (found.status, found.content, found.path, found.is_success) == (201, b'{"a":1}', "/v1/x?y=1", True)
    assert found.headers == {"content-length": "7", "x-one": "1, 2", "content-type": "text/x"}


def test_a_request_says_what_it_should_and_nothing_else(connect):
    with scripted(answering(OK)) as server:
        http = connect(f"{server.url}/base", {"Authorization": "Bearer t"})
        http.request("GET", "/a", query={"q": "x y&z", "no": None, "yes": True, "n": 1.5})
        http.request("POST", "/b")
        http.request("PUT", "/c", content=b"[]", headers={"Content-Type": "x/y", "authorization": "other"})
        host = server.url.removeprefix("http://")
        usual = {"host": host, "user-agent": "rota-client", "authorization": "Bearer t"}
        assert [(asked.method, asked.target, asked.headers, asked.content) for asked in server.heard] == [
            ("GET", "/base/a?q=x%20y%26z&yes=true&n=1.5", usual, b""),
            ("POST", "/base/b", usual | {"content-length": "0"}, b""),
            ("PUT", "/base/c", usual | {"authorization": "other", "content-type": "x/y", "content-length": "2"}, b"[]"),
        ]


@pytest.mark.parametrize(
    ("path", "sent"),
    [("/ü /x", "/%C3%BC%20/x"), ("/a\r\nEvil: 1", "/a%0D%0AEvil:%201"), ("x#y", "/x%23y"), ("//a", "//a")],
)
def test_a_path_can_not_break_out_of_its_line(connect, path, sent):
    with scripted(answering(OK)) as server:
        connect(server.url).request("GET", path)
        assert [asked.target for asked in server.heard] == [sent]
        assert "evil" not in server.heard[0].headers


@pytest.mark.parametrize(
    "options",
    [
        {"method": "GET / HTTP/1.1\r\n"},
        {"method": "get"},
        {"headers": {"A\r\nB": "c"}},
        {"headers": {"A": "b\r\nC: d"}},
        {"headers": {"A": "b\n"}},
        {"headers": {"": "x"}},
        {"headers": {"A": "ü"}},
    ],
    ids=repr,
)
def test_what_can_not_be_sent_is_refused_before_it_is(connect, options):
    with scripted(answering(OK)) as server:
        with pytest.raises(BadInputError):
            connect(server.url).request(**options)
        assert not server.heard


def test_connections_are_used_again_the_last_one_first(connect):
    with scripted(answering(OK)) as server:
        http = connect(server.url)
        for _ in range(5):
            assert http.request().status == 200
        assert server.connections == 1


@pytest.mark.parametrize(
    "last",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"junk",
        OK + OK,
    ],
    ids=repr,
)
def test_a_connection_that_is_not_kept_is_not_used_again(connect, last):
    with scripted(answering(last, OK)) as server:
        http = connect(server.url)
        assert [http.request(repeatable=True).content for _ in range(3)] == [b"ok"] * 3
        assert [asked.connection for asked in server.heard] == [0, 1, 1]


def test_an_answer_nobody_asked_for_is_not_taken_for_the_next(connect):
    def script(peer):
        asked = peer.request()
        peer.send(OK)
        if asked.target == "/first":
            time.sleep(0.05)
            peer.send(answer(200, b"stale"))
        while peer.request():
            peer.send(OK)

    with scripted(script) as server:
        http = connect(server.url)
        http.request("GET", "/first")
        time.sleep(0.2)
        assert http.request("GET", "/second").content == b"ok"


ANSWERS = {
    "length": (answer(200, b"0123456789"), b"0123456789", 200),
    "chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nLater: x\r\n\r\n",
        b"abcdefg",
        200,
    ),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(202, b"yes"),
        b"yes",
        202,
    ),
    "204": (b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", b"", 204),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b"", 304),
    "empty": (answer(200), b"", 200),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_can_come_in_any_pieces(connect, kind):
    whole, content, status = ANSWERS[kind]
    splits = iter(range(1, len(whole)))

    def script(peer):
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while peer.request():
            at = next(splits)
            peer.send(whole[:at])
            time.sleep(0.0005)
            peer.send(whole[at:])

    with scripted(script) as server:
        http = connect(server.url)
        for _ in range(1, len(whole)):
            found = http.request()
            assert (found.status, found.content) == (status, content)
            assert "later" not in found.headers
            assert "link" not in found.headers
        assert server.connections == 1


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_parser_takes_every_split(kind):
    whole, content, status = ANSWERS[kind]
    for first in range(len(whole)):
        for second in range(first, len(whole)):
            reader = http_parser.AnswerReader()
            pieces = [piece for piece in (whole[:first], whole[first:second], whole[second:]) if piece]
            assert [reader.feed(piece) for piece in pieces][-1]
            found = reader.answer("/")
            assert (found.status, found.content, reader.keeps_alive) == (status, content, True)


def test_without_a_length_the_end_of_the_connection_ends_the_answer(connect):
    def script(peer):
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nto the ")
        peer.send(b"end")

    with scripted(script) as server:
        http = connect(server.url)
        assert [http.request().content for _ in range(2)] == [b"to the end"] * 2


def test_the_answer_to_head_has_no_content(connect):
    with scripted(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")) as server:
        http = connect(server.url)
        for _ in range(2):
            found = http.request("HEAD")
            assert (found.content, found.headers["content-length"]) == (b"", "1000")


def test_redirects_are_not_followed(connect):
    with scripted(answering(answer(307, Location="http://127.0.0.1:1/"))) as server:
        assert connect(server.url).request().status == 307
        assert len(server.heard) == 1


def test_large_requests_and_answers_arrive_whole(connect):
    large = os.urandom(9_000_000)

    def script(peer):
        while asked := peer.request():
            peer.send(answer(200, asked.content))

    with scripted(script) as server:
        http = connect(server.url)
        for _ in range(2):
            assert http.request("POST", content=large).content == large
        assert server.connections == 1


def test_an_answer_before_the_body_was_sent_is_read(connect):
    def script(peer):
        peer.request(content=False)
        peer.send(answer(413, b"too large"))
        peer.gone()

    with scripted(script) as server:
        http = connect(server.url)
        found = http.request("POST", content=bytes(50_000_000))
        assert (found.status, found.content) == (413, b"too large")
        assert http.request("POST", content=bytes(50_000_000)).status == 413
        assert server.connections == 2


def test_an_answer_before_the_connection_was_closed_is_read(connect):
    def script(peer):
        peer.request(content=False)
        peer.send(answer(413, b"too large", Connection="close"))

    with scripted(script) as server:
        assert connect(server.url).request("POST", content=bytes(50_000_000)).status == 413


# What a request on a connection that was used before meets.


def closing_after(count, how="close"):
    """A script: every first connection hears one request too many, and breaks without an answer."""

    def script(peer):
        for _ in range(count if peer.number == 0 else 100):
            if not peer.request():
                return
            peer.send(OK)
        if peer.number == 0:
            peer.request()
            getattr(peer, how)()

    return script


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_repeatable_request_goes_out_again_when_its_used_connection_was_closed(connect, how):
    with scripted(closing_after(1, how)) as server:
        http = connect(server.url)
        http.request("GET", "/first")
        assert http.request("GET", "/second", repeatable=True).content == b"ok"
        assert [asked.target for asked in server.heard] == ["/first", "/second", "/second"]
        assert server.connections == 2


@pytest.mark.parametrize("how", ["close", "reset"])
def test_another_request_does_not_since_it_may_have_arrived(connect, how):
    with scripted(closing_after(1, how)) as server:
        http = connect(server.url)
        http.request("GET", "/first")
        with pytest.raises(ConnectionLostError) as lost:
            http.request("POST", "/second")
        assert not lost.value.never_sent
        assert [asked.target for asked in server.heard] == ["/first", "/second"]
        assert server.connections == 1


def test_a_request_on_a_new_connection_is_not_sent_twice(connect):
    with scripted(closing_after(0)) as server:
        with pytest.raises(HungUpError):
            connect(server.url).request(repeatable=True)
        assert len(server.heard) == 1


def test_a_request_whose_answer_began_is_not_sent_twice(connect):
    def script(peer):
        peer.request()
        peer.send(OK)
        peer.request()
        peer.send(OK[:20])

    with scripted(script) as server:
        http = connect(server.url)
        http.request()
        with pytest.raises(ConnectionLostError, match="before its answer was complete") as lost:
            http.request(repeatable=True)
        assert not lost.value.never_sent
        assert len(server.heard) == 2


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_for_what_can_not_be_repeated(connect):
    closed = threading.Event()

    def script(peer):
        peer.request()
        peer.send(OK)
        if peer.number == 0:
            peer.close()
            closed.set()
        peer.request()
        peer.send(OK)

    with scripted(script) as server:
        http = connect(server.url)
        http.request("POST", "/first")
        assert closed.wait(GUARD_SECONDS)
        assert http.request("POST", "/second").status == 200
        assert [(asked.target, asked.connection) for asked in server.heard] == [("/first", 0), ("/second", 1)]


def test_a_connection_that_was_idle_for_long_is_closed_and_not_used(connect, monkeypatch):
    for module in (http_async, http_sync):
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    with scripted(answering(OK)) as server:
        http = connect(server.url)
        http.request()
        time.sleep(0.1)
        http.request()
        assert server.connections == 2


def test_an_idle_connection_of_the_event_loop_closes_by_itself(monkeypatch):
    monkeypatch.setattr(http_async, "IDLE_SECONDS", 0.05)
    gone = threading.Event()

    def script(peer):
        peer.request()
        peer.send(OK)
        if peer.gone():
            gone.set()

    with face_of("asyncio") as connect, scripted(script) as server:
        http = connect(server.url)
        http.request(seconds=0.2)
        connect.runner.run(asyncio.to_thread(gone.wait, GUARD_SECONDS))
        assert gone.is_set()


def test_idle_connections_are_limited():
    with face_of("sync") as connect, scripted(answering(OK)) as server:
        http = connect(server.url, most=2)
        with ThreadPoolExecutor(8) as threads:
            assert {found.content for found in threads.map(lambda _: http.request(), range(100))} == {b"ok"}
        assert len(http.connections._stock._idle) <= 2


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_no_more_connections_are_in_use_than_allowed(loop):
    limits = TimeLimits(GUARD_SECONDS, GUARD_SECONDS)

    async def many(http):
        return await asyncio.gather(*(http.connections.request("GET", "/", limits=limits) for _ in range(50)))

    with face_of(loop) as connect, scripted(answering(OK)) as server:
        http = connect(server.url, most=3)
        assert {found.content for found in connect.runner.run(many(http))} == {b"ok"}
        assert server.connections <= 3


def test_who_gets_no_connection_in_time_is_told_that_nothing_was_sent():
    def script(peer):
        peer.request()
        peer.gone()

    async def two(http):
        long, short = (TimeLimits(5.0, seconds) for seconds in (GUARD_SECONDS, 0.1))
        first = asyncio.create_task(http.connections.request("GET", "/first", limits=long))
        await asyncio.sleep(0)
        with pytest.raises(ConnectTimeoutError, match="in use") as lost:
            await http.connections.request("GET", "/second", limits=short)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return lost.value

    with face_of("asyncio") as connect, scripted(script) as server:
        assert connect.runner.run(two(connect(server.url, most=1))).never_sent


# Time.


def test_silence_ends_with_the_time(connect):
    def script(peer):
        peer.request()
        peer.gone()

    with scripted(script) as server:
        http = connect(server.url)
        with pytest.raises(ExchangeTimeoutError) as lost:
            http.request(seconds=0.1)
        assert not lost.value.never_sent


def test_silence_within_an_answer_ends_with_the_time(connect):
    def script(peer):
        peer.request()
        peer.send(OK[:-1])
        peer.gone()

    with scripted(script) as server, pytest.raises(ExchangeTimeoutError):
        connect(server.url).request(seconds=0.1)


def test_a_slow_answer_that_goes_on_is_waited_for(connect):
    slow = answer(200, b"x" * 10)

    def script(peer):
        peer.request()
        for at in range(len(slow)):
            peer.send(slow[at : at + 1])
            time.sleep(0.02)

    with scripted(script) as server:
        assert connect(server.url).request(seconds=0.5).content == b"x" * 10


def test_a_server_that_takes_nothing_ends_with_the_time(connect):
    done = threading.Event()
    with scripted(lambda _peer: done.wait(GUARD_SECONDS)) as server:
        with pytest.raises(ExchangeTimeoutError):
            connect(server.url).request("POST", content=bytes(50_000_000), seconds=0.2)
        done.set()


def test_a_short_time_holds_after_a_long_one(connect):
    def script(peer):
        peer.request()
        peer.send(OK)
        peer.request()
        peer.gone()

    with scripted(script) as server:
        http = connect(server.url)
        http.request(seconds=GUARD_SECONDS)
        began = time.monotonic()
        with pytest.raises(ExchangeTimeoutError):
            http.request(seconds=0.1)
        assert time.monotonic() - began < GUARD_SECONDS


def test_a_connection_that_does_not_come_about_was_never_sent(connect):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        with pytest.raises(ConnectTimeoutError) as lost:
            connect(f"http://127.0.0.1:{port}").request(seconds=0.2)
        for one in waiting:
            one.close()
    assert lost.value.never_sent


def test_a_refused_connection_was_never_sent(connect):
    with pytest.raises(NotConnectedError, match="Connection refused") as lost:
        connect("http://127.0.0.1:1").request()
    assert lost.value.never_sent


def test_an_unknown_host_was_never_sent(connect):
    with pytest.raises(NotConnectedError) as lost:
        connect("http://no-such-host.invalid").request(seconds=5)
    assert lost.value.never_sent


def test_an_address_that_swallows_packets_leaves_time_for_the_next():
    assert [round(share, 2) for share in http_routes.shares(2, 5.0)] == [2.5, 5.0]


def test_the_next_address_is_tried(connect, monkeypatch):
    with scripted(answering(OK)) as server:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (1, server.port)]

        async def resolve(*_arguments, **_options):
            return found

        if connect.runner is None:
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: found)
        else:
            monkeypatch.setattr(http_async, "_addresses", resolve)
        assert connect("http://two.example").request().status == 200


def test_an_ipv6_address_works(connect):
    with scripted(answering(OK), host="::1") as server:
        assert connect(server.url).request().status == 200
        assert server.heard[0].headers["host"] == f"[::1]:{server.port}"


# What is no answer.


@pytest.mark.parametrize(
    "said",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ],
    ids=repr,
)
def test_what_is_no_http_is_said_to_be(connect, said):
    with scripted(answering(said)) as server, pytest.raises(NotHttpError):
        connect(server.url).request()


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_server_that_answers_before_it_is_asked_is_heard(connect, monkeypatch, pause):
    """As one that takes no more connections does."""
    connected = slow_to_ask(connect, monkeypatch, pause)

    def script(peer):
        peer.send(answer(503, b"full", Connection="close"))
        peer.socket.shutdown(socket.SHUT_WR)
        peer.request()

    with scripted(script) as server:
        http = connected(server.url)
        for _ in range(2):
            found = http.request("POST", content=b"x")
            assert (found.status, found.content) == (503, b"full")


@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_server_that_speaks_another_protocol_first_is_said_to(connect, monkeypatch, pause):
    connected = slow_to_ask(connect, monkeypatch, pause)

    def script(peer):
        peer.send(b"SSH-2.0-OpenSSH_9\r\n")
        peer.gone()

    with scripted(script) as server, pytest.raises(NotHttpError):
        connected(server.url).request()


def test_a_server_that_hangs_up_at_once_is_told_apart(connect, monkeypatch):
    connected = slow_to_ask(connect, monkeypatch, 0.05)
    with scripted(lambda peer: peer.close()) as server, pytest.raises(ConnectionLostError) as lost:
        connected(server.url).request()
    if connect.runner is not None:
        assert lost.value.never_sent


def slow_to_ask(connect, monkeypatch, pause):
    """Connections that pause before their first request, so that the server can be first."""
    open_async, open_sync = async_http.connect, sync_http.connect

    async def open_slowly(*arguments):
        connection = await open_async(*arguments)
        await asyncio.sleep(pause)
        return connection

    def open_slowly_here(*arguments):
        connection = open_sync(*arguments)
        time.sleep(pause)
        return connection

    monkeypatch.setattr(async_http, "connect", open_slowly)
    monkeypatch.setattr(sync_http, "connect", open_slowly_here)
    return connect


def test_a_server_that_hangs_up_without_an_answer_is_told_apart(connect):
    with scripted(lambda peer: peer.request()) as server, pytest.raises(HungUpError):
        connect(server.url).request()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
        answer(200, b"x" * 200_000),
    ],
    ids=["a long header", "many headers", "a long body"],
)
def test_an_answer_that_is_too_large_is_not_read(connect, monkeypatch, said):
    monkeypatch.setattr(http_parser, "MOST_BODY_BYTES", 100_000)
    with scripted(answering(said)) as server, pytest.raises(http_parser.AnswerTooLargeError):
        connect(server.url).request()


# Streams.


def test_a_stream_is_read_piece_by_piece(connect):
    def script(peer):
        peer.request()
        peer.send(BEGIN)
        for number in range(3):
            peer.send(chunk(b"%d" % number))
        peer.send(b"0\r\n\r\n")

    with scripted(script) as server:
        status, pieces = connect(server.url).pieces()
    assert (status, b"".join(pieces)) == (200, b"012")


def test_a_stream_that_is_left_is_closed(connect):
    gone = threading.Event()

    def script(peer):
        peer.request()
        peer.send(BEGIN + chunk(b"first"))
        if peer.gone():
            gone.set()

    with scripted(script) as server:
        http = connect(server.url)
        assert http.pieces(most=1) == (200, [b"first"])
        if connect.runner is not None:
            connect.runner.run(asyncio.sleep(0.01))
        assert gone.wait(GUARD_SECONDS)


def test_a_stream_that_breaks_is_an_error(connect):
    def script(peer):
        peer.request()
        peer.send(BEGIN + chunk(b"first"))

    with scripted(script) as server, pytest.raises(ConnectionLostError):
        connect(server.url).pieces()


def test_a_stream_that_falls_silent_is_an_error(connect):
    def script(peer):
        peer.request()
        peer.send(BEGIN + chunk(b"first"))
        peer.gone()

    with scripted(script) as server, pytest.raises(ExchangeTimeoutError):
        connect(server.url).pieces(seconds=0.2)


def test_a_stream_that_is_not_read_stays_with_the_server(monkeypatch):
    monkeypatch.setattr(http_async, "_HELD_BYTES", 100_000)
    sent = []

    def script(peer):
        peer.request()
        peer.send(BEGIN)
        for _ in range(2000):
            peer.send(chunk(bytes(50_000)))
            sent.append(50_000)
        peer.send(b"0\r\n\r\n")

    async def read_slowly(http):
        limits = TimeLimits(GUARD_SECONDS, 0.2)
        async with http.connections.stream("/", limits=limits) as found:
            size = len(await found.piece())
            await asyncio.sleep(0.5)  # longer than the server may be silent, but it is not the server that is
            assert len(sent) < 2000
            while piece := await found.piece():
                size += len(piece)
        return size

    for loop in ("asyncio", "uvloop"):
        sent.clear()
        with face_of(loop) as connect, scripted(script) as server:
            assert connect.runner.run(read_slowly(connect(server.url))) == 100_000_000


# Cancellation, threads, processes, event loops.


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_cancelled_request_leaves_no_answer_to_the_next(loop):
    heard = threading.Event()

    def script(peer):
        while asked := peer.request():
            if asked.target == "/slow":
                heard.set()
                time.sleep(0.1)
            peer.send(answer(200, asked.target.encode()))

    async def cancel(http):
        limits = TimeLimits(GUARD_SECONDS, GUARD_SECONDS)
        await http.connections.request("GET", "/first", limits=limits)
        slow = asyncio.create_task(http.connections.request("GET", "/slow", limits=limits, repeatable=True))
        await asyncio.to_thread(heard.wait, GUARD_SECONDS)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        await asyncio.sleep(0.2)
        return (await http.connections.request("GET", "/next", limits=limits)).content

    with face_of(loop) as connect, scripted(script) as server:
        assert connect.runner.run(cancel(connect(server.url))) == b"/next"
        assert [(asked.target, asked.connection) for asked in server.heard] == [
            ("/first", 0),
            ("/slow", 0),
            ("/next", 1),
        ]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_requests_cancelled_at_any_moment_mix_up_no_answers(loop):
    def script(peer):
        while asked := peer.request():
            peer.send(answer(200, asked.target.encode()))

    async def ask(http, number):
        limits = TimeLimits(GUARD_SECONDS, GUARD_SECONDS)
        found = await http.connections.request("GET", f"/{number}", limits=limits)
        assert found.content == b"/%d" % number
        return True

    async def many(http):
        tasks = []
        for number in range(600):
            tasks.append(asyncio.create_task(ask(http, number)))
            if number % 3 == 0:
                asyncio.get_running_loop().call_later(number % 7 / 2000, tasks[-1].cancel)
            if number % 20 == 0:
                await asyncio.sleep(0.001)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [one for one in found if one is not True and not isinstance(one, asyncio.CancelledError)]

    with face_of(loop) as connect, scripted(script) as server:
        connect.runner.run(many(connect(server.url)))


def test_a_thread_interrupted_within_an_answer_leaves_none_to_the_next():
    class InterruptedForTestError(BaseException):
        pass

    def script(peer):
        while asked := peer.request():
            peer.send(answer(200, asked.target.encode()))

    def interrupt(*_arguments):
        raise InterruptedForTestError

    with face_of("sync") as connect, scripted(script) as server:
        http = connect(server.url)
        http.request("GET", "/first")
        (connection,) = http.connections._stock._idle
        connection.reader.feed = interrupt
        with pytest.raises(InterruptedForTestError):
            http.request("GET", "/lost", repeatable=True)
        assert http.request("GET", "/next").content == b"/next"
        assert server.connections == 2


def test_thirty_two_threads_share_connections():
    def script(peer):
        while asked := peer.request():
            peer.send(answer(200, asked.target.encode()))

    def ask(number):
        return all(http.request("GET", f"/{number}/{turn}").content == b"/%d/%d" % (number, turn) for turn in range(50))

    with face_of("sync") as connect, scripted(script) as server:
        http = connect(server.url)
        with ThreadPoolExecutor(32) as threads:
            assert all(threads.map(ask, range(32)))
        assert server.connections <= 32
        assert len(server.heard) == 32 * 50


def test_a_forked_process_uses_connections_of_its_own():
    def script(peer):
        while asked := peer.request():
            peer.send(answer(200, asked.target.encode()))

    with face_of("sync") as connect, scripted(script) as server:
        http = connect(server.url)
        http.request("GET", "/before")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of forks in processes with threads
            child = os.fork()
        if child == 0:
            try:
                fine = http.request("GET", "/child").content == b"/child"
                os._exit(0 if fine else 1)
            finally:
                os._exit(2)
        assert http.request("GET", "/parent").content == b"/parent"
        wait_until(lambda: os.waitpid(child, os.WNOHANG) == (child, 0))
        assert http.request("GET", "/after").content == b"/after"
        used = {asked.target: asked.connection for asked in server.heard}
    assert used == {"/before": 0, "/parent": 0, "/child": 1, "/after": 0}


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_another_event_loop_gets_connections_of_its_own(loop):
    with scripted(answering(OK)) as server:
        with face_of(loop) as connect:
            http = connect(server.url)
            assert http.request().status == 200
            http.close = lambda: None
        with face_of(loop) as connect:
            http._runner = connect.runner
            assert http.request().status == 200
            connect.runner.run(http.connections.aclose())
        assert server.connections == 2
        gc.collect()


def test_a_closed_client_says_so(connect):
    with scripted(answering(OK)) as server:
        http = connect(server.url)
        http.request()
        http.close()
        with pytest.raises(RuntimeError, match="closed"):
            http.request()


def test_a_signal_while_waiting_is_not_taken_for_an_answer():
    """Python repeats system calls that signals interrupt."""

    def script(peer):
        peer.request()
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.05)
        peer.send(OK)

    before = signal.signal(signal.SIGUSR1, lambda *_arguments: None)
    try:
        with face_of("sync") as connect, scripted(script) as server:
            assert connect(server.url).request().content == b"ok"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_every_error_says_whether_the_request_was_sent():
    kinds = {kind: kind.never_sent for kind in (ExchangeError, NotConnectedError, ConnectTimeoutError, NotHttpError)}
    assert [kind for kind, never in kinds.items() if never] == [NotConnectedError, ConnectTimeoutError]
