"""Looks begin where the last one ended; what appears further back is found all the same."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import asyncpg
import pytest

from engine import plain, report
from rota.domain.run import Outcome
from rota.store.postgres.scan_positions import (
    LONGEST_PAUSE_SECONDS,
    SLACK_SECONDS,
    WHOLE_SHARE,
    FullScanBudget,
    ScanPositions,
)
from support import eventually


class Time:
    """A monotonic clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def look(positions, time, *keys, takes=0.0, took=()):
    with positions.look(keys) as found:
        time.now += takes
        found.took(took)
    return found.begin_at


def test_a_whole_look_comes_first_and_then_as_often_as_its_cost_allows():
    time = Time()
    positions = ScanPositions(time)
    assert look(positions, time, 1, 2, takes=1.0) == [-math.inf, -math.inf]
    assert look(positions, time, 1, 2, takes=0.5, took=[(1, 50.0), (1, 40.0)]) == [-math.inf, -math.inf]
    assert look(positions, time, 1, 2) == [50.0 - SLACK_SECONDS, -math.inf]
    time.now += 0.5 / WHOLE_SHARE - 0.1
    assert look(positions, time, 1, took=[(1, 60.0)]) == [50.0 - SLACK_SECONDS]
    assert look(positions, time, 1, took=[(1, 55.0)]) == [60.0 - SLACK_SECONDS]
    assert look(positions, time, 1) == [60.0 - SLACK_SECONDS], "a look from a position never goes back"
    time.now += 0.2
    assert look(positions, time, 1, takes=0.001) == [-math.inf]
    time.now += 0.001 / WHOLE_SHARE + 0.001
    assert look(positions, time, 1) == [-math.inf]


def test_a_whole_look_takes_the_position_back_to_what_it_found():
    time = Time()
    positions = ScanPositions(time)
    look(positions, time, 1, 2, takes=1.0, took=[(1, 50.0), (2, 70.0)])
    assert look(positions, time, 1, 2, takes=1.0, took=[(1, 20.0), (1, 10.0)]) == [-math.inf, -math.inf]
    assert look(positions, time, 1, 2) == [20.0 - SLACK_SECONDS, 70.0 - SLACK_SECONDS]


def test_one_slow_look_does_not_make_the_next_wait_and_two_do_so_for_a_while():
    time = Time()
    looks = FullScanBudget(time)

    def whole(seconds, error=None):
        try:
            with looks.measured(lambda: 0):
                time.now += seconds
                if error:
                    raise error
        except TimeoutError:
            pass

    whole(0.001)
    whole(30.0, TimeoutError())
    time.now += 0.1
    assert looks.affordable()
    whole(30.0, TimeoutError())
    assert not looks.affordable()
    time.now += LONGEST_PAUSE_SECONDS
    assert looks.affordable()


def never_whole(positions):
    """Whole looks can't be afforded any more."""
    positions._looks._not_before = math.inf


async def test_runs_that_come_in_order_need_no_whole_look(engine):
    broker = engine.broker()
    await engine.join(broker)
    for round_number in range(3):
        run_id = await engine.submit()
        (claim,) = await broker.claim(10)
        assert claim.run_id == plain(run_id)
        never_whole(broker._claims._positions)
        assert broker._claims._positions._reached, round_number


async def test_a_run_that_is_given_back_is_found_by_the_next_whole_look(engine):
    broker = engine.broker()
    await engine.join(broker)
    old = await engine.submit()
    (claim,) = await broker.claim(10)
    await asyncio.sleep(SLACK_SECONDS + 0.1)
    await engine.submit()
    (newer,) = await broker.claim(10)
    await broker.report([report(claim, Outcome.released), report(newer)])
    found = await eventually(lambda: broker.claim(10))
    assert [claim.run_id for claim in found] == [plain(old)]


async def test_many_that_are_given_back_follow_each_other_without_whole_looks(engine):
    broker = engine.broker()
    await engine.join(broker)
    old = {plain(await engine.submit()) for _ in range(6)}
    claims = await broker.claim(10)
    await asyncio.sleep(SLACK_SECONDS + 0.1)
    await engine.submit()
    (newer,) = await broker.claim(10)
    await broker.report([report(newer), *(report(claim, Outcome.released) for claim in claims)])
    found = await eventually(lambda: broker.claim(1))
    never_whole(broker._claims._positions)
    while claims := await broker.claim(1):
        found += claims
    assert {claim.run_id for claim in found} == old


async def test_a_run_committed_late_is_found_by_the_next_whole_look(engine, sql, database_url):
    broker = engine.broker()
    await engine.join(broker)
    late = await engine.submit()
    early = await engine.submit()
    other = await asyncpg.connect(database_url)
    transaction = other.transaction()
    await transaction.start()
    # Its moment passes while the transaction that makes it ready is still open.
    await other.execute(
        "UPDATE rota.live_runs SET ready_at = ready_at - interval '1 minute' WHERE id = $1", plain(late)
    )
    assert [claim.run_id for claim in await broker.claim(10)] == [plain(early)]
    await transaction.commit()
    await other.close()
    found = await eventually(lambda: broker.claim(10))
    assert [claim.run_id for claim in found] == [plain(late)]


async def test_what_was_claimed_ahead_of_time_hides_nothing_that_is_due_now(engine, sql):
    """A position never runs ahead of the clock: runs due within the lookahead are claimed early."""
    broker = engine.broker()
    await engine.join(broker)
    await engine.submit()
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() + interval '0.9 seconds'")
    assert len(await broker.claim(10)) == 1
    never_whole(broker._claims._positions)
    run_id = await engine.submit()
    (claim,) = await broker.claim(10)
    assert claim.run_id == plain(run_id)


async def test_dead_entries_cost_nothing_behind_the_position(engine, sql, database_url):
    """With a transaction open elsewhere, nothing dead can be cleaned up; a claim must not walk over it."""
    holder = await asyncpg.connect(database_url)
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM rota.live_runs")
    broker = engine.broker()
    worker_id = await engine.join(broker)
    await sql.execute(
        """INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                                       options, cause, shard, nominal_at, run_at, created_at, ready_at, lane)
           SELECT 'default', id, id, 1, 'o', 'n', 'rota.echo', 'default', 0, '{}', '{}', 'submit', 0, now(), now(),
                  now(), now() - interval '1 hour' + n * interval '1 second',
                  rota.lane_of('default', 'default', 'rota.echo', 0::smallint)
             FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, 3000) AS n) AS s"""
    )
    await sql.execute("DELETE FROM rota.live_runs")
    run_id = await engine.submit()

    async def pages(begin_at):
        plan = await sql.fetch(
            "EXPLAIN (ANALYZE, BUFFERS) SELECT id FROM rota.live_runs WHERE lane = ANY ($1) AND worker_id IS NULL"
            " AND ready_at >= to_timestamp($2) ORDER BY ready_at LIMIT 10",
            broker._lanes["default", "default"],
            begin_at,
        )
        text = "\n".join(row[0] for row in plan)
        return int(text.split("shared hit=")[1].split()[0])

    now = await sql.fetchval("SELECT extract(epoch FROM now())::float8")
    assert await pages(now - 60) * 5 < await pages(0.0)
    (claim,) = await engine.claims.claim(worker_id, broker._lanes["default", "default"], 10, timedelta(seconds=1))
    assert claim.run_id == plain(run_id)
    await holder.close()


@pytest.mark.parametrize("portion", [1, 2, 7, 100])
async def test_rank_decides_over_all_lanes_however_small_the_portions_are(engine, sql, portion):
    tasks = ("rota.echo", "rota.sleep", "rota.fail")
    for number in range(36):
        priority = ("low", "normal", "high", "critical")[number % 4]
        await engine.submit(task=tasks[number % 3], priority=priority, payload={"seconds": 0})
    # Each waits for another while, from seconds to half an hour.
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() - (hashtext(id::text) % 1800) * interval '1 second' "
                      "WHERE hashtext(id::text) >= 0")  # fmt: skip
    broker = engine.broker()
    await engine.join(broker, *tasks)
    workers = broker._claims
    claimed = []
    while True:
        workers._portion._most = portion
        claims = await broker.claim(5)
        if not claims:
            break
        claimed += sorted(claims, key=lambda claim: claim.rank)
        assert len(claims) == 5 or len(claimed) == 36
    due = [claim.rank for claim in claimed]
    assert len(due) == 36
    assert due == sorted(due)


async def test_many_busy_lanes_make_the_portions_smaller_and_one_makes_them_whole_again(engine):
    tasks = tuple(f"task-{number}" for number in range(8))
    items = [{"name": "n", "scheduleType": "immediate", "task": tasks[number % 8]} for number in range(3200)]
    for first in range(0, len(items), 1600):
        assert (await engine.api.post("/v1/jobs/batch", json=items[first : first + 1600])).status_code == 200
    broker = engine.broker()
    await engine.join(broker, *tasks)
    portion = broker._claims._portion
    for _ in range(4):
        assert len(await broker.claim(400)) == 400
    assert portion.of(400) < 400
    while await broker.claim(400):
        pass
    alone = [{"name": "n", "scheduleType": "immediate", "task": "task-0"}] * 3000
    assert (await engine.api.post("/v1/jobs/batch", json=alone)).status_code == 200
    for _ in range(4):
        assert len(await broker.claim(400)) == 400
    assert portion.of(400) >= 200
