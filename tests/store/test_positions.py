"""Looks begin where the last one ended; what appears further back is found all the same."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic

import asyncpg
import pytest

from engine import plain, report
from rota.domain.run import Outcome
from rota.store.postgres.scan_positions import (
    LONGEST_PAUSE_SECONDS,
    SLACK_SECONDS,
    USUAL_PAUSE_SECONDS,
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
    for _ in range(2):
        assert look(positions, time, 1, 2, takes=0.01) == [-math.inf, -math.inf]
    assert look(positions, time, 1, 2, takes=0.01, took=[(1, 50.0), (1, 40.0)]) == [-math.inf, -math.inf]
    assert look(positions, time, 1, 2) == [50.0 - SLACK_SECONDS, -math.inf]
    time.now += 0.01 / WHOLE_SHARE - 0.1
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
    for _ in range(2):
        look(positions, time, 1, 2, takes=1.0, took=[(1, 50.0), (2, 70.0)])
    assert look(positions, time, 1, 2, takes=1.0, took=[(1, 20.0), (1, 10.0)]) == [-math.inf, -math.inf]
    assert look(positions, time, 1, 2) == [20.0 - SLACK_SECONDS, 70.0 - SLACK_SECONDS]


def test_a_row_that_is_known_to_be_new_takes_the_position_back():
    time = Time()
    positions = ScanPositions(time)
    for _ in range(3):
        look(positions, time, 1, takes=1.0, took=[(1, 50.0)])
    positions.go_back(1, 60.0)
    positions.go_back(2, 10.0)
    assert look(positions, time, 1, 2) == [50.0 - SLACK_SECONDS, -math.inf]
    positions.go_back(1, 20.0)
    assert look(positions, time, 1) == [20.0 - SLACK_SECONDS]


class Looks:
    """Looks at a table, as a service takes them: a whole one when it can be afforded."""

    def __init__(self):
        self.time = Time()
        self._budget = FullScanBudget(self.time)
        self.whole_at = [self.time.now]

    def take(self, *, whole, near, every=0.1):
        """One look, which takes so long if it is whole, and so long if it begins at a position."""
        self.time.now += every
        affordable = self._budget.affordable()
        with (self._budget.measured if affordable else self._budget.compared)(lambda: 0):
            self.time.now += whole if affordable else near
        if affordable:
            self.whole_at.append(self.time.now)

    @property
    def longest_gap(self):
        return max(after - before for before, after in pairwise(self.whole_at))

    @property
    def share(self):
        """Of the time since the fourth whole look: how much went into whole ones, if each takes a second."""
        return len(self.whole_at[4:]) / (self.time.now - self.whole_at[4])


@pytest.mark.parametrize("slow", [1.0, 30.0])
@pytest.mark.parametrize("looks", [1, 2, 3, 8])
def test_looks_that_were_slow_for_whatever_reason_keep_no_row_hidden_for_long(slow, looks):
    """The server stood still, or a lock was held: that says nothing about the cost of whole looks."""
    taken = Looks()
    for _ in range(50):
        for _ in range(looks):
            taken.take(whole=slow, near=slow)
        for _ in range(7):
            taken.take(whole=0.001, near=0.001)
    assert taken.longest_gap <= USUAL_PAUSE_SECONDS + 3 * slow


def test_whole_looks_that_are_slow_by_themselves_are_taken_less_often_at_a_bounded_cost():
    taken = Looks()
    for _ in range(500):
        taken.take(whole=1.0, near=0.001)
    assert USUAL_PAUSE_SECONDS < taken.longest_gap < 7
    assert 1 / 8 < taken.share < 1 / 5
    for _ in range(100):
        taken.take(whole=0.001, near=0.001)
    taken.whole_at = taken.whole_at[-10:]
    assert taken.longest_gap <= USUAL_PAUSE_SECONDS, "and often again as soon as one was cheap"


def test_looks_that_take_very_long_do_not_stop_for_ever():
    taken = Looks()
    for _ in range(5000):
        taken.take(whole=30.0, near=0.001)
    assert taken.longest_gap < LONGEST_PAUSE_SECONDS + 31


async def test_what_waited_for_locks_makes_no_run_wait_for_long(engine, sql, database_url):
    """Eight locks in a row on the table of upcoming runs, each met by a promotion."""
    scheduler = await engine.leading()
    other = await asyncpg.connect(database_url)
    for _ in range(8):
        await other.execute("BEGIN; LOCK TABLE rota.upcoming_runs IN ACCESS EXCLUSIVE MODE")
        promoting = asyncio.create_task(scheduler.promoter.serve(scheduler.leases._owned))
        await asyncio.sleep(0.3)
        await other.execute("COMMIT")
        await promoting
    await other.close()
    looks = scheduler.promoter._promotions._promoted._looks
    assert looks._not_before - monotonic() <= USUAL_PAUSE_SECONDS


async def test_a_run_that_is_made_late_is_promoted_without_a_whole_look(engine, sql):
    scheduler = await engine.leading()
    soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    await engine.submit(scheduleType="future", scheduleTime=soon)
    await sql.execute("UPDATE rota.upcoming_runs SET shard = 1, run_at = now()")
    await scheduler.promoter.tick()
    never_whole(scheduler.promoter._promotions._promoted)
    await engine.recurring(scheduleType="interval", everySeconds=30)
    await sql.execute(
        """UPDATE rota.jobs SET shard = 1, fired_through = now() - interval '60 s', anchor_at = now() - interval '80 s',
                                next_fire_at = now() - interval '50 s'"""
    )
    await scheduler.firer.tick()
    await scheduler.promoter.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs WHERE cause = 'schedule'") == 2


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
