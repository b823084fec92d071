"""Requests are refused before they fill the memory, and what they held is given back however they end."""

from __future__ import annotations

import asyncio

import pytest

from rota.api.http.body_budget import BodyBudget
from rota.errors import OverloadedError
from support import job


def test_what_is_held_is_counted_and_given_back():
    budget = BodyBudget(100)
    with budget.hold("one") as first:
        first.grow_to(60)
        first.grow_to(50)
        with budget.hold("another") as second:
            with pytest.raises(OverloadedError):
                second.grow_to(41)
            second.grow_to(40)
            assert budget.held == 100
        assert budget.held == 60
    assert budget.held == 0


def test_one_request_alone_is_never_refused():
    budget = BodyBudget(100)
    with budget.hold() as hold:
        hold.grow_to(80)
        hold.grow_to(1000)
        assert budget.held == 1000
    assert budget.held == 0


async def test_a_body_beside_too_many_others_is_refused_with_the_time_to_wait(api):
    api.services.body_budget.most_bytes = 1000
    with api.services.body_budget.hold() as others:
        others.grow_to(990)
        for content in (b"x" * 200, chunks(b"x" * 200)):
            refused = await api.post("/v1/jobs", content=content)
            assert (refused.status_code, refused.json()["title"]) == (503, "Overloaded")
            assert int(refused.headers["retry-after"]) >= 1
    assert (await api.post("/v1/jobs", json=job())).status_code == 201
    assert api.services.body_budget.held == 0


async def test_nothing_stays_held_after_requests_that_fail(api):
    for content in (b"no json", b'{"name": 1}', chunks(b"[]"), b"x" * 2_000_000):
        assert (await api.post("/v1/jobs", content=content)).status_code == 400
    assert api.services.body_budget.held == 0


async def test_the_same_key_many_times_in_one_batch_makes_one_job(api, sql):
    items = [job(idempotencyKey=f"key-{number % 3}") for number in range(30)]
    answers = await asyncio.gather(*(api.post("/v1/jobs/batch", json=items) for _ in range(3)))
    ids = [{result["jobId"] for result in answer.json()["results"]} for answer in answers]
    assert len(ids[0]) == 3
    assert ids[0] == ids[1] == ids[2]
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 3


async def test_a_batch_larger_than_a_write_is_answered_in_order(api, sql):
    items = [job(name=f"job {number}") for number in range(2500)]
    results = (await api.post("/v1/jobs/batch", json=items)).json()["results"]
    names = dict(await sql.fetch("SELECT replace(id::text, '-', ''), name FROM rota.live_runs"))
    assert [names[result["runId"][4:]] for result in results] == [item["name"] for item in items]


async def chunks(data: bytes):
    for first in range(0, len(data), 50):
        yield data[first : first + 50]
