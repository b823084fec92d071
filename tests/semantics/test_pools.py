"""Pools: paused, shared by weight, and bounded in what may wait."""

from __future__ import annotations

import pytest

from engine import report
from rota.broker.pool_shares import PoolShares
from rota.domain.fleet import WorkerProfile
from rota.domain.limits import Limits
from support import eventually, job


async def test_nothing_is_started_from_a_paused_pool_until_it_is_resumed(engine):
    worker = engine.worker(pools=("default", "mail"))
    async with engine.running(await engine.leading(), worker):
        answer = await engine.api.post("/v1/pools/mail/pause")
        assert answer.json()["status"] == "paused"

        await eventually(lambda: worker._broker._paused)
        held = await engine.submit(pool="mail")
        assert (await engine.until(await engine.submit(), "success"))["status"] == "success"
        run = await engine.run(held)
        assert (run["status"], run["waitingFor"]) == ("queued", "pool mail is paused")
        await engine.api.post("/v1/pools/mail/resume")
        await engine.until(held, "success")


async def test_a_worker_that_joins_knows_what_is_paused(engine):
    await engine.api.post("/v1/pools/default/pause")
    await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    assert await broker.claim(10) == []


async def test_pools_are_listed_with_who_serves_them(engine):
    await engine.join(engine.broker(), slots=7, pools=("mail",))
    await engine.api.post("/v1/pools/reports/pause")
    await engine.api.put("/v1/pools/mail", json={"mostWaiting": 5})
    items = (await engine.api.get("/v1/pools")).json()["items"]
    shown = [(item["pool"], item["status"], item["workers"], item["slots"], item["mostWaiting"]) for item in items]
    assert shown == [("mail", "open", 1, 7, 5), ("reports", "paused", 0, 0, None)]
    events = (await engine.api.get("/v1/events?kind=pool.")).json()["items"]
    assert [(event["event"], event["subject"]) for event in events] == [("pool.paused", "reports")]


async def claimed_by_pool(engine, weights, room, counts):
    broker = engine.broker()
    pools = tuple(weights)
    await broker.join(WorkerProfile("test", 1, ("default",), pools, ("rota.echo",), 100, tuple(weights.values())))
    for pool, count in counts.items():
        await engine.api.post("/v1/jobs/batch", json=[job(pool=pool) for _ in range(count)])
    claims = await broker.claim(room)
    held = {pool: broker._shares._held[pool] for pool in pools}
    return broker, claims, held


async def test_pools_of_a_worker_share_its_room_by_weight(engine):
    _, claims, held = await claimed_by_pool(engine, {"mail": 3, "reports": 1}, 20, {"mail": 50, "reports": 50})
    assert len(claims) == 20
    assert held == {"mail": 15, "reports": 5}


async def test_what_one_pool_leaves_goes_to_the_others(engine):
    _, claims, held = await claimed_by_pool(engine, {"mail": 3, "reports": 1}, 20, {"mail": 2, "reports": 50})
    assert len(claims) == 20
    assert held == {"mail": 2, "reports": 18}


async def test_a_pool_that_was_behind_goes_first_when_it_has_work_again(engine):
    broker, claims, _ = await claimed_by_pool(engine, {"mail": 1, "reports": 1}, 10, {"reports": 30})
    await engine.api.post("/v1/jobs/batch", json=[job(pool="mail") for _ in range(30)])
    await broker.report([report(claim) for claim in claims[:4]])
    await broker.claim(4)
    assert broker._shares._held == {"mail": 4, "reports": 6}


@pytest.mark.parametrize("room", [0, 1, 7, 100])
def test_shares_never_give_more_than_the_room(room):
    shares = PoolShares({"a": 5, "b": 1, "c": 1})
    shares.took("a", range(40))
    parts = shares.split(room)
    assert sum(part for _, part in parts) <= room
    assert all(part >= 0 for _, part in parts)
    shares.gave(range(1000))
    assert dict(shares.split(70)) == {"a": 50, "b": 10, "c": 10}


# Backpressure


async def test_a_pool_takes_no_more_than_may_wait_in_it(engine):
    await engine.api.put("/v1/pools/mail", json={"mostWaiting": 3})
    await engine.api.services.gateway.backlog.tick()
    for _ in range(3):
        await engine.submit(pool="mail")
    refused = await engine.api.post("/v1/jobs", json=job(pool="mail"))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "5"
    assert refused.json()["detail"] == "backlog limit reached: 3 runs wait in pool 'mail'"
    await engine.submit()
    broker = engine.broker()
    await engine.join(broker, pools=("mail",))
    await broker.claim(2)
    await engine.api.services.gateway.backlog.tick()
    await engine.submit(pool="mail")


async def test_an_owner_has_no_more_waiting_than_it_may(engine):
    services = engine.api.services
    services.gateway.limits._defaults = Limits(most_waiting=2)
    await services.gateway.backlog.tick()
    results = (await engine.api.post("/v1/jobs/batch", json=[job(orderingKey="a") for _ in range(4)])).json()["results"]
    assert [result.get("error", {}).get("status") for result in results] == [None, None, 429, 429]
    await services.gateway.backlog.tick()
    assert (await engine.api.post("/v1/jobs", json=job())).status_code == 429
    later = job(scheduleType="future", scheduleTime="2090-01-01T00:00:00Z")
    assert (await engine.api.post("/v1/jobs", json=later)).status_code == 201, "what comes later does not wait yet"


async def test_without_caps_nothing_is_counted(engine):
    backlog = engine.api.services.gateway.backlog
    await backlog.tick()
    assert backlog.refuse([]) == {}
    assert backlog._counts == [{}, {}, {}]
