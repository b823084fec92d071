"""The port of a worker's health: it answers, whoever else holds connections open."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request

import pytest

from rota.page_server import MOST_CONNECTIONS
from rota.worker.health import HealthServer, WorkerHealth
from support import GUARD_SECONDS, eventually, in_time


def make_server(seconds):
    return HealthServer("127.0.0.1", 0, lambda: WorkerHealth(well=True, status="live", detail=None), seconds=seconds)


@pytest.fixture
def seconds():
    return GUARD_SECONDS


@pytest.fixture
def server(seconds):
    server = make_server(seconds)
    server.start()
    yield server
    server.stop()


def ask(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
        return json.load(answer), answer.headers


def read_all(line):
    line.settimeout(60)
    data = b""
    try:
        while piece := line.recv(65536):
            data += piece
    except ConnectionError:
        pass
    return data


def test_it_answers_while_more_connections_than_it_has_are_held_open(server):
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MOST_CONNECTIONS * 3)]
    assert ask(server.port)[0] == {"status": "live"}
    for line in held:
        line.close()


async def test_a_probe_in_a_burst_is_not_left_to_the_kernels_retries():
    """The kernel takes as many connections as it may keep for the server; beyond that it lets a client try again."""
    server = make_server(GUARD_SECONDS)
    burst = [await in_time(asyncio.open_connection("127.0.0.1", server.port)) for _ in range(MOST_CONNECTIONS)]
    server.start()
    assert (await asyncio.to_thread(ask, server.port))[0] == {"status": "live"}
    server.stop()
    for _, writer in burst:
        writer.close()


async def test_there_are_only_so_many_threads(server):
    before = threading.active_count()
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MOST_CONNECTIONS * 4)]
    await eventually(lambda: len(server._server._open) == MOST_CONNECTIONS)
    await eventually(lambda: threading.active_count() <= before + MOST_CONNECTIONS)
    for line in held:
        line.close()


@pytest.mark.parametrize("seconds", [1.0])
def test_a_request_that_dribbles_in_is_cut(server):
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\n")
        stop = threading.Event()

        def dribble():
            while not stop.wait(0.1):
                try:
                    line.sendall(b"X: a\r\n")
                except OSError:
                    return

        dribbling = threading.Thread(target=dribble)
        dribbling.start()
        assert read_all(line) == b""
        stop.set()
        dribbling.join()


def test_it_tells_nothing_about_itself_and_guards_its_answers(server):
    _, headers = ask(server.port)
    assert headers["Server"] is None
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.0 400 "),
        (b"POST /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.0 501 "),
        (b"GET /" + b"a" * 70_000, b"HTTP/1.0 414 "),
    ],
)
def test_odd_requests_are_refused(server, request_bytes, answer):
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(request_bytes)
        line.shutdown(socket.SHUT_WR)
        said = read_all(line)
    assert said.startswith(answer)
    assert b"Server:" not in said
    assert ask(server.port)[0] == {"status": "live"}
