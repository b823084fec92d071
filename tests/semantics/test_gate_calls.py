"""Whoever waits at a gate is called when its turn comes, also where the usual call is lost."""

from __future__ import annotations

import asyncio

import pytest

from engine import plain, report
from gatekeeping import ids_of, time_of_schedule
from rota.domain.run import Outcome
from rota.store import admit
from rota.store.admit import overlooked
from support import eventually, in_time


async def fail(gates, claim):
    await gates.broker.report([report(claim, Outcome.failed, error="e")])


async def until_claimed(gates):
    """The next claims, looked for by the admitter as it would be: when something is due."""

    async def claimed():
        await gates.scheduler.leases.tick()
        await gates.admit()
        return await gates.broker.claim(10)

    return await ids_of(await eventually(claimed))


async def test_a_run_back_from_its_backoff_calls_an_earlier_one_that_came_meanwhile(gates, sql):
    """The earlier one was held because the other had the key; back in line, the other is second."""
    later = await gates.engine.submit(orderingKey="a", retry={"baseSeconds": 60})
    (claim,) = await gates.claim()
    await fail(gates, claim)
    earlier = await gates.engine.submit(orderingKey="a")
    await sql.execute("UPDATE rota.held_runs SET nominal_at = now() - interval '1 hour'")
    assert await gates.claim() == []
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now()")
    await gates.scheduler.promoter.tick()
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [earlier]
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [later]


async def test_a_round_that_began_before_a_run_was_due_does_not_forget_it(gates, monkeypatch):
    """The first scheduler's transaction begins, the second holds the run behind another, which ends; then the first
    one takes the note of that."""
    holder = await gates.engine.submit(orderingKey="a")
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [holder]
    second = await gates.engine.leading()
    await second.leases.tick()
    next_one = await gates.engine.submit(orderingKey="a", scheduleType="future", delaySeconds=0.4)
    began, goes_on = asyncio.Event(), asyncio.Event()
    take = admit.Gates.departures

    async def later(self, statements):
        if self is gates.scheduler.admitter._gates:
            await statements.time()
            began.set()
            await goes_on.wait()
        return await take(self, statements)

    monkeypatch.setattr(admit.Gates, "departures", later)
    gates.scheduler.admitter.wake()
    first_round = asyncio.create_task(gates.scheduler.admitter.tick())
    await in_time(began.wait())

    async def held_behind():
        # The second scheduler stands for the one that owns the run's shard.
        second.leases._owned = dict(gates.scheduler.leases.owned)
        second.admitter._gates._scheduler_id = gates.scheduler.id
        second.admitter.wake()
        await second.admitter.tick()
        return (await gates.engine.run(next_one)).get("waitingFor", "").startswith("behind")

    await eventually(held_behind)
    await gates.broker.report([report(claim)])
    goes_on.set()
    await in_time(first_round)
    assert await ids_of(await gates.claim()) == [next_one]


@pytest.mark.parametrize("attempt", [0, 1])
@pytest.mark.parametrize("fields", [{"orderingKey": "a"}, {"concurrencyKey": "c", "concurrencyLimit": 1}])
async def test_a_clock_that_goes_back_forgets_no_run_that_waits(gates, sql, fields, attempt):
    """Seen from the runs, a clock that goes back is the same as times that come later."""
    await gates.engine.submit(**fields)
    (claim,) = await gates.claim()
    waiting = await gates.engine.submit(**fields)
    await gates.admit()
    await sql.execute(
        "UPDATE rota.held_runs SET attempt = $1,"
        " run_at = now() + interval '0.5 s', nominal_at = now() + interval '0.5 s'",
        attempt,
    )
    await gates.broker.report([report(claim)])
    assert await until_claimed(gates) == [waiting]


# The second line of defence


async def in_line(gates, **fields):
    """A run that has passed a gate, and one that waits behind it."""
    await gates.engine.submit(**fields)
    (claim,) = await gates.claim()
    return claim, await gates.engine.submit(**fields)


async def lost_note(gates, sql, claim, **how):
    """The attempt ends, and the note of it is lost."""
    await gates.broker.report([report(claim, **how)])
    await sql.execute("DELETE FROM rota.departures")
    assert await gates.claim() == [], "the test needs a gate that nothing calls"


@pytest.mark.parametrize(
    "fields",
    [
        {"rateLimit": {"limit": 1, "perSeconds": 1, "burst": 1, "key": "r"}},
        {"breaker": {"failures": 1, "cooldownSeconds": 1, "key": "b"}, "maxRetries": 0},
    ],
    ids=["rate", "breaker"],
)
async def test_what_a_gate_remembers_of_a_clock_that_went_back_keeps_no_old_run(gates, sql, fields):
    """Seen from the gate, a clock that goes back is the same as moments that lie an hour later."""
    claim, waiting = await in_line(gates, **fields)
    if "breaker" in fields:
        await gates.broker.report([report(claim, Outcome.failed, error="it failed")])
    await gates.admit()
    await sql.execute(
        """UPDATE rota.gates SET counted_at = counted_at + interval '1 hour', wakes_at = wakes_at + interval '1 hour',
                                 until = until + interval '1 hour', changed_at = changed_at + interval '1 hour'"""
    )
    assert await gates.scheduler.gate_inspector.tick() == 1
    assert await until_claimed(gates) == [waiting]
    assert await gates.scheduler.gate_inspector.tick() == 0


@pytest.mark.parametrize("fields", [{"orderingKey": "a"}, {"concurrencyKey": "c", "concurrencyLimit": 1}])
async def test_a_key_whose_note_was_lost_is_found_by_the_slow_look(gates, sql, fields):
    claim, waiting = await in_line(gates, **fields)
    await gates.admit()
    await gates.scheduler.gate_inspector.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.departures") == 0, "while it is right, nothing is called"
    await lost_note(gates, sql, claim)
    assert await gates.scheduler.gate_inspector.tick() == 1
    assert await ids_of(await gates.claim()) == [waiting]


async def test_a_rate_without_a_moment_to_wake_is_found_by_the_slow_look(gates, sql):
    _, waiting = await in_line(gates, rateLimit={"limit": 1, "perSeconds": 3600, "key": "r"})
    await gates.admit()
    assert await gates.scheduler.gate_inspector.tick() == 0
    await sql.execute("UPDATE rota.gates SET wakes_at = NULL, tokens = 1")
    assert await gates.claim() == []
    assert await gates.scheduler.gate_inspector.tick() == 1
    assert await ids_of(await gates.claim()) == [waiting]


async def test_a_breaker_without_a_moment_to_wake_is_found_by_the_slow_look(gates, sql):
    claim, waiting = await in_line(gates, breaker={"failures": 1, "cooldownSeconds": 3600}, maxRetries=0)
    await fail(gates, claim)
    await gates.admit()
    assert await gates.scheduler.gate_inspector.tick() == 0
    await sql.execute("UPDATE rota.gates SET wakes_at = NULL, until = now()")
    assert await gates.claim() == []
    assert await gates.scheduler.gate_inspector.tick() == 1
    assert await ids_of(await gates.claim()) == [waiting]


async def test_a_fire_time_behind_another_whose_note_was_lost_is_found_by_the_slow_look(gates, sql):
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, overlap="queue")
    claims = []
    for ago in (100, 0):
        await time_of_schedule(gates, sql, job_id, ago)
        claims += await gates.claim()
    assert len(claims) == 1
    assert await gates.scheduler.gate_inspector.tick() == 0
    await lost_note(gates, sql, claims[0])
    assert await gates.scheduler.gate_inspector.tick() == 1
    assert len(await gates.claim()) == 1


async def test_the_slow_look_walks_over_all_gates_a_few_at_a_time(gates, sql, monkeypatch):
    monkeypatch.setattr(overlooked, "GATES_PER_LOOK", 3)
    keys = [f"k{number}" for number in range(7)]
    holders = [await gates.engine.submit(orderingKey=key) for key in keys]
    waiting = [await gates.engine.submit(orderingKey=key) for key in keys]
    claims = await gates.claim()
    assert sorted(await ids_of(claims)) == sorted(holders)
    await gates.broker.report([report(claim) for claim in claims])
    await sql.execute("DELETE FROM rota.departures")
    assert [await gates.scheduler.gate_inspector.tick() for _ in range(3)] == [3, 3, 1]
    assert sorted(await ids_of(await gates.claim())) == sorted(waiting)


async def test_a_scheduler_that_runs_heals_a_key_by_itself(engine, sql):
    """As in production: nothing is ticked by hand."""
    async with engine.running(engine.scheduler()):
        lost = await engine.submit(orderingKey="b")
        await engine.until(lost, "queued")
        behind = await engine.submit(orderingKey="b")

        async def held():
            return (await engine.run(behind)).get("waitingFor", "").startswith("behind")

        await eventually(held)
        # The run before it vanishes without a note, as if by a fault of ours.
        await sql.execute("DELETE FROM rota.live_runs WHERE id = $1", plain(lost))
        await engine.until(behind, "queued")
