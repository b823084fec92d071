"""Runs of one ordering key start in their order, however they were submitted and whichever scheduler serves them."""

from __future__ import annotations

import pytest

from engine import plain, report
from gatekeeping import ids_of
from rota.gateway import group_commit
from support import eventually, job

LATER = {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"}


async def submit_batch(gates, jobs):
    answers = (await gates.engine.api.post("/v1/jobs/batch", json=jobs)).json()["results"]
    return [answer["runId"] for answer in answers]


async def started(gates, runs):
    """These runs in the order in which they start. Whatever starts has ended before the next round of admission."""
    seen = []
    while not set(runs) <= set(seen):
        claims = await gates.claim()
        assert claims, f"nothing starts any more after {seen}"
        seen += await ids_of(claims)
        await gates.broker.report([report(claim) for claim in claims])
    return [run_id for run_id in seen if run_id in runs]


@pytest.mark.parametrize(
    "between",
    [
        [LATER],
        [LATER, {}, {**LATER, "scheduleTime": "2091-01-01T00:00:00Z"}],
        [{"idempotencyKey": "a"}],
    ],
)
async def test_a_batch_keeps_the_order_of_a_key_whatever_stands_in_between(gates, between):
    others = [job(**fields) for fields in between]
    for number in range(8):  # the order of two random ids is right every other time
        mine = [job(orderingKey=f"k{number}"), *others, job(orderingKey=f"k{number}")]
        first, *_, second = await submit_batch(gates, mine)
        assert await started(gates, [first, second]) == [first, second]


@pytest.mark.parametrize("key", ["uniqueKey", "idempotencyKey"])
async def test_a_batch_keeps_the_order_where_one_item_has_a_key_and_the_next_has_none(gates, key):
    for number in range(5):
        keys = [{}, {key: f"a{number}"}, {}, {key: f"b{number}"}][number % 2 :]
        runs = await submit_batch(gates, [job(orderingKey="k", **fields) for fields in keys])
        assert await started(gates, runs) == runs


async def test_a_part_of_a_batch_does_not_overtake_one_that_waits(gates, monkeypatch):
    """Three parts: the second waits for the first because of key a, and the third must wait for the second."""
    monkeypatch.setattr(group_commit, "_MOST_PER_BATCH", 2)
    keys = ["a", "x", "a", "b", "b", "y"]
    runs = await submit_batch(gates, [job(orderingKey=key) for key in keys])
    seen = await started(gates, runs)
    for key in "ab":
        mine = [run_id for run_id, of_key in zip(runs, keys, strict=True) if of_key == key]
        assert [run_id for run_id in seen if run_id in mine] == mine


@pytest.mark.parametrize("second", ["for a time", "immediate"])
async def test_a_run_does_not_overtake_one_whose_shard_has_no_owner(gates, sql, second):
    """The first is due, and no scheduler promotes it; the shard of the second has an owner."""
    first = await gates.engine.submit(orderingKey="k", scheduleType="future", delaySeconds=3)
    fields = {"scheduleType": "future", "delaySeconds": 3.5} if second == "for a time" else {}
    later = await gates.engine.submit(orderingKey="k", **fields)
    await sql.execute(
        "UPDATE rota.upcoming_runs SET shard = 1, run_at = now() - interval '0.6 s' WHERE id = $1", plain(first)
    )
    await sql.execute(
        "UPDATE rota.upcoming_runs SET shard = 2, run_at = now() - interval '0.1 s' WHERE id = $1", plain(later)
    )
    await sql.execute("UPDATE rota.upcoming_runs SET nominal_at = run_at")
    await sql.execute("UPDATE rota.shard_leases SET epoch = epoch + 1 WHERE shard = 1")  # another took it, and died
    await gates.scheduler.promoter.tick()
    assert await gates.claim() == []
    assert (await gates.engine.run(later))["status"] == "blocked"
    await sql.execute("UPDATE rota.shard_leases SET epoch = epoch - 1 WHERE shard = 1")
    await gates.scheduler.promoter.tick()
    assert await started(gates, [first, later]) == [first, later]


async def test_a_run_goes_on_when_the_one_before_it_that_no_scheduler_promoted_is_cancelled(gates, sql):
    first = await gates.engine.submit(orderingKey="k", scheduleType="future", delaySeconds=3)
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now(), nominal_at = now()")
    later = await gates.engine.submit(orderingKey="k")
    assert await gates.claim() == []
    assert (await gates.engine.api.post(f"/v1/runs/{first}/cancel")).is_success

    assert await ids_of(await eventually(gates.claim)) == [later]


async def test_a_missed_time_that_the_misfire_rules_have_yet_to_judge_holds_up_no_other_run(gates, sql):
    await gates.engine.submit(orderingKey="k", scheduleType="future", delaySeconds=3)
    await sql.execute(
        "UPDATE rota.upcoming_runs SET cause = 'schedule', run_at = now() - interval '1 hour',"
        " nominal_at = now() - interval '1 hour'"
    )
    later = await gates.engine.submit(orderingKey="k")
    assert await ids_of(await gates.claim()) == [later]
