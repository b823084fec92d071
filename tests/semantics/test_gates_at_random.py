"""Admission against a model: whatever is submitted, ended, cancelled and admitted in whatever order, the rules hold."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import report
from gatekeeping import EMPTY_TABLES
from rota.domain.run import Outcome
from support import examples, job

policies = st.fixed_dictionaries(
    {},
    optional={
        "orderingKey": st.sampled_from("ab"),
        "concurrencyLimit": st.integers(1, 3),
        "concurrencyKey": st.sampled_from("kl"),
        "rateLimit": st.fixed_dictionaries(
            {"limit": st.integers(1, 3), "perSeconds": st.just(0.001), "key": st.sampled_from("rs")}
        ),
    },
).map(
    lambda fields: (
        fields
        if "concurrencyLimit" in fields
        else {k: v for k, v in fields.items() if "Key" not in k or k == "orderingKey"}
    )
)
operation = st.one_of(
    st.tuples(st.just("submit"), policies),
    st.tuples(st.just("admit"), st.integers(0, 1)),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.sampled_from(["success", "failed", "released"])),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
)


class World:
    """Two schedulers and a worker, and what should be true of them."""

    def __init__(self, engine, sql, schedulers, broker):
        self.engine, self.sql, self.schedulers, self.broker = engine, sql, schedulers, broker
        self.claims = []
        self.submitted = []
        self.limits = {}

    async def submit(self, fields):
        # One key, one limit: the limit that came first is everybody's.
        if "concurrencyLimit" in fields:
            key = fields.get("concurrencyKey", "")
            fields = {**fields, "concurrencyLimit": self.limits.setdefault(key, fields["concurrencyLimit"])}
        answer = await self.engine.api.post(
            "/v1/jobs", json=job(**fields, maxRetries=1000, retry={"strategy": "fixed", "baseSeconds": 0})
        )
        assert answer.status_code == 201, answer.text
        self.submitted.append(answer.json()["runId"])

    async def admit(self, number):
        await self.schedulers[number].leases.tick()
        await self.schedulers[number].admitter.tick()

    async def claim(self, room):
        self.claims += await self.broker.claim(room)

    async def end(self, how):
        if self.claims:
            claim = self.claims.pop(0)
            error = "e" if how == "failed" else None
            await self.broker.report([report(claim, Outcome(how), error=error)])

    async def cancel(self, number):
        if number < len(self.submitted):
            await self.engine.api.post(f"/v1/runs/{self.submitted[number]}/cancel")

    async def check(self):
        rows = await self.sql.fetch(
            "SELECT policies ->> 'order' AS o, policies ->> 'limit' AS l, policies ->> 'most' AS most"
            " FROM rota.live_runs"
        )
        orders = [row["o"] for row in rows if row["o"]]
        assert len(orders) == len(set(orders)), "two live runs of an ordering key"
        used = defaultdict(int)
        for row in rows:
            if row["l"]:
                used[row["l"]] += 1
                assert used[row["l"]] <= int(row["most"] or 1), "more live runs than the limit"

    async def drain(self):
        """Everything that was accepted comes to its end, in the order of its key."""
        for _ in range(1000):
            for scheduler in self.schedulers:
                await scheduler.leases.tick()  # a lease that is not kept is lost, and its owner does nothing more
                await scheduler.promoter.tick()
                await scheduler.admitter.tick()
            self.claims += await self.broker.claim(100)
            await self.check()
            while self.claims:
                await self.end("success")
            if not await self.sql.fetchval(
                "SELECT (SELECT count(*) FROM rota.held_runs) + (SELECT count(*) FROM rota.live_runs)"
            ):
                return
        held = await self.sql.fetch("SELECT id, gate, gate_key, policies FROM rota.held_runs")
        raise AssertionError(f"somebody waits for ever: {held}")

    async def check_order(self):
        rows = await self.sql.fetch(
            "SELECT policies ->> 'order' AS key, array_agg(id ORDER BY started_at) AS ran,"
            " array_agg(id ORDER BY nominal_at, id) AS expected FROM rota.finished_runs"
            " WHERE policies ->> 'order' IS NOT NULL AND status = 'success' GROUP BY 1"
        )
        for row in rows:
            assert row["ran"] == row["expected"], f"out of order in key {row['key']}"


@pytest.fixture
async def world(engine, sql):
    schedulers = [await engine.leading() for _ in range(2)]
    broker = engine.broker()
    await engine.join(broker, "rota.echo", slots=1000)
    return World(engine, sql, schedulers, broker)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(operation, min_size=5, max_size=40))
async def test_no_rule_is_broken_and_nobody_is_forgotten(world, operations):
    await world.sql.execute(EMPTY_TABLES)
    world.claims, world.submitted, world.limits = [], [], {}
    for name, argument in operations:
        await getattr(world, name)(argument)
        await world.check()
    await world.drain()
    await world.check_order()


async def test_many_runs_of_few_keys_all_come_through(world):
    """The same with more of everything, once."""
    dice = random.Random(7)
    for _ in range(150):
        fields = {"orderingKey": dice.choice("abcde")}
        if dice.random() < 0.5:
            fields |= {"concurrencyKey": dice.choice("kl"), "concurrencyLimit": 2}
        await world.submit(fields)
        if dice.random() < 0.3:
            await world.admit(dice.randrange(2))
            await world.claim(3)
            await world.end(dice.choice(["success", "failed", "released"]))
    await world.drain()
    await world.check_order()
