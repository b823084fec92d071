"""Clients that take their time, send too much or read nothing: they are cut, and nobody else notices."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest
from raw import Seen, ask, build_echo, read_all, read_answers, say, served

from rota.api.http.connection import LEAST_CONNECTIONS, MOST_CONNECTIONS, OTHER_FILES, most_connections
from support import GUARD_SECONDS, eventually, in_time

REQUEST = b"GET /first HTTP/1.1\r\nHost: rota\r\n\r\n"
SLOWLORIS = 300
SHORT = 0.5


@pytest.fixture
async def seen():
    return Seen()


@pytest.fixture
def echo(seen):
    return build_echo(seen)


async def test_who_connects_and_says_nothing_is_cut(echo):
    async with served(echo, head_seconds=SHORT) as server:
        assert await say(server.port) == b""


async def test_half_a_head_is_waited_for_only_so_long(echo, seen):
    async with served(echo, head_seconds=SHORT) as server:
        (answer,) = await ask(server.port, b"GET / HTTP/1.1\r\nHost: ro")
    assert answer.status == 408
    assert seen.requests == []


async def test_a_head_that_dribbles_in_is_not_waited_for_either(echo):
    async with served(echo, head_seconds=SHORT) as server:
        (answer,) = await ask(server.port, *[b"GET / HTTP/1.1\r\n", *[b"X: a\r\n"] * 20], pause=SHORT / 10)
    assert answer.status == 408


async def test_the_head_of_a_further_request_has_a_limit_of_its_own(echo):
    async with served(echo, head_seconds=SHORT) as server:
        first, second = await ask(server.port, REQUEST, b"GET / HT", pause=SHORT / 5)
    assert (first.status, second.status) == (200, 408)


async def test_an_idle_connection_is_kept_for_longer_than_a_head_may_take(echo):
    async with served(echo, head_seconds=SHORT) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(REQUEST)
        (answer,) = read_answers(await reader.readuntil(b"nothing"))
        await asyncio.sleep(2 * SHORT)
        writer.write(REQUEST)
        (again,) = read_answers(await reader.readuntil(b"nothing"))
        assert (answer.status, again.status) == (200, 200)
        writer.close()


async def test_a_connection_that_stays_idle_is_closed(echo):
    async with served(echo, keep_alive_seconds=SHORT) as server:
        (answer,) = await ask(server.port, REQUEST)
        assert answer.status == 200


async def test_a_body_that_stops_coming_is_not_waited_for(echo, seen):
    async with served(echo, body_seconds=SHORT) as server:
        head = b"POST /first HTTP/1.1\r\nHost: rota\r\nContent-Length: 100\r\n\r\n"
        (answer,) = await ask(server.port, head + b"half")
    assert answer.status == 408
    assert seen.requests == []


async def test_a_body_that_dribbles_in_is_not_waited_for(echo):
    async with served(echo, body_seconds=SHORT) as server:
        head = b"POST /first HTTP/1.1\r\nHost: rota\r\nTransfer-Encoding: chunked\r\n\r\n"
        (answer,) = await ask(server.port, head, *[b"1\r\na\r\n"] * 20, pause=SHORT / 10)
    assert answer.status == 408


async def test_a_large_body_may_take_longer(echo):
    """It comes at ten times the rate that is asked for, over twice the time that a small one has."""
    async with served(echo, body_seconds=0.5, body_bytes_per_second=20_000) as server:
        head = b"POST /first HTTP/1.1\r\nHost: rota\r\nContent-Length: 200000\r\nConnection: close\r\n\r\n"
        (answer,) = await ask(server.port, head, *[b"x" * 10_000] * 20, pause=0.05)
    assert (answer.status, len(answer.body)) == (200, 200_000)


async def test_a_body_that_is_answered_already_is_not_read_for_ever(echo):
    async with served(echo, rest_seconds=SHORT) as server:
        head = b"POST /refuse HTTP/1.1\r\nHost: rota\r\nContent-Length: 1000000000\r\n\r\n"
        (answer,) = await ask(server.port, head, *[b"x" * 1000] * 20, pause=SHORT / 10)
    assert answer.status == 401


@pytest.mark.parametrize("path", [b"/large", b"/stream"])
async def test_a_client_that_does_not_take_its_answer_is_cut(echo, seen, path):
    async with served(echo, answer_seconds=SHORT) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(REQUEST.replace(b"/first", path))
        await eventually(lambda: not reader.at_eof() and reader._buffer)
        await eventually(lambda: len(server.keeper) == 0)
        await eventually(lambda: seen.streaming == 0)
        writer.close()


async def test_a_client_that_does_not_take_its_answer_is_cut_also_when_it_is_the_last(echo):
    async with served(echo, answer_seconds=SHORT) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(b"GET /large HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n")
        await eventually(lambda: len(server.keeper) == 1 and reader._buffer)
        await eventually(lambda: len(server.keeper) == 0)
        writer.close()


async def test_a_client_that_takes_its_answer_slowly_gets_all_of_it(echo):
    answer_seconds = 1.0
    async with served(echo, answer_seconds=answer_seconds) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=65536)
        began = time.monotonic()
        writer.write(b"GET /large HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n")
        data = await reader.read(65536)
        while piece := await reader.read(1_500_000):
            data += piece
            await asyncio.sleep(answer_seconds / 25)
        writer.close()
        (answer,) = read_answers(data)
        assert len(answer.body) == 30_000_000
        assert time.monotonic() - began > 2 * answer_seconds  # else the test shows nothing


async def test_a_stream_ends_with_its_connection_also_when_another_request_was_sent_ahead(echo, seen):
    async with served(echo) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(REQUEST.replace(b"/first", b"/stream") + REQUEST)
        await eventually(lambda: seen.streaming == 1)
        writer.transport.abort()
        await eventually(lambda: seen.streaming == 0)
        assert seen.requests == []


async def test_a_new_connection_takes_the_place_of_the_one_that_is_idle_for_longest(echo):
    async with served(echo, connections=5, head_seconds=60) as server:
        others = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
        await eventually(lambda: len(server.keeper) == 5)
        (answer,) = await ask(server.port, REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert answer.status == 200
        assert await in_time(read_all(others[0][0])) == b""
        assert [reader.at_eof() for reader, _ in others] == [True, False, False, False, False]
        for _, writer in others:
            writer.close()


async def test_who_never_sent_a_request_gives_way_before_who_did(echo):
    async with served(echo, connections=2, head_seconds=60) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(REQUEST)
        await reader.readuntil(b"nothing")
        stranger, line = await asyncio.open_connection("127.0.0.1", server.port)
        await eventually(lambda: len(server.keeper) == 2)
        assert (await ask(server.port, REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))[0].status == 200
        assert await in_time(read_all(stranger)) == b""
        writer.write(REQUEST)
        await reader.readuntil(b"nothing")
        for open_line in (writer, line):
            open_line.close()


async def test_half_a_head_does_not_keep_a_place(echo):
    async with served(echo, connections=5, head_seconds=60) as server:
        others = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
        for _, writer in others:
            writer.write(REQUEST[:-4])
        await asyncio.sleep(0.2)
        (answer,) = await ask(server.port, REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert answer.status == 200
        for _, writer in others:
            writer.close()


async def test_when_all_are_being_answered_a_new_one_is_told_to_come_back(echo, seen):
    async with served(echo, connections=3, being_refused=2) as server:
        others = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3)]
        for _, writer in others:
            writer.write(b"GET /wait HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n")
        await eventually(lambda: not server.keeper._strangers and len(server.keeper) == 3)
        (answer,) = await ask(server.port, REQUEST)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        beyond = await asyncio.gather(*(say(server.port, REQUEST) for _ in range(20)))
        assert {data[:12] for data in beyond} <= {b"HTTP/1.1 503", b""}
        seen.go_on.set()
        assert [read_answers(await read_all(reader))[0].body for reader, _ in others] == [b"waited"] * 3
        for _, writer in others:
            writer.close()


async def test_hundreds_that_dribble_do_not_keep_a_healthy_client_from_being_served(echo):
    async with served(echo, connections=SLOWLORIS * 2 // 3, head_seconds=30) as server:
        dribbling = [asyncio.create_task(_dribble(server.port)) for _ in range(SLOWLORIS)]
        await eventually(lambda: len(server.keeper) >= SLOWLORIS * 2 // 3)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=GUARD_SECONDS) as client:
            for _ in range(50):
                assert (await client.post("/first", content=b"hello")).text == "hello"
                await asyncio.sleep(0.01)
        for task in dribbling:
            task.cancel()
        await asyncio.gather(*dribbling, return_exceptions=True)


async def _dribble(port):
    """Comes back when it is cut, a second later."""
    while True:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"POST /first HTTP/1.1\r\n")
            while not writer.transport.is_closing():
                writer.write(b"X: a\r\n")
                await asyncio.sleep(0.2)
        finally:
            writer.close()
        await asyncio.sleep(1)


@pytest.mark.parametrize(
    ("files", "connections"),
    [(1024, 512), (20_000, MOST_CONNECTIONS), (600, 88), (256, LEAST_CONNECTIONS), (1_048_576, MOST_CONNECTIONS)],
)
def test_connections_leave_room_for_other_files(files, connections):
    assert most_connections(files) == connections
    assert connections <= max(LEAST_CONNECTIONS, files - OTHER_FILES)
