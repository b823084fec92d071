"""Shards spread among schedulers; one that falls silent loses its shards, one that was paused acts on nothing."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest

from rota.clock import DatabaseClock
from rota.scheduler.lease_keeper import BeatObserver, LeaseKeeper
from rota.scheduler.scheduler import Scheduler
from rota.store.lease import Shards
from rota.store.postgres.database import Database
from support import eventually

LEASE = 3.0


@pytest.fixture
def keeper(database, time):
    def make():
        return LeaseKeeper(
            shards=Shards(database),
            scheduler_id=uuid4(),
            clock=DatabaseClock(),
            lease_seconds=LEASE,
            monotonic=time,
        )

    return make


async def settle(*keepers, rounds=4):
    for _ in range(rounds):
        for keeper in keepers:
            await keeper.tick()


async def test_a_lone_scheduler_owns_everything(keeper):
    alone = keeper()
    assert await alone.tick() == 64
    assert set(alone.owned) == set(range(64))


@pytest.mark.parametrize("count", [2, 3, 5])
async def test_several_share_evenly_and_every_shard_has_one_owner(keeper, count):
    keepers = [keeper() for _ in range(count)]
    await settle(*keepers)
    owners = Counter(shard for each in keepers for shard in each.owned)
    assert set(owners.values()) == {1}
    assert len(owners) == 64
    assert max(len(each.owned) for each in keepers) - min(len(each.owned) for each in keepers) <= count


async def test_a_silent_owner_is_replaced_after_a_whole_lease_and_not_before(keeper, time):
    dead, heir = keeper(), keeper()
    await settle(dead, heir)
    epochs = dict(dead.owned)
    for _ in range(5):
        time.now += LEASE / 6
        await heir.tick()
    assert len(heir.owned) == 32
    for _ in range(2):
        time.now += LEASE / 6
        await heir.tick()
    assert len(heir.owned) == 64
    assert all(heir.owned[shard] > epoch for shard, epoch in epochs.items()), "the epoch is the fencing token"


async def test_a_scheduler_that_wakes_from_a_pause_owns_nothing_until_it_has_looked(keeper, time):
    paused, heir = keeper(), keeper()
    await settle(paused, heir)
    for _ in range(8):
        time.now += LEASE / 6
        await heir.tick()
    assert paused.owned == {}
    await paused.tick()
    assert set(paused.owned).isdisjoint(heir.owned)


async def test_an_observer_that_was_away_starts_its_observation_anew(time):
    observer = BeatObserver(time)
    owner = uuid4()
    observer.look({owner: 1}, longest_gap=1)
    time.now += 0.9
    observer.look({owner: 1}, longest_gap=1)
    assert observer.still_for(owner) == pytest.approx(0.9)
    time.now += 100
    observer.look({owner: 1}, longest_gap=1)
    assert observer.still_for(owner) == 0


async def test_who_leaves_in_good_order_leaves_its_shards_at_once(keeper):
    first, second = keeper(), keeper()
    await settle(first, second)
    await first.close()
    assert await second.tick() == 32
    assert len(second.owned) == 64


async def test_a_worker_with_a_short_lease_does_not_keep_others_from_being_reaped(engine, sql):
    short, silent = engine.broker(lease_seconds=1.0), engine.broker(lease_seconds=1.5)
    await engine.join(short)
    await engine.join(silent)
    async with engine.running(engine.scheduler()):

        async def silent_is_gone():
            await short.beat(busy=0, fenced=0, draining=False)
            rows = await sql.fetch("SELECT id FROM rota.workers WHERE gone_at IS NOT NULL")
            return [row["id"] for row in rows] == [silent._id]

        await eventually(silent_is_gone)


async def test_statements_that_wait_for_a_lock_cost_a_scheduler_no_lease(engine, sql, database_url):
    """More services than connections wait, for longer than a lease; the heartbeat waits for none of them."""
    async with AsyncExitStack() as stack:

        async def connect(size):
            database = await Database.connect(database_url, size=size)
            stack.push_async_callback(database.close)
            return database

        small, beats = await connect(2), await connect(1)
        scheduler = Scheduler(database=small, lease_database=beats, listen_url=None, lease_seconds=1.0)
        await stack.enter_async_context(engine.running(scheduler))
        await eventually(lambda: len(scheduler.leases.owned) == 64)
        await sql.execute("BEGIN; LOCK TABLE rota.upcoming_runs, rota.held_runs, rota.jobs IN ACCESS EXCLUSIVE MODE")
        beat = await sql.fetchval("SELECT beat FROM rota.schedulers")

        async def went_on():
            return await sql.fetchval("SELECT beat FROM rota.schedulers") > beat + 12

        await eventually(went_on)
        await eventually(lambda: len(scheduler.leases.owned) == 64)
        await sql.execute("ROLLBACK")
