"""Waiting for a run: answered when it has ended, at one look for everybody."""

from __future__ import annotations

import asyncio

import pytest

from engine import plain
from rota.errors import OverloadedError
from support import eventually, in_time


@pytest.fixture
def looks(database, monkeypatch):
    """How many runs each look asked for."""
    seen = []
    fetch = database.fetch

    async def counted(name, /, **options):
        if name == "ended_runs":
            seen.append(len(options["run_ids"]))
        return await fetch(name, **options)

    monkeypatch.setattr(database, "fetch", counted)
    return seen


async def test_a_run_that_ends_is_answered_at_once(engine):
    run_id = await engine.submit()
    waiting = asyncio.create_task(engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60}))
    await eventually(lambda: engine.api.services.run_ends.waiting)
    async with engine.running(engine.worker()):
        await engine.until(run_id, "success")
        answer = await in_time(waiting, 2)
    assert answer.json()["status"] == "success"


async def test_a_run_that_has_ended_is_not_waited_for(engine, looks):
    run_id = await engine.submit()
    await engine.api.post(f"/v1/runs/{run_id}/cancel")
    answer = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 30})
    assert answer.json()["status"] == "cancelled"
    assert looks == []


async def test_when_the_time_is_over_the_run_is_given_as_it_is(engine):
    run_id = await engine.submit()
    answer = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": "0.1"})
    assert answer.status_code == 200
    assert answer.json()["status"] == "queued"
    assert engine.api.services.run_ends.waiting == 0


async def test_many_who_wait_cost_one_statement_per_look(engine, looks):
    runs = [await engine.submit() for _ in range(5)]
    waiting = [
        asyncio.create_task(engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 30}))
        for run_id in runs
        for _ in range(10)
    ]
    await eventually(lambda: engine.api.services.run_ends.waiting == 50)
    looks.clear()
    await eventually(lambda: len(looks) >= 5)
    assert set(looks) == {5}, "each look asks for all runs, and for each of them once"
    for run_id in runs:
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
    answers = await asyncio.gather(*waiting)
    assert {answer.json()["status"] for answer in answers} == {"cancelled"}


async def test_nobody_waiting_costs_nothing(engine, looks):
    run_id = await engine.submit()
    await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": "0.1"})
    await eventually(lambda: not engine.api.services.run_ends.waiting)
    settled = await eventually(lambda: len(looks))
    with pytest.raises(AssertionError):
        await eventually(lambda: len(looks) > settled + 1, within=0.3)


async def test_one_too_many_is_told_to_come_back(engine):
    run_id = await engine.submit()
    ends = engine.api.services.run_ends
    ends.shares.most = 1
    waiting = asyncio.create_task(ends.wait("default", plain(run_id), 30, "admin"))
    await eventually(lambda: ends.waiting)
    answer = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 5})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    with pytest.raises(OverloadedError):
        await ends.wait("default", plain(run_id), 30, "admin")
    waiting.cancel()


async def test_a_tenant_takes_all_places_until_another_needs_one(engine):
    """The newcomer gets a place of the namespace that has most, and there of the owner who has most."""
    run_id = plain(await engine.submit())
    ends = engine.api.services.run_ends
    ends.shares.most = 6
    waits = []

    async def wait(namespace, holder):
        task = asyncio.create_task(ends.wait(namespace, run_id, 3600, holder))
        before = sum(one.done() for one in waits)
        for _ in range(10):
            await asyncio.sleep(0)  # until it waits, and one that had to go has gone
        waits.append(task)
        assert ends.waiting <= 6
        return [number for number, one in enumerate(waits) if one.done()][before:]

    for holder in ("x", "x", "x", "x", "y", "y"):
        assert await wait("greedy", holder) == []
    with pytest.raises(OverloadedError):
        ends.check_room("greedy", "x")
    displaced = [await wait("modest", "m") for _ in range(3)]
    assert displaced[:2] == [[0], [1]], "those of x, who has most, the longest first"
    assert len(displaced[2]) == 1, "then x and y have as many"
    with pytest.raises(OverloadedError):
        ends.check_room("modest", "m")
    assert await wait("modest", "n") == [6], "an owner without a place gets one of their own namespace"
    assert await wait("third", "t") != []
    assert ends.waiting == 6
    for task in waits:
        task.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    assert (ends.waiting, ends.shares.taken) == (0, 0)


async def test_a_wait_that_makes_room_is_answered_with_the_run_as_it_is(engine, somebody):
    run_id = await engine.submit()
    ends = engine.api.services.run_ends
    ends.shares.most = 1
    waiting = asyncio.create_task(engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60}))
    await eventually(lambda: ends.waiting)
    newcomer = asyncio.create_task(ends.wait("another", plain(run_id), 60, "bob"))
    await asyncio.sleep(0)
    ends_early = await in_time(waiting)
    assert (ends_early.status_code, ends_early.json()["status"]) == (200, "queued")
    newcomer.cancel()


async def test_a_server_that_stops_lets_everybody_go(engine):
    run_id = await engine.submit()
    waiting = asyncio.create_task(engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60}))
    await eventually(lambda: engine.api.services.run_ends.waiting)
    engine.api.services.release_waiters()
    assert (await in_time(waiting)).json()["status"] == "queued"
    again = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60})
    assert again.json()["status"] == "queued"


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/events", "/v1/runs/{run_id}/logs", "/v1/jobs/{job_id}/logs"])
async def test_a_server_that_stops_ends_all_streams(engine, path):
    services = engine.api.services
    run_id = await engine.submit()
    address = path.format(run_id=run_id, job_id=run_id.replace("run_", "job_"))
    following = asyncio.create_task(engine.api.get(address, params={"follow": "true"}))
    tail = services.event_tail if path == "/v1/events" else services.tail
    await eventually(lambda: tail.shares.taken)
    services.release_waiters()
    answer = await in_time(following)
    assert answer.status_code == 200
    assert "event: end" not in answer.text  # clients reconnect


@pytest.mark.parametrize("text", ["-1", "61", "soon", "", "1e1", "60.5"])
async def test_a_wait_of_another_length_is_refused(engine, text):
    run_id = await engine.submit()
    answer = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": text})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "waitSeconds"
