"""Following the logs of all runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import pytest

from rota.api.streams import log_tail
from rota.api.streams.log_tail import LogTail
from rota.store.logs.blocks import LogFilter
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.shell import ShellRunner
from support import eventually, in_time


@pytest.fixture
def shell():
    return {"shell": ShellRunner(Subprocesses(), grace_seconds=0.3)}


def tail_of(engine, owner=None, after=None):
    services = engine.api.services
    return LogTail(services.logs, services.log_blocks, "default", LogFilter(owner=owner), after)


async def say(engine, *words, **fields):
    command = "; ".join(f"echo {word}" for word in words)
    return await engine.submit(task="shell", payload={"command": command}, maxRetries=0, **fields)


async def look(tail, seen):
    chunks = await tail.look(datetime.now(UTC))
    seen += [line.split(" ", 2)[2] for _, row in chunks for line in row["body"].splitlines()]
    return chunks


async def test_every_line_of_every_run_is_seen_once(engine, shell):
    tail, seen = tail_of(engine), []
    await look(tail, seen)
    async with engine.running(engine.worker(runners=shell)):
        runs = [await say(engine, f"a{number}", f"b{number}") for number in range(10)]
        for run_id in runs:
            await engine.until(run_id, "success")
        await look(tail, seen)
        await look(tail, seen)
    assert sorted(seen) == sorted(f"{letter}{number}" for letter in "ab" for number in range(10))


async def test_no_run_is_passed_over_because_of_newer_ones(engine, shell, monkeypatch):
    monkeypatch.setattr(log_tail, "_MOST_RUNS", 3)
    monkeypatch.setattr(log_tail, "_MOST_REMEMBERED", 60)
    async with engine.running(engine.worker(runners=shell)):
        for number in range(4):
            await engine.until(await say(engine, f"before{number}"), "success")
        tail, seen = tail_of(engine), []
        await look(tail, seen)
        for number in range(8):
            await engine.until(await say(engine, f"a{number}"), "success")
        for _ in range(5):  # the pages of twelve runs
            await look(tail, seen)
    assert sorted(seen) == [f"a{number}" for number in range(8)]


async def test_what_was_written_before_is_not_shown(engine, shell, tmp_path):
    go_on = tmp_path / "go"
    command = f"echo before; until [ -e {go_on} ]; do sleep 0.05; done; echo after"
    async with engine.running(engine.worker(runners=shell)):
        run_id = await engine.submit(task="shell", payload={"command": command})
        await eventually(lambda: _has_log(engine, run_id))
        tail, seen = tail_of(engine), []
        await look(tail, seen)
        go_on.touch()
        await engine.until(run_id, "success")
        await look(tail, seen)
    assert seen == ["after"]


async def _has_log(engine, run_id):
    return "before" in (await engine.api.get(f"/v1/runs/{run_id}/logs")).text


async def test_one_who_was_cut_off_continues_where_they_were(engine, shell):
    first, seen = tail_of(engine), []
    await look(first, seen)
    async with engine.running(engine.worker(runners=shell)):
        await engine.until(await say(engine, "one"), "success")
        position = (await look(first, seen))[-1][1]["position"]
        await engine.until(await say(engine, "two"), "success")
        await look(tail_of(engine, after=position), seen)
    assert seen == ["one", "two"]


async def test_positions_in_the_stream_only_grow_in_whatever_order_runs_have_their_turns(engine, monkeypatch):
    looks = []

    async def look(_tail, _now):
        looks.append(1)
        return [
            (UUID(int=number), {"attempt": 1, "body": "2030-01-01T00:00:00.000Z stdout x\n", "position": number})
            for number in (5, 3, 7)
        ]

    monkeypatch.setattr(LogTail, "look", look)
    following = asyncio.create_task(engine.api.get("/v1/logs", params={"follow": "true"}))
    await eventually(lambda: len(looks) > 1)  # what the first one found has been sent
    engine.api.services.release_waiters()
    text = (await in_time(following)).text
    positions = [int(line.removeprefix("id: ")) for line in text.splitlines() if line.startswith("id: ")]
    assert positions[:3] == [5, 5, 7]
    assert positions == sorted(positions)


async def test_runs_of_other_owners_stay_out_of_sight(engine, shell):
    tail, seen = tail_of(engine, owner="nobody"), []
    await look(tail, seen)
    async with engine.running(engine.worker(runners=shell)):
        await engine.until(await say(engine, "secret"), "success")
        await look(tail, seen)
    assert seen == []


@pytest.mark.parametrize("other", ["search=x", "limit=5", "cursor=x", "startTime=2030-01-01T00:00:00Z"])
async def test_following_takes_no_other_parameters(engine, other):
    answer = await engine.api.get(f"/v1/logs?follow=true&{other}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == other.partition("=")[0]
