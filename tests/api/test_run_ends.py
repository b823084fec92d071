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
    ends.shares.most = 5
    waiting = asyncio.create_task(ends.wait("default", plain(run_id), 30, "admin"))
    await eventually(lambda: ends.waiting)
    answer = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 5})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "1 of your requests wait for runs" in answer.json()["detail"]
    waiting.cancel()


async def test_one_tenant_leaves_places_to_the_others(engine):
    run_id = plain(await engine.submit())
    ends = engine.api.services.run_ends
    ends.shares.most = 10

    async def wait(namespace, holder):
        return await ends.wait(namespace, run_id, 60, holder)

    waiting = [asyncio.create_task(wait("greedy", f"owner {number // 2}")) for number in range(5)]
    await eventually(lambda: ends.waiting == 5)
    for namespace, holder in (("greedy", "owner 0"), ("greedy", "another")):
        with pytest.raises(OverloadedError, match="wait for runs"):
            await wait(namespace, holder)
    waiting += [asyncio.create_task(wait("modest", f"owner {number // 2}")) for number in range(5)]
    await eventually(lambda: ends.waiting == 10)
    with pytest.raises(OverloadedError, match="on this server wait"):
        await wait("third", "owner")
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert ends.shares.taken == 0


async def test_a_server_that_stops_lets_everybody_go(engine):
    run_id = await engine.submit()
    waiting = asyncio.create_task(engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60}))
    await eventually(lambda: engine.api.services.run_ends.waiting)
    engine.api.services.release_waiters()
    assert (await in_time(waiting)).json()["status"] == "queued"
    again = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60})
    assert again.json()["status"] == "queued"


@pytest.mark.parametrize("text", ["-1", "61", "soon", "", "1e1", "60.5"])
async def test_a_wait_of_another_length_is_refused(engine, text):
    run_id = await engine.submit()
    answer = await engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": text})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "waitSeconds"
