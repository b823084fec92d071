"""One run that can't be decided on, or that the database refuses, is set aside; the others go on."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import plain, report
from gatekeeping import ids_of, time_of_schedule
from rota.domain import gates as gates_module
from rota.domain.gates import (
    FAR_FUTURE,
    Bucket,
    Candidate,
    CircuitBreaker,
    Departure,
    Gate,
    GateStates,
    decide,
    decide_each,
    hear,
)
from rota.domain.ids import new_id
from rota.domain.policies import Policies, decode_policies
from rota.scheduler.gate_inspector import GateInspector
from support import job

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RATE = Gate("default", "rate", "key:r")
SLOW = {"limit": 1, "perSeconds": 31_622_400, "burst": 1_000_000, "key": "k"}
FAST = {"limit": 1, "perSeconds": 1, "burst": 1, "key": "k"}


def candidate(policies, number=0):
    run_id = new_id(1.0)
    return Candidate("default", run_id, run_id, policies, NOW + timedelta(seconds=number), False)


async def test_rates_that_differ_on_one_key_stop_neither_their_own_runs_nor_others(gates):
    await gates.engine.api.post("/v1/jobs/batch", json=[job(rateLimit=SLOW), job(rateLimit=FAST)])
    other = await gates.engine.submit(orderingKey="a")
    claims = await gates.claim()
    assert other in await ids_of(claims)
    assert len(claims) == 3, "a token for each was there"


async def test_thousands_of_tokens_of_a_slow_rate_can_be_taken(gates, sql):
    await gates.engine.submit(rateLimit=SLOW)
    assert len(await gates.claim()) == 1
    await sql.execute("UPDATE rota.gates SET tokens = 12")
    await gates.engine.submit(rateLimit=SLOW)
    assert len(await gates.claim()) == 1
    assert await sql.fetchval("SELECT full_at FROM rota.gates") == FAR_FUTURE


def test_a_new_bucket_is_full_by_the_rule_of_the_first_in_line_as_if_the_others_came_later():
    wide = Policies(rate="key:r", count=1, per=1e9, burst=1_000_000)
    tight = Policies(rate="key:r", count=1, per=1e9, burst=1)
    for first, second, left in ((tight, wide, 0.0), (wide, tight, 0.0), (wide, wide, 999_998.0)):
        together = GateStates(NOW, {}, {}, {RATE: Bucket()}, {}, {})
        verdicts = decide_each([candidate(first), candidate(second, 1)], together)
        apart = GateStates(NOW, {}, {}, {RATE: Bucket()}, {}, {})
        assert [verdict.fate for _, verdict in verdicts] == [
            decide(candidate(first), apart).fate,
            decide(candidate(second, 1), apart).fate,
        ]
        assert together.buckets[RATE].tokens == apart.buckets[RATE].tokens == pytest.approx(left)


numbers = st.floats() | st.sampled_from([0.0, -1.0, 1e18, math.inf, -math.inf, math.nan])
moments = st.datetimes(timezones=st.just(UTC))
policies = st.builds(
    Policies,
    rate=st.just("key:r"),
    count=st.integers(1, 1_000_000_000),
    per=st.floats(0, 1e9, exclude_min=True),
    burst=st.integers(1, 1_000_000_000),
    breaker=st.just("key:b"),
    failures=st.integers(1, 1_000_000_000),
    cooldown=st.floats(0, 1e9, exclude_min=True),
)


@given(
    st.lists(policies, min_size=1, max_size=5),
    st.builds(Bucket, numbers, moments, st.none() | moments, st.none() | moments),
    st.builds(
        CircuitBreaker,
        st.sampled_from(["closed", "open", "half-open"]),
        st.integers(0, 2**31 - 1),
        st.none(),
        st.booleans(),
        st.none() | moments,
        st.none() | moments,
    ),
)
def test_no_arithmetic_overflows_whatever_is_stored(some, bucket, breaker):
    gate = Gate("default", "breaker", "key:b")
    states = GateStates(NOW, {}, {}, {RATE: bucket}, {gate: breaker}, {})
    left = [Departure("default", new_id(1.0), new_id(1.0), each, "failed", 0.0) for each in some]
    hear(left, states)
    for number, each in enumerate(some):
        decide(candidate(each, number), states)
    states.look_again({RATE: some[0], gate: some[0]})
    assert not math.isnan(bucket.tokens)
    assert breaker.failures < 2**31


def test_policies_nested_too_deeply_to_be_read_make_a_plain_run():
    assert decode_policies('{"x":' + "[" * 100_000 + "]" * 100_000 + "}") == Policies()


async def test_a_run_whose_decision_raises_is_set_aside_and_says_why(gates, sql, monkeypatch):
    decide_one = gates_module.decide

    def stumble(it, states):
        if it.id == plain(bad):
            raise ZeroDivisionError("this one")
        return decide_one(it, states)

    monkeypatch.setattr(gates_module, "decide", stumble)
    bad = await gates.engine.submit(orderingKey="a", concurrencyKey="c", concurrencyLimit=5)
    behind = await gates.engine.submit(orderingKey="a")
    others = [await gates.engine.submit(orderingKey=key, concurrencyKey="c", concurrencyLimit=5) for key in "bc"]
    assert sorted(await ids_of(await gates.claim())) == sorted(others)
    status, why = await gates.waiting_for(bad)
    assert status == "blocked"
    assert why.endswith("tried again every minute: ZeroDivisionError: this one")
    assert (await gates.waiting_for(behind))[1] == f"behind {bad} of ordering key 'a'", "order is kept"
    is_due, _ = await gates.scheduler.admitter._gates.next_due_in(gates.scheduler.leases.owned)
    assert not is_due, "admission does not come back to it at once"
    monkeypatch.undo()
    await gates.scheduler.gate_inspector.tick()
    assert await ids_of(await gates.claim()) == [bad]


async def test_runs_set_aside_are_tried_again_only_now_and_then(gates, sql):
    await gates.engine.submit(orderingKey="a")
    inspector = gates.scheduler.gate_inspector
    assert isinstance(inspector, GateInspector)
    await inspector.tick()
    await sql.execute("UPDATE rota.held_runs SET gate_key = 'some reason'")
    await inspector.tick()
    assert await gates.claim() == []
    inspector._aside_at -= 61
    await inspector.tick()
    assert len(await gates.claim()) == 1


async def test_a_run_that_the_database_refuses_is_set_aside_alone(gates, sql):
    bad = await gates.engine.submit(concurrencyKey="c", concurrencyLimit=10)
    others = [await gates.engine.submit(concurrencyKey="c", concurrencyLimit=10) for _ in range(5)]
    await sql.execute(f"ALTER TABLE rota.live_runs ADD CONSTRAINT refusing CHECK (id <> '{plain(bad)}')")
    claims = await gates.claim()
    assert sorted(await ids_of(claims)) == sorted(others)
    assert "refused" in (await gates.waiting_for(bad))[1]
    await gates.broker.report([report(claim) for claim in claims])
    await sql.execute("ALTER TABLE rota.live_runs DROP CONSTRAINT refusing")
    await gates.scheduler.gate_inspector.tick()
    assert await ids_of(await gates.claim()) == [bad]


async def test_a_time_that_replaces_what_the_database_keeps_is_set_aside_alone(gates, sql):
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, overlap="replace")
    first = await time_of_schedule(gates, sql, job_id, 100)
    await gates.admit()
    await sql.execute(f"ALTER TABLE rota.finished_runs ADD CONSTRAINT refusing CHECK (id <> '{plain(first)}')")
    replacing = await time_of_schedule(gates, sql, job_id, 0)
    other = await gates.engine.submit(orderingKey="a")
    assert other in await ids_of(await gates.claim())
    assert "refused" in (await gates.waiting_for(replacing))[1]


async def test_a_bucket_and_a_breaker_that_hold_nothing_readable_go_on(gates, sql):
    await sql.execute(
        "INSERT INTO rota.gates (namespace, kind, key)"
        " VALUES ('default', 'rate', 'key:r'), ('default', 'breaker', 'key:b')"
    )
    run_id = await gates.engine.submit(
        rateLimit={"limit": 1, "perSeconds": 0.001, "key": "r"}, breaker={"failures": 2, "key": "b"}
    )
    await gates.admit()
    await sql.execute("UPDATE rota.gates SET wakes_at = now()")
    assert await ids_of(await gates.claim()) == [run_id]
