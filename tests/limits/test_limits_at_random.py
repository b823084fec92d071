"""Buckets against a model, and servers against the model: whatever is asked for, the sums are right."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.access.limits.rate_limiter import PORTION_SECONDS, REST_SECONDS, RateLimiter
from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.limits import Limits, Rate
from rota.errors import RateLimitedError, TooLargeError
from rota.store.access.limits import Buckets, Taken
from support import examples

BEGIN = 100.0
MOST_AT_ONCE = 60

rates = st.builds(Rate, st.sampled_from([0.5, 3.0, 40.0, 1000.0]), st.integers(1, 200))
takes = st.tuples(st.just("take"), st.integers(1, 300), st.integers(1, 220))
moves = st.tuples(st.just("move"), st.floats(-20, 20, allow_nan=False), st.just(0))


class Model:
    """A bucket as it should be."""

    def __init__(self, rate, now=0.0):
        self.rate, self.tokens, self.counted_at = rate, float(rate.burst), now

    def take(self, now, wanted, least):
        elapsed = max(0.0, now - self.counted_at)
        self.tokens = min(self.rate.burst, self.tokens + elapsed * self.rate.per_second)
        self.counted_at = now
        granted = min(wanted, math.floor(self.tokens)) if self.tokens >= least else 0
        self.tokens -= granted
        return Taken(granted, self.tokens)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(rate=rates, steps=st.lists(takes | moves, max_size=25))
async def test_the_statement_does_what_the_model_does(database, sql, rate, steps):
    """Time is moved by moving what was counted; how much passed by itself is read from the row."""
    await sql.execute("TRUNCATE rota.buckets")
    model, buckets = Model(rate), Buckets(database)
    granted_in_all, elapsed_in_all, counted = 0, 0.0, None
    for kind, amount, least in steps:
        if kind == "move":
            await sql.execute("UPDATE rota.buckets SET counted_at = counted_at - $1 * interval '1 second'", amount)
            counted = await sql.fetchval("SELECT counted_at FROM rota.buckets")
            continue
        taken = await buckets.take("default", "a", "jobs", rate, wanted=max(amount, least), least=least)
        row = await sql.fetchrow("SELECT * FROM rota.buckets")
        elapsed = (row["counted_at"] - counted).total_seconds() if counted else 0.0
        expected = model.take(model.counted_at + elapsed, max(amount, least), least)
        assert taken.granted == expected.granted
        assert taken.left == pytest.approx(expected.left, abs=1e-3)
        assert (row["full_at"] - row["counted_at"]).total_seconds() == pytest.approx(
            (rate.burst - taken.left) / rate.per_second, abs=1e-3
        )
        model.tokens, counted = taken.left, row["counted_at"]
        granted_in_all, elapsed_in_all = granted_in_all + taken.granted, elapsed_in_all + max(0.0, elapsed)
        assert granted_in_all <= rate.burst + rate.per_second * elapsed_in_all + 1e-3


class Simulation:
    """Servers on a model of the database, in a time of their own."""

    def __init__(self, rate, servers):
        self.now = BEGIN
        self.asked = 0
        limits = TenantLimits(None, Limits(jobs_per_second=rate.per_second, job_burst=rate.burst))
        limits.number = 0
        self.rate = limits.rate("default", "a", "jobs")
        self.bucket = Model(self.rate, self.now)
        self.servers = [RateLimiter(limits=limits, buckets=self, monotonic=lambda: self.now) for _ in range(servers)]
        self.granted = []

    async def take(self, *_key_and_rate, wanted, least):
        """What the store does; a round trip is a moment in which others go on."""
        await asyncio.sleep(0)
        self.asked += 1
        return self.bucket.take(self.now, wanted, least)

    async def ask(self, server, amount):
        """Whether it is granted; or after how many seconds it may be."""
        try:
            await self.servers[server].take("default", "a", "jobs", amount)
        except TooLargeError:
            assert amount > self.rate.burst
            return None
        except RateLimitedError as error:
            return error.retry_after_seconds
        self.granted.append((self.now, amount))
        return 0


asks = st.lists(st.tuples(st.integers(0, 1), st.integers(1, MOST_AT_ONCE)), min_size=1, max_size=8)
rounds = st.lists(st.tuples(asks, st.floats(0, 3, allow_nan=False)), max_size=20)


@settings(max_examples=examples(200), deadline=None)
@given(rate=rates, rounds=rounds)
async def test_servers_together_never_grant_more_than_the_bucket_gave_them(rate, rounds):
    world = Simulation(rate, servers=2)
    for requests, pause in rounds:
        answers = await asyncio.gather(*(world.ask(server, amount) for server, amount in requests))
        assert all(wait is None or wait >= 0 for wait in answers)
        world.now += pause
    # What servers had in hand when a stretch of time began: portions, and what was taken for one who then got nothing.
    in_hand = 2 * (world.rate.per_second * PORTION_SECONDS + MOST_AT_ONCE)
    for first, (began, _) in enumerate(world.granted):
        total = 0
        for moment, amount in world.granted[first:]:
            total += amount
            bound = world.rate.per_second * (moment - began) + world.rate.burst
            assert total <= bound + in_hand + 1e-6, "in any stretch of time"
    whole = world.rate.per_second * (world.now - BEGIN) + world.rate.burst
    assert sum(amount for _, amount in world.granted) <= whole + 1e-6, "from the beginning: not one more"


@settings(max_examples=examples(200), deadline=None)
@given(rate=rates, rounds=rounds, amount=st.integers(1, 200))
async def test_who_waits_as_long_as_told_while_nobody_else_asks_is_let_through(rate, rounds, amount):
    world = Simulation(rate, servers=2)
    for requests, pause in rounds:
        await asyncio.gather(*(world.ask(server, wanted) for server, wanted in requests))
        world.now += pause
    wait = await world.ask(0, min(amount, world.rate.burst))
    tries = 0
    while wait:
        tries += 1
        # What another server holds in hand is lost to us; once it has what it wants, what comes is ours.
        assert tries <= 2
        world.now += wait
        wait = await world.ask(0, min(amount, world.rate.burst))
    assert wait == 0


@settings(max_examples=examples(40), deadline=None)
@given(rate=rates, pauses=st.lists(st.floats(0.0001, 0.03), min_size=100, max_size=100))
async def test_a_server_that_is_always_asked_grants_all_that_comes(rate, pauses):
    world = Simulation(rate, servers=1)
    for pause in pauses:
        while await world.ask(0, 1) == 0:
            pass
        world.now += pause
    elapsed = world.now - BEGIN
    granted = sum(amount for _, amount in world.granted)
    rested = (1.5 * REST_SECONDS + 0.03) * world.rate.per_second  # what gathers while it rests has not been taken yet
    assert granted >= world.rate.burst + world.rate.per_second * elapsed - rested - 2
    assert world.asked <= 3 * elapsed / REST_SECONDS + world.rate.burst + 5, "at worst each of what was there at first"
