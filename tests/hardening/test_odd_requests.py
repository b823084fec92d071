"""Requests that are not what they should be: one answer each, and the connection ends where the next one is unsure."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from raw import Seen, ask, build_echo, read_answers, say, served

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOST = b"Host: rota\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server():
    """One for all, since none of the requests may change how the next one is read."""
    seen = Seen()
    async with served(build_echo(seen)) as server:
        server.seen = seen
        yield server


@pytest.fixture
def port(server):
    return server.port


@pytest.fixture
def seen(server):
    server.seen.requests.clear()
    server.seen.headers.clear()
    return server.seen


def post(headers: bytes, body: bytes = b"", *, version: bytes = b"1.1") -> bytes:
    return b"POST /first HTTP/" + version + b"\r\n" + HOST + headers + b"\r\n" + body


def get(headers: bytes = b"", *, path: bytes = b"/first", version: bytes = b"1.1") -> bytes:
    return b"GET " + path + b" HTTP/" + version + b"\r\n" + HOST + headers + b"\r\n"


UNREADABLE = [
    pytest.param(post(b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n"), 400, id="a length, and chunks"),
    pytest.param(post(CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n"), 400, id="chunks, and a length"),
    pytest.param(post(b"Content-Length: 5\r\nContent-Length: 6\r\n", b"abcdef"), 400, id="two lengths"),
    pytest.param(post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"abcde"), 400, id="the same length twice"),
    pytest.param(post(b"Content-Length: 5, 5\r\n", b"abcde"), 400, id="a list of lengths"),
    pytest.param(post(b"Content-Length: +5\r\n", b"abcde"), 400, id="a length with a sign"),
    pytest.param(post(b"Content-Length: -1\r\n"), 400, id="a negative length"),
    pytest.param(post(b"Content-Length: 0x5\r\n", b"abcde"), 400, id="a length in hexadecimal"),
    pytest.param(post(b"Content-Length: \r\n"), 400, id="an empty length"),
    pytest.param(post(b"Content-Length: 99999999999999999999999\r\n"), 400, id="a length beyond all"),
    pytest.param(post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"), 400, id="chunked is not last"),
    pytest.param(post(b"Transfer-Encoding: identity\r\n"), 400, id="identity"),
    pytest.param(post(b"Transfer-Encoding: gzip\r\n"), 400, id="gzip without chunks"),
    pytest.param(post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), 501, id="gzip in chunks"),
    pytest.param(post(b"Transfer-Encoding: identity, chunked\r\n", b"0\r\n\r\n"), 501, id="identity in chunks"),
    pytest.param(post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), 501, id="nearly chunked"),
    pytest.param(post(CHUNKED + CHUNKED, b"0\r\n\r\n"), 400, id="chunked twice"),
    pytest.param(post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"), 400, id="chunked behind a vertical tab"),
    pytest.param(post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), 400, id="a blank before the colon"),
    pytest.param(post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"), 400, id="chunked on the next line"),
    pytest.param(post(CHUNKED, b"0\r\n\r\n", version=b"1.0"), 400, id="chunks in HTTP/1.0"),
    pytest.param(get(b"X: a\r\n b\r\n"), 400, id="a folded header"),
    pytest.param(b"GET / HTTP/1.1\nHost: rota\n\n", 400, id="lines that end with LF alone"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: rota\nX: a\r\n\r\n", 400, id="one line that ends with LF alone"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: rota\rX: a\r\n\r\n", 400, id="one line that ends with CR alone"),
    pytest.param(get(b"X: a\0b\r\n"), 400, id="NUL in a header"),
    pytest.param(get(b"X: a\x01b\r\n"), 400, id="a control character in a header"),
    pytest.param(get(b"X: a\x7fb\r\n"), 400, id="DEL in a header"),
    pytest.param(get(b"X\0: a\r\n"), 400, id="NUL in a header's name"),
    pytest.param(get(b"X Y: a\r\n"), 400, id="a blank in a header's name"),
    pytest.param(get(b": a\r\n"), 400, id="a header without a name"),
    pytest.param(b"GET / HTTP/1.1\r\n X: a\r\nHost: rota\r\n\r\n", 400, id="a blank before the first header"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="no host"),
    pytest.param(get(b"Host: other\r\n"), 400, id="two hosts"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a/b@c\r\n\r\n", 400, id="a path for a host"),
    pytest.param(get(path=b"first"), 400, id="an address without a slash"),
    pytest.param(get(path=b"/a\x01b"), 400, id="a control character in the address"),
    pytest.param(get(path=b"/a\xffb"), 400, id="a byte above ASCII in the address"),
    pytest.param(get(path=b"ftp://rota/first"), 400, id="an address of another kind"),
    pytest.param(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="options of the whole server"),
    pytest.param(b"CONNECT /first HTTP/1.1\r\n" + HOST + b"\r\n", 501, id="a tunnel"),
    pytest.param(b"CONNECT rota:443 HTTP/1.1\r\n" + HOST + b"\r\n", 501, id="a tunnel to somewhere"),
    pytest.param(get(version=b"0.9"), 505, id="HTTP/0.9 that says so"),
    pytest.param(b"GET /first\r\n\r\n", 505, id="HTTP/0.9"),
    pytest.param(get(version=b"2.0"), 505, id="HTTP/2.0"),
    pytest.param(get(version=b"1.2"), 400, id="HTTP/1.2"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, id="the preface of HTTP/2"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 60, 400, id="a TLS handshake"),
    pytest.param(b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="a method in small letters"),
    pytest.param(b"FROB / HTTP/1.1\r\n" + HOST + b"\r\n", 400, id="an unknown method"),
    pytest.param(get(b"X: 1\r\n" * 101), 431, id="too many headers"),
    pytest.param(get(b"X: " + b"a" * 70_000 + b"\r\n"), 431, id="a header too long"),
    pytest.param(get(b"".join(b"X%d: %b\r\n" % (n, b"a" * 1000) for n in range(70))), 431, id="headers too long"),
    pytest.param(get(path=b"/" + b"a" * 17_000), 414, id="an address too long"),
]


@pytest.mark.parametrize(("request_bytes", "status"), UNREADABLE)
async def test_what_cannot_be_read_gets_one_answer_and_nothing_behind_it_is_read(port, seen, request_bytes, status):
    (answer,) = await ask(port, request_bytes + NEXT)
    assert answer.status == status
    assert answer.headers["connection"] == "close"
    assert answer.headers["content-type"] == "application/problem+json"
    assert seen.requests == []


BAD_CHUNKS = [
    pytest.param(b"fffffffffffffffff\r\nabc", id="a size beyond all"),
    pytest.param(b"0x3\r\nabc\r\n0\r\n\r\n", id="a size with 0x"),
    pytest.param(b"3 \r\nabc\r\n0\r\n\r\n", id="a blank behind the size"),
    pytest.param(b"-3\r\nabc\r\n0\r\n\r\n", id="a negative size"),
    pytest.param(b"3\nabc\r\n0\r\n\r\n", id="a line that ends with LF alone"),
    pytest.param(b"3\r\nabcd\r\n0\r\n\r\n", id="more than the size says"),
    pytest.param(b"3;a\nb\r\nabc\r\n0\r\n\r\n", id="LF in an extension"),
    pytest.param(b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n", id="a length among the trailers"),
    pytest.param(b"3\r\nabc\r\n0\r\nX Y: 5\r\n\r\n", id="a blank in a trailer's name"),
]


@pytest.mark.parametrize("body", BAD_CHUNKS)
async def test_a_body_that_breaks_off_in_nonsense_gets_one_answer(port, seen, body):
    (answer,) = await ask(port, post(CHUNKED), body + NEXT, pause=0.1)
    assert answer.status == 400
    assert seen.requests == []


async def test_nothing_is_added_to_an_answer_that_was_given_before_the_body_broke_off(port, seen):
    head = post(CHUNKED).replace(b"/first", b"/refuse")
    (answer,) = await ask(port, head, b"zzz\r\n" + NEXT, pause=0.3)
    assert (answer.status, answer.body) == (401, b"no")
    assert [path for _, path, _ in seen.requests] == ["/refuse"]


async def test_a_huge_chunk_is_refused_by_the_application_and_not_waited_for():
    head = post(CHUNKED).replace(b"/first", b"/refuse")
    async with served(build_echo(Seen()), rest_seconds=0.5) as server:
        (answer,) = await ask(server.port, head + b"ffffffffffffffff\r\nabc")
    assert answer.status == 401


async def test_padding_around_chunks_is_bounded(port, seen):
    padding = b"3;" + b"a" * 60_000
    (answer,) = await ask(port, post(CHUNKED), *[padding if number == 0 else b"a" * 60_000 for number in range(5)])
    assert answer.status == 431
    assert seen.requests == []


async def test_trailers_are_bounded(port, seen):
    pieces = [b"3\r\nabc\r\n0\r\nX: a", *[b"a" * 60_000] * 5]
    (answer,) = await ask(port, post(CHUNKED), *pieces, pause=0.02)
    assert answer.status == 431


async def test_half_a_header_is_bounded(port, seen):
    (answer,) = await ask(port, b"GET / HTTP/1.1\r\nX: ", *[b"a" * 30_000] * 20)
    assert answer.status == 431


async def test_chunks_with_extensions_and_trailers_are_read_and_trailers_are_not_headers(port, seen):
    body = b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    first, second = await ask(port, post(CHUNKED), body + NEXT, pause=0.1)
    assert (first.body, second.body) == (b"abcde", b"nothing")
    assert "authorization" not in seen.headers[0]


async def test_a_whole_address_is_understood_and_its_host_is_the_one_that_counts(port, seen):
    (answer,) = await ask(port, get(b"Connection: close\r\n", path=b"http://user@other:81/some?a=b"))
    assert answer.status == 200
    assert seen.requests == [("GET", "/some", b"")]
    assert seen.headers[0]["host"] == "other:81"


async def test_a_whole_address_without_a_path_is_that_of_the_root(port, seen):
    (answer,) = await ask(port, get(b"Connection: close\r\n", path=b"http://other"))
    assert (answer.status, seen.requests) == (200, [("GET", "/", b"")])


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


@pytest.mark.parametrize(
    ("first", "body"),
    [
        pytest.param(get(UPGRADE), b"nothing", id="without a body"),
        pytest.param(post(UPGRADE + b"Content-Length: 5\r\n", b"hello"), b"hello", id="with a length"),
        pytest.param(post(UPGRADE + CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"), b"hello", id="in chunks"),
        pytest.param(get(b"Connection: Upgrade\r\nUpgrade: websocket\r\n"), b"nothing", id="websocket"),
    ],
)
async def test_another_protocol_that_is_offered_is_ignored(port, seen, first, body):
    answers = await ask(port, first + NEXT)
    assert [(answer.status, answer.body) for answer in answers] == [(200, body), (200, b"nothing")]


async def test_many_offers_one_after_the_other_are_ignored(port, seen):
    assert len(await ask(port, get(UPGRADE) * 20 + NEXT)) == 21


async def test_a_body_is_asked_for_when_the_client_waits_to_be_asked(port, seen):
    head = post(b"Expect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n")
    go_on, answer = await ask(port, head, b"hello", pause=0.3)
    assert (go_on.status, answer.status, answer.body) == (100, 200, b"hello")


async def test_who_was_not_asked_for_the_body_cannot_send_it_as_a_request(port, seen):
    head = post(b"Expect: 100-continue\r\nContent-Length: 5\r\n").replace(b"/first", b"/refuse")
    (answer,) = await ask(port, head, NEXT, pause=0.3)
    assert answer.status == 401
    assert len(seen.requests) == 1


async def test_a_client_of_http_1_0_is_not_asked_to_go_on(port, seen):
    head = post(b"Expect: 100-continue\r\nContent-Length: 5\r\n", version=b"1.0")
    (answer,) = await ask(port, head, b"hello", pause=0.1)
    assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"hello", "close")


async def test_a_body_that_nobody_reads_is_not_taken_for_a_request(port, seen):
    body = b"GET /smuggled HTTP/1.1\r\nHost: rota\r\n\r\n"
    first = get(b"Content-Length: %d\r\n" % len(body), path=b"/refuse")
    answers = await ask(port, first, body + NEXT, pause=0.2)
    assert [answer.status for answer in answers] == [401, 200]
    assert [path for _, path, _ in seen.requests] == ["/refuse", "/next"]


async def test_requests_sent_ahead_are_answered_in_order(port, seen):
    answers = await ask(port, b"".join(get(path=b"/%d" % number) for number in range(20)) + NEXT)
    assert [answer.status for answer in answers] == [200] * 21
    assert [path for _, path, _ in seen.requests] == [*(f"/{number}" for number in range(20)), "/next"]


async def test_of_too_many_requests_sent_ahead_the_first_are_answered(port, seen):
    answers = await ask(port, get() * 500)
    assert 30 < len(answers) < 40
    assert {answer.status for answer in answers} == {200}
    assert len(seen.requests) == len(answers)


async def test_nonsense_behind_good_requests_does_not_spoil_their_answers(port, seen):
    answers = await ask(port, get() + get() + b"FROB\r\n\r\n" + NEXT)
    assert [answer.status for answer in answers] == [200, 200]
    assert len(seen.requests) == 2


async def test_a_request_sent_ahead_whose_body_is_nonsense_gets_no_answer_and_is_not_run(port, seen):
    answers = await ask(port, get() + post(CHUNKED, b"zzz\r\n") + NEXT)
    assert [answer.status for answer in answers] == [200]
    assert [method for method, _, _ in seen.requests] == ["GET"]


async def test_empty_lines_before_a_request_are_skipped(port, seen):
    (answer,) = await ask(port, b"\r\n\r\n" + NEXT)
    assert answer.status == 200


async def test_a_request_that_comes_byte_by_byte_is_a_request(port, seen):
    request = post(CHUNKED + b"Connection: close\r\n", b"5\r\nhello\r\n0\r\n\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(len(request)):
        writer.write(request[number : number + 1])
        await asyncio.sleep(0)
    (answer,) = read_answers(await reader.read())
    writer.close()
    assert answer.body == b"hello"


async def test_an_answer_tells_nothing_about_the_server(port, seen):
    for request in (NEXT, b"nonsense\r\n\r\n"):
        assert b"server:" not in (await say(port, request)).lower()
