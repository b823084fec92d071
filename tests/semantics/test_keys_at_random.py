"""No ordering key dies: whatever fails, waits, is paused, comes late or meets a clock that went back, all runs end."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import rota
from engine import plain, report
from gatekeeping import EMPTY_TABLES
from rota.domain.run import Outcome
from support import eventually, examples, job

RETRY = {"maxRetries": 1000, "retry": {"strategy": "fixed", "baseSeconds": 0.03}}
operation = st.one_of(
    # How many seconds its nominal time lies back: jitter, a late commit and a resume bring runs out of order.
    st.tuples(st.just("submit"), st.tuples(st.sampled_from("ab"), st.sampled_from([0, 0, 5, 60]), st.booleans())),
    st.tuples(st.just("later"), st.tuples(st.sampled_from("ab"), st.sampled_from([0.1, 1.05]))),
    st.tuples(st.just("admit"), st.integers(0, 1)),
    st.tuples(st.just("promote"), st.integers(0, 1)),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.sampled_from(["success", "failed", "failed", "snoozed", "released"])),
    st.tuples(st.just("pause"), st.integers(0, 10)),
    st.tuples(st.just("resume"), st.integers(0, 10)),
    st.tuples(st.just("cancel"), st.integers(0, 10)),
    st.tuples(st.just("clock_goes_back"), st.sampled_from([0.05, 0.3])),
)


class World:
    """Two schedulers that share the shards, and a worker."""

    def __init__(self, engine, sql, schedulers, broker):
        self.engine, self.sql, self.schedulers, self.broker = engine, sql, schedulers, broker
        self.claims = []
        self.jobs = []

    async def _post(self, **fields):
        answer = await self.engine.api.post("/v1/jobs", json=job(**fields, **RETRY))
        self.jobs.append(answer.json()["jobId"])
        return plain(answer.json()["runId"])

    async def submit(self, how):
        key, back, lets_go = how
        fields = {"orderingOnFailure": "release"} if lets_go else {}
        run_id = await self._post(orderingKey=key, **fields)
        await self.sql.execute(
            "UPDATE rota.held_runs SET nominal_at = nominal_at - $2 * interval '1 second' WHERE id = $1", run_id, back
        )

    async def later(self, how):
        key, seconds = how
        await self._post(orderingKey=key, scheduleType="future", delaySeconds=seconds)

    async def admit(self, number):
        scheduler = self.schedulers[number]
        await scheduler.leases.tick()
        scheduler.admitter.wake()
        await scheduler.admitter.tick()

    async def promote(self, number):
        await self.schedulers[number].leases.tick()
        await self.schedulers[number].promoter.tick()

    async def claim(self, room):
        self.claims += await self.broker.claim(room)

    async def end(self, how):
        if self.claims:
            fields = {"failed": {"error": "e"}, "snoozed": {"snooze_seconds": 0.03}}.get(how, {})
            await self.broker.report([report(self.claims.pop(0), Outcome(how), **fields)])

    async def pause(self, number):
        await self._ask(number, "pause")

    async def resume(self, number):
        await self._ask(number, "resume")

    async def cancel(self, number):
        if number < len(self.jobs):
            await self.engine.api.delete(f"/v1/jobs/{self.jobs[number]}")

    async def clock_goes_back(self, seconds):
        """Seen from the runs, their times come later by so much."""
        for table in ("held_runs", "upcoming_runs"):
            await self.sql.execute(
                f"UPDATE rota.{table} SET run_at = run_at + $1 * interval '1 second',"
                " nominal_at = nominal_at + $1 * interval '1 second'",
                seconds,
            )

    async def _ask(self, number, action):
        if number < len(self.jobs):
            await self.engine.api.post(f"/v1/jobs/{self.jobs[number]}/{action}")

    async def all_end(self):
        """Without the slow look: it must not be needed."""

        async def ended():
            for number in range(2):
                await self.promote(number)
                await self.schedulers[number].admitter.tick()
            await self.claim(100)
            while self.claims:
                await self.end("success")
            return not await self.sql.fetch(
                "SELECT id FROM rota.held_runs UNION ALL SELECT id FROM rota.live_runs"
                " UNION ALL SELECT id FROM rota.upcoming_runs"
            )

        try:
            await eventually(ended, within=10)
        except AssertionError:
            held = await self.sql.fetch("SELECT id, gate, gate_key, attempt, nominal_at, run_at FROM rota.held_runs")
            raise AssertionError(f"waits for ever: {held}") from None


@pytest.fixture
async def world(engine, sql):
    schedulers = [await engine.leading() for _ in range(2)]
    for _ in range(3):  # until each has its share
        for scheduler in schedulers:
            await scheduler.leases.tick()
    broker = engine.broker()
    await engine.join(broker, "rota.echo", slots=1000)
    return World(engine, sql, schedulers, broker)


@settings(max_examples=examples(6), phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(operation, min_size=10, max_size=60))
async def test_no_ordering_key_dies(world, operations):
    await world.sql.execute(EMPTY_TABLES)
    world.claims, world.jobs = [], []
    for name, argument in operations:
        await getattr(world, name)(argument)
    for number in range(len(world.jobs)):
        await world.resume(number)
    await world.all_end()


async def test_a_jittered_interval_whose_task_fails_half_the_time_goes_on(engine, sql):
    """Its times come out of order, and each may hold the key in a backoff while an earlier one arrives."""
    failed = set()

    async def flaky(context: rota.Context) -> None:
        if context.run_id not in failed:
            failed.add(context.run_id)
            raise RuntimeError("the first time")

    schedule = {"scheduleType": "interval", "everySeconds": 1, "jitterSeconds": 4, "task": "flaky", "orderingKey": "k"}
    retry = {"retry": {"strategy": "fixed", "baseSeconds": 0.5}}
    async with engine.running(engine.scheduler(), engine.worker({"flaky": flaky})):
        await engine.recurring(**schedule, **retry)

        async def many_ended():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'") >= 10

        await eventually(many_ended, within=60)
