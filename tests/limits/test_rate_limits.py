"""Rate limits: one bucket for all servers, exact, and cheap for the database."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from rota.access.limits.rate_limiter import (
    KEEP_SECONDS,
    PORTION_SECONDS,
    REST_SECONDS,
    UNLIMITED,
    RateLimiter,
    tighter,
)
from rota.access.limits.tenant_limits import TenantLimits
from rota.domain.limits import Limits, Rate, rate_of
from rota.errors import DatabaseUnavailableError, RateLimitedError, TooLargeError
from rota.store.access.limits import Taken
from support import eventually, in_time, patience

SLOW = 0.001  # tokens a second: none comes while a test runs


async def hammer(server, until, **how):
    """Takes one after the other until a moment; how many were granted."""
    granted = 0
    while time.monotonic() < until:
        try:
            await server.take(**how)
            granted += 1
        except RateLimitedError:
            await asyncio.sleep(0.002)
    return granted


async def all_at_once(server, count, **how):
    """So many requests at the same time; how many were granted."""
    answers = await asyncio.gather(*(server.take(**how) for _ in range(count)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, RateLimitedError)]
    granted = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(refused) + len(granted) == count, answers
    return len(granted)


# How many


@pytest.mark.parametrize(("rate", "burst"), [(50, 5), (400, 40), (2000, 300)])
async def test_busy_servers_together_grant_what_the_limit_says_and_not_much_less(server, other, rate, burst):
    began = time.monotonic()
    await server.limit(requests_per_second=rate, request_burst=burst)
    until = time.monotonic() + 1.5 * patience()
    counts = await asyncio.gather(*(hammer(one, until) for one in (server, server, other, other)))
    bound = rate * (time.monotonic() - began) + burst
    assert 0.6 * bound / patience() < sum(counts) <= bound
    assert min(counts[0] + counts[1], counts[2] + counts[3]) > 0.05 * sum(counts), "both get some"


async def test_a_namespace_has_a_limit_over_all_in_it(server, other):
    began = time.monotonic()
    await server.limit(subject="", requests_per_second=100, request_burst=10)
    until = time.monotonic() + patience()
    names = ("alice", "bob", "")
    counts = await asyncio.gather(*(hammer(one, until, subject=name) for one in (server, other) for name in names))
    assert sum(counts) <= 100 * (time.monotonic() - began) + 10
    assert sum(counts) > 50


async def test_requests_and_jobs_have_buckets_of_their_own_and_so_has_everybody(server):
    for subject in ("alice", "bob"):
        await server.limit(subject, requests_per_second=SLOW, request_burst=2, jobs_per_second=SLOW, job_burst=3)
    for subject in ("alice", "bob"):
        assert await all_at_once(server, 10, subject=subject) == 2
        assert await all_at_once(server, 10, subject=subject, kind="jobs") == 3
    assert (await server.limiter.take("elsewhere", "alice", "requests")) is UNLIMITED


async def test_a_batch_is_let_through_whole_or_not_at_all(server, other):
    await server.limit(jobs_per_second=SLOW, job_burst=10)
    await server.take(7, kind="jobs")
    for one in (server, other):
        with pytest.raises(RateLimitedError):
            await one.take(4, kind="jobs")
    await other.take(3, kind="jobs")
    assert server.buckets.granted + other.buckets.granted == 10


async def test_what_never_fits_is_refused_with_the_most_that_does(server):
    await server.limit(jobs_per_second=100, job_burst=50)
    with pytest.raises(TooLargeError, match="51 jobs at once; the limit of 'alice' allows at most 50"):
        await server.take(51, kind="jobs")
    await server.limit(subject="", jobs_per_second=100, job_burst=20)
    with pytest.raises(TooLargeError, match="the limit of namespace 'default' allows at most 20"):
        await server.take(50, kind="jobs")
    assert server.buckets.asked == 0, "nobody had to be asked for that"


async def test_nothing_is_asked_for_by_a_request_without_jobs(server):
    await server.limit(jobs_per_second=SLOW, job_burst=1)
    await server.take(1, kind="jobs")
    await server.take(0, kind="jobs")


async def test_what_the_namespace_refuses_is_given_back_to_the_subject(make_server, clock):
    server, other = make_server(monotonic=clock), make_server(monotonic=clock)
    await server.limit(requests_per_second=SLOW, request_burst=5)
    await server.limit(subject="", requests_per_second=SLOW, request_burst=2)
    assert await all_at_once(other, 10, subject="bob") == 2
    for _ in range(3):
        with pytest.raises(RateLimitedError, match="the limit of namespace 'default' is"):
            await server.take()
    await server.limit(subject="", requests_per_second=None)
    assert await all_at_once(server, 10) == 5


# What it costs the database


async def test_without_limits_the_database_is_asked_nothing(server):
    for _ in range(1000):
        assert await server.take() is UNLIMITED
    assert server.buckets.asked == 0
    assert UNLIMITED.headers == {}


async def test_a_flood_of_refused_requests_makes_a_handful_of_statements(server):
    await server.limit(requests_per_second=SLOW, request_burst=5)
    granted = 0
    began = time.monotonic()
    for _ in range(10):
        granted += await all_at_once(server, 1000)
    assert granted == 5
    assert server.buckets.asked <= 3 + (time.monotonic() - began) / REST_SECONDS


async def test_looks_into_a_bucket_that_fills_fast_are_few_however_many_are_refused(server):
    await server.limit(requests_per_second=1000, request_burst=100)
    began = time.monotonic()
    for _ in range(10_000):
        try:
            await server.take()
        except RateLimitedError:
            continue
    # What has gathered while it rested is taken in a few portions.
    assert server.buckets.asked <= 3 * (time.monotonic() - began) / REST_SECONDS + 10


async def test_those_who_come_together_are_served_by_one_take(server):
    await server.limit(requests_per_second=SLOW, request_burst=1000)
    await server.limits.load()
    assert await all_at_once(server, 500) == 500
    assert server.buckets.asked <= 2


async def test_a_busy_server_takes_portions(server):
    await server.limit(requests_per_second=10_000, request_burst=50_000)
    for _ in range(5000):
        await server.take()
    assert server.buckets.asked < 200


# When something goes wrong


async def test_tokens_of_a_server_that_dies_are_lost_and_no_more_than_a_portion(server, other):
    began = time.monotonic()
    await server.limit(requests_per_second=1000, request_burst=1000)
    for _ in range(300):
        await server.take()
    lost = server.buckets.granted - 300
    assert lost <= 1000 * PORTION_SECONDS
    del server.limiter
    granted = await all_at_once(other, 3000)
    assert 300 + lost + granted <= 1000 * (time.monotonic() - began) + 1000


async def test_what_was_taken_and_not_used_for_a_while_is_lost_not_hoarded(make_server, clock):
    server = make_server(monotonic=clock)
    await server.limit(requests_per_second=SLOW, request_burst=10)
    held = server.limiter._held_of(("default", "alice", "requests"), Rate(SLOW, 10))
    await server.take()
    held.give_back(1)
    await server.take()
    assert server.buckets.granted == 1
    held.give_back(1)
    clock.now += KEEP_SECONDS
    await server.take()
    assert server.buckets.granted == 2


async def test_a_clock_that_goes_back_adds_nothing_and_does_not_stop_the_bucket(server, sql):
    await server.limit(requests_per_second=SLOW, request_burst=5)
    take = server.buckets.take
    rate = Rate(SLOW, 5)
    assert (await take("default", "alice", "requests", rate, wanted=5, least=5)).granted == 5
    # The clock goes back by an hour: what was counted was counted an hour ahead of it.
    await sql.execute("UPDATE rota.buckets SET counted_at = counted_at + interval '1 hour'")
    taken = await take("default", "alice", "requests", rate, wanted=5, least=1)
    assert taken.granted == 0
    assert taken.left < 1
    await sql.execute("UPDATE rota.buckets SET counted_at = counted_at - interval '3000 seconds'")
    assert (await take("default", "alice", "requests", rate, wanted=5, least=1)).granted == 3


async def test_the_clock_is_read_by_who_has_the_bucket_not_by_who_waits_for_it(server, sql, database_url):
    await server.limit(requests_per_second=1, request_burst=5)
    await server.take()
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("UPDATE rota.buckets SET tokens = 0")
    waits = asyncio.create_task(
        server.buckets.take("default", "alice", "requests", Rate(1, 5), wanted=1, least=1), name="waits"
    )

    async def is_waiting():
        return await sql.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )

    await eventually(is_waiting)
    counted = await sql.fetchval("UPDATE rota.buckets SET counted_at = clock_timestamp() RETURNING counted_at")
    await transaction.commit()
    await waits
    assert await sql.fetchval("SELECT counted_at FROM rota.buckets") >= counted


async def test_a_database_that_is_away_fails_all_who_wait_and_nobody_later(server, monkeypatch):
    await server.limit(requests_per_second=SLOW, request_burst=5)

    async def away(*_arguments, **_amounts):
        await asyncio.sleep(0)
        raise DatabaseUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(server.buckets, "take", away)
        answers = await asyncio.gather(*(server.take() for _ in range(5)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {DatabaseUnavailableError}
    assert await all_at_once(server, 10) == 5


async def test_who_hangs_up_does_not_take_the_others_along(server, sql):
    await server.limit(requests_per_second=SLOW, request_burst=5)
    await server.take()
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("SELECT FROM rota.buckets FOR UPDATE")
    first, second = (asyncio.create_task(server.take()) for _ in range(2))
    await eventually(lambda: server.buckets.asked == 2)
    first.cancel()
    await transaction.commit()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first


# Limits that change


async def test_a_change_is_in_force_at_once_where_it_is_made_and_elsewhere_after_a_look(server, other):
    await server.limit(requests_per_second=SLOW, request_burst=1)
    for one in (server, other):
        await one.take() if one is server else None
        with pytest.raises(RateLimitedError):
            await one.take()
    await server.limit(requests_per_second=None)
    assert await server.take() is UNLIMITED
    with pytest.raises(RateLimitedError):
        await other.take()
    await other.limits.read()
    assert await other.take() is UNLIMITED


async def test_a_limit_that_is_raised_lets_those_through_who_were_refused(server):
    await server.limit(requests_per_second=SLOW, request_burst=1)
    assert await all_at_once(server, 3) == 1
    await server.limit(requests_per_second=1_000_000, request_burst=1_000_000)
    await eventually(lambda: in_time(server.take()))


async def test_a_limit_that_is_lowered_holds_for_what_is_in_hand(server):
    await server.limit(requests_per_second=1000, request_burst=1000)
    held = server.limiter._held_of(("default", "alice", "requests"), Rate(1000, 1000))
    await server.take()
    held.give_back(1)
    held._count = 250
    await server.limit(requests_per_second=SLOW, request_burst=2)
    assert await all_at_once(server, 100) <= 4, "two in hand, and what the bucket has, which holds two"


async def test_a_limit_that_changes_while_a_take_is_under_way_is_the_new_one(make_server, clock, sql):
    server = make_server(monotonic=clock)
    await server.limit(requests_per_second=SLOW, request_burst=1)
    await server.take()
    await server.limit(requests_per_second=SLOW, request_burst=2)
    transaction = sql.transaction()
    await transaction.start()
    await sql.execute("SELECT FROM rota.buckets FOR UPDATE")
    before = asyncio.create_task(server.take())
    await eventually(lambda: server.buckets.asked == 2)
    await server.limit(requests_per_second=1_000_000, request_burst=1_000_000)
    after = asyncio.create_task(server.take())
    await eventually(lambda: server.limiter._held["default", "alice", "requests"].rate.burst == 1_000_000)
    await transaction.commit()
    # The take was made under the old limit and got nothing; that says nothing about the new one.
    for taking in (before, after):
        assert (await taking).limit == 1_000_000


async def test_a_shortage_too_small_to_be_written_down_is_one(make_server, clock):
    server = make_server(monotonic=clock)
    held = server.limiter._held_of(("default", "alice", "jobs"), Rate(1, 100))
    held._count, held._good_until, held._left, held._asked_at = 97, clock.now + 1, math.nextafter(3, 0), clock.now
    with pytest.raises(RateLimitedError):
        held.check(100, clock.now)


# What is told


async def test_headers_tell_how_much_at_once_what_is_left_and_when_it_is_full_again(server):
    await server.limit(requests_per_second=0.5, request_burst=10)
    headers = (await server.take(4)).headers
    assert headers == {"RateLimit-Limit": "10", "RateLimit-Remaining": "6", "RateLimit-Reset": "8"}


async def test_a_refusal_says_when_to_come_back(server):
    await server.limit(requests_per_second=0.1, request_burst=5)
    await server.take(5)
    for amount, seconds in ((1, 10), (3, 30)):
        with pytest.raises(
            RateLimitedError, match=r"too many requests: the limit of 'alice' is 0\.1 a second"
        ) as refused:
            await server.take(amount)
        assert refused.value.retry_after_seconds == seconds
        assert refused.value.headers["RateLimit-Remaining"] == "0"


async def test_the_wait_is_at_least_a_second(server):
    await server.limit(requests_per_second=20, request_burst=2)
    answers = await asyncio.gather(*(server.take() for _ in range(100)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, RateLimitedError)]
    assert {error.retry_after_seconds for error in refused} == {1}


async def test_of_two_buckets_the_tighter_one_is_told(server):
    await server.limit(requests_per_second=SLOW, request_burst=100)
    await server.limit(subject="", requests_per_second=SLOW, request_burst=10)
    assert (await server.take()).limit == 10
    await server.limit(requests_per_second=SLOW, request_burst=5)
    allowance = await server.take()
    assert allowance.limit == 5
    assert tighter(allowance, UNLIMITED) is tighter(UNLIMITED, allowance) is allowance


@pytest.mark.parametrize(
    ("per_second", "burst", "expected"),
    [(10, None, 50), (0.01, None, 1), (10, 3, 3), (1000, 1, 100), (0.5, 1, 1)],
)
def test_a_burst_goes_with_its_rate(per_second, burst, expected):
    assert rate_of(per_second, burst) == Rate(per_second, expected)


async def test_buckets_that_nobody_uses_make_room(make_server, clock, monkeypatch):
    monkeypatch.setattr("rota.access.limits.rate_limiter.MOST_BUCKETS", 10)
    server = make_server(monotonic=clock)
    for number in range(30):
        await server.limit(f"subject-{number}", requests_per_second=SLOW, request_burst=1)
        await server.take(subject=f"subject-{number}")
        clock.now += KEEP_SECONDS
    assert len(server.limiter._held) <= 10
    with pytest.raises(RateLimitedError):
        await server.take(subject="subject-0")


async def test_buckets_that_are_full_again_are_swept(server, engine, sql):
    await server.limit(requests_per_second=SLOW, request_burst=5)
    await server.take()
    scheduler = await engine.leading()
    await scheduler.sweeper.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.buckets") == 1
    await sql.execute("UPDATE rota.buckets SET full_at = now() - interval '1 second'")
    await scheduler.sweeper.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.buckets") == 0


async def test_a_request_that_comes_as_a_take_ends_starts_the_next_one():
    """The callback of a finished take runs a moment later; until then the take is over, but not forgotten."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Plenty:
        async def take(self, *_bucket, wanted, **_least):
            asked.set()
            await go_on.wait()
            return Taken(wanted, 1000.0)

    limits = TenantLimits(None, Limits(requests_per_second=1000))
    limits.number = 0
    limiter = RateLimiter(limits=limits, buckets=Plenty())
    first = asyncio.create_task(limiter.take("default", "alice", "requests"))
    await asked.wait()
    go_on.set()
    for _ in range(3):  # some of these run just behind the end of the take, and before its callback
        late = [asyncio.create_task(limiter.take("default", "alice", "requests")) for _ in range(3)]
        await asyncio.sleep(0)
        assert all(status.limit == 5000 for status in await in_time(asyncio.gather(*late)))
    await in_time(first)
