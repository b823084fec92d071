"""Following logs, events and runs through lost connections and restarts."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest
from scripted import BEGIN, answer, chunk, scripted

from engine import plain
from listening import TOKEN, listening
from rota.client import AnswerError, AsyncClient, retries
from rota.store.logs import Logs
from support import GUARD_SECONDS, eventually, in_time, log_chunk

RUN = "run_" + "0" * 32


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses that a test can afford."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(retries, "REFUSED_SECONDS", 0.0)


def line(text, number=None):
    """A line of a log as the server sends it."""
    where = f"id: {number}\n" if number else ""
    data = f'{{"runId":"{RUN}","attempt":1,"time":"t","stream":"stdout","text":"{text}"}}'
    return f"event: line\n{where}data: {data}\n\n"


END = 'event: end\ndata: {"status":"success"}\n\n'


CUT = object()


@pytest.fixture
async def followed():
    """Clients that get these answers, each a whole one or the pieces of a stream; and the paths and positions asked."""
    async with AsyncExitStack() as stack:

        def make(*answers):
            coming = list(answers)

            def script(peer):
                while peer.request():
                    given = coming.pop(0)
                    if isinstance(given, bytes):
                        peer.send(given)
                        continue
                    peer.send(BEGIN)
                    for piece in given:
                        if piece is CUT:
                            return
                        peer.send(chunk(piece.encode()))
                    peer.send(chunk(b""))

            server = stack.enter_context(scripted(script))
            client = AsyncClient(server.url, "")
            stack.push_async_callback(client.aclose)
            return client, lambda: [(asked.path, asked.headers.get("last-event-id")) for asked in server.heard]

        yield make


async def collect(iterator, seen):
    """Gathers what comes, for others to see."""
    async for item in iterator:
        seen.append(item)


async def test_a_log_goes_on_after_a_cut_and_no_line_comes_twice(followed):
    client, sent = followed(
        [": following\n\n", line("a") + line("b", 7), line("c"), CUT],
        [CUT],
        answer(503, b'{"status": 503}'),
        [": following\n\n", line("c") + line("d", 9)[:20], line("c")[:0] + line("d", 9)[20:], line("e", 10)],
        [END],
    )
    async with client:
        assert [found.text async for found in client.follow_log(RUN)] == ["a", "b", "c", "d", "e"]
    path = f"/v1/runs/{RUN}/logs"
    assert sent() == [(path, None), (path, "7"), (path, "7"), (path, "7"), (path, "10")]


async def test_the_log_of_a_job_stays_with_the_run_it_began_with(followed):
    client, sent = followed([line("a", 1), CUT], [END])
    async with client:
        assert [found.text async for found in client.follow_job_log("job_1")] == ["a"]
    assert [path for path, _ in sent()] == ["/v1/jobs/job_1/logs", f"/v1/runs/{RUN}/logs"]


async def test_following_what_does_not_exist_is_refused(client):
    with pytest.raises(AnswerError) as refused:
        await anext(client.follow_log(RUN))
    assert refused.value.status == 404


async def test_a_server_that_stays_away_is_given_up(followed, monkeypatch):
    monkeypatch.setattr(retries.Patience.__init__, "__defaults__", (0.2,))
    client, _ = followed(*[[CUT]] * 1000)
    async with client:
        with pytest.raises(retries.ServerUnreachableError):
            await anext(client.follow_log(RUN))


async def test_a_log_is_followed_live_until_its_run_ends(client, engine):
    run_id = await engine.submit()
    logs = Logs(engine.database)
    seen = []

    following = asyncio.create_task(collect(client.follow_log(run_id), seen))
    for number, text in enumerate(("one", "two")):
        body = f"2026-01-01T00:00:00.000Z stdout {text}\n"
        await logs.add([log_chunk(plain(run_id), body, number=number)])
        await eventually(lambda count=number + 1: len(seen) == count)
    await engine.api.post(f"/v1/runs/{run_id}/cancel")
    await in_time(following)
    assert [found.text for found in seen] == ["one", "two"]


async def test_events_are_followed_through_a_restart_of_the_server(api):
    seen = []
    tail = api.services.event_tail
    async with listening(api.services) as server:
        client = AsyncClient(server.url, TOKEN)
        following = asyncio.create_task(collect(client.follow_events(), seen))
        await eventually(lambda: tail._begun)
        await api.post("/v1/pools/first/pause")
        await eventually(lambda: seen)
    await eventually(lambda: not tail._followers)
    await api.post("/v1/pools/meanwhile/pause")
    async with listening(api.services, server.port):
        await eventually(lambda: len(seen) == 2)
        await api.post("/v1/pools/last/pause")
        await eventually(lambda: len(seen) == 3)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.aclose()
    assert [event.subject for event in seen] == ["first", "meanwhile", "last"]


async def test_who_was_cut_off_before_the_first_event_misses_none(followed):
    data = '{"eventId":6,"time":"2026-01-01T00:00:00Z","event":"e","subject":"s","detail":null}'
    event = f"event: event\nid: 6\ndata: {data}\n\n"
    client, sent = followed([": following\n\n", "id: 5\n\n", CUT], [event])
    async with client:
        assert (await anext(client.follow_events())).event_id == 6
    assert [after for _, after in sent()] == [None, "5"]


async def test_events_since_a_number_come_first_and_in_order(client, api):
    for number in range(5):
        await api.post(f"/v1/pools/p{number}/pause")
    events = client.follow_events(after=2)
    assert [(await anext(events)).subject for _ in range(3)] == ["p2", "p3", "p4"]
    await api.post("/v1/pools/p5/pause")
    assert (await anext(events)).subject == "p5"
    await events.aclose()


async def test_the_synchronous_client_follows_events(synchronous, api):
    seen = []

    def follow():
        for event in synchronous.follow_events(after=0):
            seen.append(event.subject)
            if event.subject == "last":
                return

    thread = threading.Thread(target=follow)
    thread.start()
    await api.post("/v1/pools/first/pause")
    await eventually(lambda: seen)
    await api.post("/v1/pools/last/pause")
    await asyncio.to_thread(thread.join, GUARD_SECONDS)
    assert seen == ["first", "last"]


async def test_nobody_waits_for_a_client_that_hung_up(server, api, engine):
    run_id = await engine.submit()
    ends = api.services.run_ends
    client = AsyncClient(server.url, TOKEN)
    waiting = asyncio.create_task(client.wait(run_id))
    await eventually(lambda: ends.waiting == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await client.aclose()
    await eventually(lambda: ends.waiting == 0)
