"""The way to the server: TLS, proxies, and what people read when there is none."""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
import sys
from base64 import b64encode

import pytest
from scripted import OK, answer, answering, face_of, scripted

from certificates import Authority
from rota.client import AnswerError, AsyncClient, Client, ServerUnreachableError
from rota.client.http_messages import NotConnectedError
from rota.client.http_routes import find_route
from rota.errors import SetupError
from support import GUARD_SECONDS

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(params=["asyncio", "uvloop", "sync"])
def connect(request):
    """Makes connections of each face."""
    with face_of(request.param) as connect:
        yield connect


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch):
    """Only the proxies that a test names."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def authority(tmp_path):
    """Signs certificates."""
    return Authority(tmp_path)


@pytest.fixture
def tls(authority):
    """A server's certificate for this machine and for server.example."""
    files = authority.sign("server", "127.0.0.1", "::1", "localhost", "server.example")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    return context


def test_a_server_with_tls_is_reached_by_its_authority(connect, authority, tls):
    asked_for = []
    tls.sni_callback = lambda _socket, name, _context: asked_for.append(name)
    with scripted(answering(OK), tls=tls) as server:
        http = connect(server.url.replace("127.0.0.1", "localhost"), ca_file=authority.file)
        assert [http.request().content for _ in range(3)] == [b"ok"] * 3
        assert server.connections == 1
    assert asked_for == ["localhost"]


def test_large_bodies_go_through_tls(connect, authority, tls):
    large = bytes(5_000_000)

    def script(peer):
        while asked := peer.request():
            peer.send(answer(200, asked.content))

    with scripted(script, tls=tls) as server:
        http = connect(server.url, ca_file=authority.file)
        assert [http.request("POST", content=large).content == large for _ in range(2)] == [True, True]


def test_an_early_answer_comes_through_tls(connect, authority, tls):
    def script(peer):
        peer.request(content=False)
        peer.send(answer(413, b"too large"))
        peer.socket.settimeout(GUARD_SECONDS)
        while peer._more():
            pass

    with scripted(script, tls=tls) as server:
        assert connect(server.url, ca_file=authority.file).request("POST", content=bytes(50_000_000)).status == 413


def test_a_certificate_of_another_authority_is_not_trusted(connect, tls, tmp_path):
    other = Authority(tmp_path, "other")
    with scripted(answering(OK), tls=tls) as server:
        for trusted in (other.file, None):
            with pytest.raises(NotConnectedError, match="CERTIFICATE_VERIFY_FAILED") as lost:
                connect(server.url, ca_file=trusted).request()
            assert lost.value.never_sent


def test_a_certificate_for_another_host_is_not_trusted(connect, authority):
    files = authority.sign("elsewhere", "elsewhere.example")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    with (
        scripted(answering(OK), tls=context) as server,
        pytest.raises(NotConnectedError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        connect(server.url, ca_file=authority.file).request()


def test_a_file_without_certificates_is_refused(tmp_path):
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    for file in (nothing, tmp_path / "missing.pem"):
        with pytest.raises(SetupError, match="ROTA_CA_FILE"):
            Client("https://x", "", ca_file=file)


# Proxies.


def tunnelling(server_of_name, refuse=None):
    """A script: a proxy that connects to the real server, whatever name it is asked for."""

    def script(peer):
        peer.request()
        if refuse:
            peer.send(refuse)
            return
        with socket.create_connection(("127.0.0.1", server_of_name().port)) as beyond:
            peer.send(b"HTTP/1.1 200 Connection established\r\nProxy-Agent: x\r\n\r\n")
            _relay(peer.socket, beyond)

    return script


def _relay(one, other):
    while True:
        readable, _, _ = select.select([one, other], [], [], GUARD_SECONDS)
        for source in readable:
            data = source.recv(65536)
            if not data:
                return
            (other if source is one else one).sendall(data)


def test_plain_requests_name_the_server_to_the_proxy(connect, monkeypatch):
    with scripted(answering(OK)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:p%40ss@"))
        http = connect("http://server.example/base", {"Authorization": "Bearer t"})
        assert [http.request("GET", "/a", query={"b": 1}).content for _ in range(2)] == [b"ok"] * 2
        assert proxy.connections == 1
        asked = proxy.heard[0]
    assert (asked.target, asked.headers["host"]) == ("http://server.example/base/a?b=1", "server.example")
    assert asked.headers["proxy-authorization"] == f"Basic {b64encode(b'user:p@ss').decode()}"
    assert asked.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "all_proxy"])
def test_tls_goes_through_the_proxy_which_does_not_see_the_token(connect, monkeypatch, authority, tls, variable):
    with scripted(answering(OK), tls=tls) as server, scripted(tunnelling(lambda: server)) as proxy:
        monkeypatch.setenv(variable, proxy.url.replace("//", "//user:secret@"))
        http = connect("https://server.example", {"Authorization": "Bearer t"}, ca_file=authority.file)
        assert [http.request("GET", "/a").content for _ in range(2)] == [b"ok"] * 2
        (tunnel,) = proxy.heard
        assert [asked.target for asked in server.heard] == ["/a", "/a"]
        assert server.heard[0].headers["host"] == "server.example"
        assert "proxy-authorization" not in server.heard[0].headers
    assert (tunnel.method, tunnel.target, tunnel.headers["host"]) == ("CONNECT", *["server.example:443"] * 2)
    assert tunnel.headers["proxy-authorization"] == f"Basic {b64encode(b'user:secret').decode()}"
    assert "authorization" not in tunnel.headers


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 5\r\n\r\nno no", "answered with 407"),
        (b"\x05\xff", "no HTTP"),
        (b"HTTP/1.1 200 ", "not answered"),
    ],
    ids=repr,
)
def test_a_proxy_that_refuses_is_named_without_its_password(connect, monkeypatch, said, words):
    with scripted(tunnelling(lambda: None, refuse=said)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("//", "//user:secret@"))
        with pytest.raises(NotConnectedError, match=words) as lost:
            connect("https://server.example").request()
    assert lost.value.never_sent
    assert f"127.0.0.1:{proxy.port}" in str(lost.value)
    assert "secret" not in str(lost.value)
    assert "user" not in str(lost.value)


def test_a_proxy_that_is_not_there_is_named_without_its_password(connect, monkeypatch):
    for variable, url in (("http_proxy", "http://server.example"), ("https_proxy", "https://server.example")):
        monkeypatch.setenv(variable, "http://user:secret@127.0.0.1:1")
        with pytest.raises(NotConnectedError, match="Connection refused") as lost:
            connect(url).request()
        assert "127.0.0.1:1" in str(lost.value)
        assert "secret" not in str(lost.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_is_reached_without_a_proxy(monkeypatch, host):
    monkeypatch.setenv("ALL_PROXY", "http://proxy:1")
    assert find_route(f"http://{host}:7682", None).proxy is None


@pytest.mark.parametrize(
    ("exceptions", "has_proxy"),
    [("", True), ("*", False), ("server.example", False), (".example", False), ("other", True), ("example:9", True)],
)
def test_no_proxy_names_exceptions(monkeypatch, exceptions, has_proxy):
    monkeypatch.setenv("HTTP_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", exceptions)
    route = find_route("http://server.example:9000", None)
    assert (route.proxy is not None) is has_proxy
    assert (route.host, route.port) == (("proxy", 3128) if has_proxy else ("server.example", 9000))


@pytest.mark.parametrize(
    "proxy", ["socks5://user:secret@proxy:1080", "https://user:secret@proxy", "http://user:secret@proxy:x", "http://"]
)
def test_a_proxy_that_can_not_be_used_is_refused_at_once_without_its_password(monkeypatch, proxy):
    monkeypatch.setenv("all_proxy", proxy)
    for kind in (Client, AsyncClient):
        with pytest.raises(SetupError, match="HTTP_PROXY") as refused:
            kind("http://server.example", "")
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "authority", "host", "port"),
    [
        ("http://server", "server", "server", 80),
        ("https://server", "server", "server", 443),
        ("http://[2001:db8::1]", "[2001:db8::1]", "2001:db8::1", 80),
        ("http://[2001:db8::1]:7682", "[2001:db8::1]:7682", "2001:db8::1", 7682),
        ("http://bücher.example:1", "xn--bcher-kva.example:1", "xn--bcher-kva.example", 1),
    ],
)
def test_addresses_are_read(url, authority, host, port):
    route = find_route(url, None)
    assert (route.authority, route.host, route.port) == (authority, host, port)


# What people read.


def error_of(url, **options):
    """The error of the synchronous client, which is that of the asynchronous one."""
    with Client(url, "secret-token", retries=0, **options) as client, pytest.raises(ServerUnreachableError) as lost:
        client.workers()
    assert "secret-token" not in str(lost.value)
    return lost.value


def test_a_server_that_is_not_there_is_named():
    assert str(error_of("http://127.0.0.1:1")) == "no Rota server answers at http://127.0.0.1:1 (Connection refused)"
    assert "no Rota server answers at http://no-such.invalid" in str(error_of("http://no-such.invalid"))


def test_a_silent_server_is_named():
    with scripted(lambda peer: peer.request() and peer.gone()) as server:
        assert str(error_of(server.url, timeout=0.1)) == f"{server.url} did not answer in time (it said nothing)"


def test_an_untrusted_certificate_comes_with_advice(tls):
    with scripted(answering(OK), tls=tls) as server:
        error = error_of(server.url)
    assert error.advised
    assert "is not trusted" in str(error)
    assert "set ROTA_CA_FILE" in str(error)


def saying(data):
    """A script: says this to whatever it hears."""

    def script(peer):
        peer.socket.recv(65536)
        peer.send(data)

    return script


def test_a_server_without_tls_comes_with_advice():
    with scripted(saying(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) as server:
        error = error_of(server.url.replace("http:", "https:"))
    assert error.advised
    assert f"set ROTA_URL to {server.url}" in str(error)


@pytest.mark.parametrize("said", [b"\x15\x03\x01\x00\x02\x02\x46", b""], ids=["an alert", "nothing"])
def test_a_server_with_tls_asked_without_comes_with_advice(said):
    with scripted(saying(said)) as server:
        error = error_of(server.url)
    assert error.advised
    assert f"if it speaks TLS, set ROTA_URL to {server.url.replace('http:', 'https:')}" in str(error)


def test_both_faces_say_the_same_about_certificates(tls):
    look = (
        "import asyncio, sys, rota\n"
        "async def main():\n"
        "    async with rota.AsyncClient(sys.argv[1], '', retries=0) as client:\n"
        "        await client.workers()\n"
        "try: asyncio.run(main())\n"
        "except rota.RotaError as error: print(error)\n"
    )
    with scripted(answering(OK), tls=tls) as server:
        done = subprocess.run([sys.executable, "-c", look, server.url], check=True, capture_output=True, text=True)
        assert done.stdout.strip() == str(error_of(server.url))
        assert done.stderr == ""


def test_a_refusal_has_the_servers_words_and_a_pause():
    said = answer(429, b'{"status": 429, "detail": "slower"}', Retry_After="7")
    with (
        scripted(answering(said)) as server,
        Client(server.url, "", retries=0) as client,
        pytest.raises(AnswerError, match="slower") as refused,
    ):
        client.workers()
    assert refused.value.retry_after_seconds == 7
