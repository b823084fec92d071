"""Following the logs of the runs that a filter lets through."""

from __future__ import annotations

import asyncio
import json

import pytest
from log_writing import plain, write

from rota.api.streams.log_tail import LogTail
from support import eventually, in_time


@pytest.fixture
async def looking(monkeypatch):
    """How often followers have looked."""
    looks = []
    look = LogTail.look

    async def counted(self, now):
        found = await look(self, now)
        looks.append(len(found))
        return found

    monkeypatch.setattr(LogTail, "look", counted)
    return looks


async def followed(engine, looks, query, write_lines, client=None):
    """The lines that one sees who follows while others write."""
    following = asyncio.create_task((client or engine.api).get("/v1/logs", params={"follow": "true", **query}))
    await eventually(lambda: looks)
    await write_lines()
    looks.clear()
    await eventually(lambda: len(looks) > 2)
    engine.api.services.release_waiters()
    text = (await in_time(following)).text
    return [json.loads(line.removeprefix("data: "))["text"] for line in text.splitlines() if line.startswith("data: ")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"task": "one"}, ["of one", "ERROR of one"]),
        ({"task": "one", "level": "error"}, ["ERROR of one"]),
        ({"stream": "stdout"}, ["of one", "of other"]),
        ({"tag": "red"}, ["of other"]),
        ({"pool": "far"}, ["of other"]),
        ({"task": "none"}, []),
    ],
)
async def test_only_lines_that_were_asked_for_are_sent(engine, looking, query, expected):
    async def write_lines():
        one = plain(await engine.submit(task="one"))
        other = plain(await engine.submit(task="other", pool="far", tags=["red"]))
        await write(engine, one, "of one", last=False)
        await write(engine, one, "ERROR of one", stream="log", number=1)
        await write(engine, other, "of other")

    assert sorted(await followed(engine, looking, query, write_lines)) == sorted(expected)


async def test_an_owner_follows_their_own_runs_whatever_they_ask_for(engine, looking, somebody):
    alice, bob = await somebody("submitter", owner="alice"), await somebody("submitter", owner="bob")

    async def write_lines():
        for owner, client in (("alice", alice), ("bob", bob)):
            answer = await client.post("/v1/jobs", json={"name": "x", "scheduleType": "immediate", "task": "t"})
            await write(engine, plain(answer.json()["runId"]), f"of {owner}")

    assert await followed(engine, looking, {"task": "t"}, write_lines, alice) == ["of alice"]


@pytest.mark.parametrize("query", [{"level": "loud"}, {"stream": "x"}, {"task": ""}, {"runId": "x"}, {"context": "1"}])
async def test_wrong_filters_are_refused(engine, query):
    answer = await engine.api.get("/v1/logs", params={"follow": "true", **query})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == next(iter(query))
