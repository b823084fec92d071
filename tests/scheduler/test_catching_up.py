"""Catching up after an outage: in bounded pieces, each durable, while leases are kept and others stay on time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import pytest

from rota.domain.cron import Cron
from rota.domain.misfire import last_times
from rota.domain.schedule import fire_times
from rota.errors import DatabaseUnavailableError
from rota.scheduler import firer, misfire_judge
from rota.service import LONGEST_STRETCH_SECONDS, in_turns
from support import job

EACH_MINUTE = {"scheduleType": "cron", "cronExpression": "* * * * *"}
ALL = {"misfire": {"policy": "all", "windowSeconds": 86400, "cap": 1000}}


async def schedules_after_an_outage(engine, sql, count, **fields):
    """Schedules for each minute that nothing has fired for three hours."""
    answer = await engine.api.post("/v1/jobs/batch", json=[job(**EACH_MINUTE, **fields)] * count)
    assert answer.status_code == 200, answer.text
    await sql.execute(
        """UPDATE rota.jobs SET fired_through = date_trunc('minute', now()) - interval '180 minutes',
                                next_fire_at = date_trunc('minute', now()) - interval '179 minutes'"""
    )


async def catch_up(scheduler, service):
    """Rounds until nothing is left, with the heartbeats between them."""
    await scheduler.leases.tick()
    while await service.tick():
        await scheduler.leases.tick()


def counted(database, monkeypatch, statement, column):
    """How many rows each call of this statement was given, from now on."""
    sizes = []
    fetch = database.fetch

    async def count(name, /, **parameters):
        if name == statement:
            sizes.append(len(parameters[column]))
        return await fetch(name, **parameters)

    monkeypatch.setattr(database, "fetch", count)
    return sizes


async def test_a_statement_makes_a_bounded_number_of_runs(engine, sql, monkeypatch):
    await schedules_after_an_outage(engine, sql, 60)
    scheduler = await engine.leading()
    sizes = counted(engine.database, monkeypatch, "fire", "run_ids")
    await catch_up(scheduler, scheduler.firer)
    assert sum(sizes) >= 60 * 100
    assert max(sizes) < firer.RUNS_PER_STATEMENT + 200, "what one schedule makes at most comes on top"
    assert await sql.fetchval("SELECT count(*) FROM rota.jobs WHERE next_fire_at < now() - interval '1 minute'") == 0


async def test_what_was_caught_up_with_before_an_error_stays(engine, sql, monkeypatch):
    await schedules_after_an_outage(engine, sql, 60)
    scheduler = await engine.leading()
    fetch = engine.database.fetch
    written = []

    async def fail_the_third(name, /, **parameters):
        if name == "fire":
            written.append(name)
            if len(written) == 3:
                raise DatabaseUnavailableError("fire: canceling statement due to statement timeout")
        return await fetch(name, **parameters)

    monkeypatch.setattr(engine.database, "fetch", fail_the_third)
    with pytest.raises(DatabaseUnavailableError):
        await scheduler.firer.tick()
    assert await sql.fetchval("SELECT count(DISTINCT job_id) FROM rota.runs") == 20
    await catch_up(scheduler, scheduler.firer)
    assert await sql.fetchval("SELECT count(DISTINCT job_id) FROM rota.runs") == 60


async def test_the_loop_gets_its_turns_while_many_schedules_are_planned(engine, sql, monkeypatch):
    """Planning them in one go would keep the heartbeat waiting for as long as all of them take."""
    await schedules_after_an_outage(engine, sql, 20, **ALL)
    scheduler = await engine.leading()
    plans, turns = [], []
    plan = firer.plan_firing

    def watched(*arguments):
        plans.append(len(turns))
        time.sleep(2 * LONGEST_STRETCH_SECONDS)  # as long as a plan may take on a slow machine
        return plan(*arguments)

    async def take_turns():
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    monkeypatch.setattr(firer, "plan_firing", watched)
    others = asyncio.create_task(take_turns())
    await scheduler.firer.tick()
    others.cancel()
    await asyncio.wait({others})
    assert len(plans) > 5
    assert all(before < after for before, after in pairwise(plans)), "a turn between any two"


async def test_items_without_much_to_do_take_no_turns():
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, None)
    async for _ in in_turns(range(3)):
        assert not turns


async def test_schedules_that_are_on_time_go_before_those_that_are_late(engine, sql, monkeypatch):
    await schedules_after_an_outage(engine, sql, 60)
    on_time = await engine.recurring(scheduleType="cron", cronExpression="* * * * * *")
    monkeypatch.setattr(firer, "ROUND_SECONDS", 0.0)
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    fired = [f"job_{row['job_id'].hex}" for row in await sql.fetch("SELECT DISTINCT job_id FROM rota.runs")]
    assert on_time in fired
    assert 1 < len(fired) < 30, "and some of the late ones in each round"


async def test_late_schedules_are_all_found_when_a_look_can_not_hold_them(engine, sql, monkeypatch):
    """The position must not pass those that were not read."""
    await schedules_after_an_outage(engine, sql, 30)
    await sql.execute("UPDATE rota.jobs SET shard = 1")
    await engine.recurring(scheduleType="cron", cronExpression="* * * * * *")
    await sql.execute("UPDATE rota.jobs SET shard = 1")
    monkeypatch.setattr(firer, "_LATE_PER_SHARD", 4)
    scheduler = await engine.leading()
    scheduler.firer._schedules._fired._looks._not_before = float("inf")
    for _ in range(30):
        await scheduler.leases.tick()
        await scheduler.firer.tick()
    assert await sql.fetchval("SELECT count(DISTINCT job_id) FROM rota.runs") == 31


async def test_missed_runs_are_judged_in_bounded_pieces(engine, sql, monkeypatch):
    await schedules_after_an_outage(engine, sql, 20, **ALL)
    scheduler = await engine.leading()
    await catch_up(scheduler, scheduler.firer)
    waiting = await sql.fetchval("SELECT count(*) FROM rota.upcoming_runs WHERE run_at < now() - interval '1 minute'")
    assert waiting > 3000
    sizes = counted(engine.database, monkeypatch, "promote_runs", "run_ids")
    await catch_up(scheduler, scheduler.misfires)
    assert sum(sizes) >= waiting
    assert max(sizes) <= misfire_judge.RUNS_PER_STATEMENT + 100


@pytest.mark.parametrize(
    ("expression", "days"),
    [("* * * 1 * *", 35), ("* * 3 * * *", 5), ("*/7 * * * * *", 2), ("0 0 1 * *", 1000), ("30 3 * * 1", 1000)],
)
@pytest.mark.parametrize("limit", [1, 10, 200])
def test_the_latest_times_are_those_of_a_search_from_the_start_at_a_bounded_cost(expression, days, limit, monkeypatch):
    until = datetime(2030, 5, 4, 12, 0, 0, 500_000, tzinfo=UTC)
    schedule = Cron(expression, seed=uuid4())
    after = until - timedelta(days=days)
    expected = fire_times(schedule, after, until, 200_000)[-limit:]
    looks = []
    next_after = Cron.next_after
    monkeypatch.setattr(Cron, "next_after", lambda self, moment: looks.append(moment) or next_after(self, moment))
    assert last_times(schedule, after, until, limit) == expected
    assert len(looks) < 20 * (limit + 20)
