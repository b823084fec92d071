"""Following events: in the order of their numbers, none left out, whatever order their transactions commit in."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from rota.api.streams import event_followers
from rota.api.streams.event_followers import EventFollowers
from rota.domain.events import EventFilter
from rota.store.events import Events, settled
from support import eventually

ADD = "INSERT INTO rota.events (namespace, kind, subject) VALUES ($1, 'test', $2) RETURNING id"


@pytest.fixture
def tail(database):
    """A tail that looks only when told to."""
    return EventFollowers(Events(database))


@pytest.fixture
async def other(database_url):
    """Another connection, for a transaction that is held open."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


def told(follower):
    """The subjects that came, in order."""
    subjects = []
    while not follower.coming.empty():
        row = follower.coming.get_nowait()
        subjects.append(row and row["subject"])
    return subjects


async def test_events_come_to_all_who_follow_and_only_of_their_namespace(tail, sql):
    await sql.execute(ADD, "default", "before")
    async with (
        tail.follow(EventFilter(namespace="default")) as one,
        tail.follow(EventFilter(namespace="default")) as two,
        tail.follow(EventFilter(namespace="elsewhere")) as stranger,
    ):
        await tail.tick()
        for namespace, subject in (("default", "a"), ("elsewhere", "b"), ("default", "c")):
            await sql.execute(ADD, namespace, subject)
        await tail.tick()
        assert told(one) == told(two) == ["a", "c"]
        assert told(stranger) == ["b"]


async def test_who_sees_everything_follows_the_installation_and_no_copies(tail, sql):
    whole, narrow = (
        EventFilter(namespace="default", sees_all=True),
        EventFilter(namespace="default", kinds=("worker.",)),
    )
    async with tail.follow(whole) as one, tail.follow(narrow) as two:
        await tail.tick()
        for namespace, kind, is_copy in (
            ("*", "worker.lost", False),
            ("default", "worker.lost", True),
            ("elsewhere", "worker.lost", True),
            ("default", "pool.paused", False),
            ("elsewhere", "pool.paused", False),
        ):
            await sql.execute(
                "INSERT INTO rota.events (namespace, kind, subject, is_copy) VALUES ($1, $2, $3, $4)",
                *(namespace, kind, f"{kind} in {namespace}", is_copy),
            )
        await tail.tick()
        assert told(one) == ["worker.lost in *", "pool.paused in default"]
        assert told(two) == ["worker.lost in default"]


async def test_what_commits_late_comes_in_its_place(tail, sql, other):
    async with tail.follow(EventFilter(namespace="default")) as follower:
        await tail.tick()
        await sql.execute(ADD, "default", "first")
        held = other.transaction()
        await held.start()
        await other.execute(ADD, "default", "second")
        await sql.execute(ADD, "default", "third")
        await tail.tick()
        assert told(follower) == ["first"]
        # Long enough for a gap that nobody could fill any more: this one can still be filled.
        deadline = time.monotonic() + 2 * settled.GAP_SECONDS
        await eventually(lambda: time.monotonic() > deadline)
        await tail.tick()
        assert told(follower) == []
        await held.commit()
        await tail.tick()
        assert told(follower) == ["second", "third"]


async def test_what_was_rolled_back_is_not_waited_for(tail, sql, other):
    async with tail.follow(EventFilter(namespace="default")) as follower:
        await tail.tick()
        held = other.transaction()
        await held.start()
        await other.execute(ADD, "default", "never")
        await sql.execute(ADD, "default", "later")
        await tail.tick()
        await held.rollback()
        seen = []

        async def look():
            await tail.tick()
            seen.extend(told(follower))
            return seen

        assert await eventually(look, within=settled.GAP_SECONDS + 5) == ["later"]


async def test_a_transaction_open_for_ever_does_not_stop_everything(tail, sql, other, monkeypatch):
    monkeypatch.setattr(settled, "LONGEST_GAP_SECONDS", 0.1)
    async with tail.follow(EventFilter(namespace="default")) as follower:
        await tail.tick()
        held = other.transaction()
        await held.start()
        await other.execute(ADD, "default", "held")
        await sql.execute(ADD, "default", "later")

        async def look():
            await tail.tick()
            return told(follower)

        assert await eventually(look) == ["later"]
        await held.rollback()


async def test_who_begins_while_a_transaction_is_open_gets_what_it_brings(tail, sql, other):
    held = other.transaction()
    await held.start()
    await other.execute(ADD, "default", "late")
    await sql.execute(ADD, "default", "early")
    async with tail.follow(EventFilter(namespace="default")) as follower:
        await tail.tick()
        assert told(follower) == []
        await held.commit()
        await tail.tick()
        assert told(follower) == ["late", "early"]


async def test_who_begins_later_begins_where_the_others_are(tail, sql):
    async with tail.follow(EventFilter(namespace="default")) as first:
        await tail.tick()
        await sql.execute(ADD, "default", "a")
        await tail.tick()
        async with tail.follow(EventFilter(namespace="default")) as second:
            await sql.execute(ADD, "default", "b")
            await tail.tick()
            assert told(first) == ["a", "b"]
            assert told(second) == ["b"]


async def test_one_who_hangs_up_at_the_beginning_harms_nobody(tail):
    async with (
        tail.follow(EventFilter(namespace="default")) as leaving,
        tail.follow(EventFilter(namespace="default")) as staying,
    ):
        leaving.begin.cancel()
        await tail.tick()
        assert await staying.begin == 0


async def test_who_does_not_read_is_let_go(tail, sql, monkeypatch):
    monkeypatch.setattr(event_followers, "MOST_WAITING", 2)
    async with tail.follow(EventFilter(namespace="default")) as slow:
        await tail.tick()
        for number in range(5):
            await sql.execute(ADD, "default", str(number))
        await tail.tick()
        await sql.execute(ADD, "default", "more")
        await tail.tick()
        assert told(slow) == ["0", "1", None]


async def test_nobody_following_costs_nothing(database, monkeypatch):
    names = []
    fetch = database.fetch

    async def noted(name, /, **options):
        names.append(name)
        return await fetch(name, **options)

    monkeypatch.setattr(database, "fetch", noted)
    tail = EventFollowers(Events(database))
    running = asyncio.create_task(tail.run())
    async with tail.follow(EventFilter(namespace="default")) as follower:
        await follower.begin
        await eventually(lambda: names.count("follow_events") > 2)
    seen = len(names)
    with pytest.raises(AssertionError):
        await eventually(lambda: len(names) > seen + 2, within=4 * tail.interval_seconds)
    running.cancel()


async def test_too_many_who_follow_are_refused(api):
    api.services.event_tail.shares.most = 0
    answer = await api.get("/v1/events", params={"follow": "true"})
    assert answer.status_code == 503


@pytest.mark.parametrize(
    "query", [{"follow": "maybe"}, {"follow": "true", "limit": 5}, {"follow": "true", "cursor": 1}]
)
async def test_following_goes_with_nothing_else(api, query):
    assert (await api.get("/v1/events", params=query)).status_code == 400
