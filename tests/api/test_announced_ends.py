"""Ends of runs are announced to servers whose clients wait; without an announcement a look finds them."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from engine import Engine, plain
from rota.api.streams import run_waiters
from rota.store.postgres.wakeups import ENDED, mark_of
from serving import serving
from support import eventually, in_time


@pytest.fixture
async def engine(database, database_url, tmp_path):
    """An engine whose API listens."""
    async with serving(database, tmp_path, listen_url=database_url) as api:
        yield Engine(database, database_url, api)


@pytest.fixture
def ends(engine):
    return engine.api.services.run_ends


@pytest.fixture
def blind(engine, monkeypatch):
    """Looks find nothing: only an announcement can answer."""

    async def ended(_wanted):
        return set()

    monkeypatch.setattr(engine.api.services.runs, "ended", ended)


@pytest.fixture
def deaf(database, monkeypatch):
    """No announcement leaves this process."""
    notify = database.wake._notify

    async def all_but_ends(channel, payloads):
        if channel != ENDED:
            await notify(channel, payloads)

    monkeypatch.setattr(database.wake, "_notify", all_but_ends)


@pytest.fixture
async def overheard(database_url):
    """What any session of the database hears about ends."""
    heard = []
    connection = await asyncpg.connect(database_url)
    await connection.add_listener(ENDED, lambda _connection, _pid, _channel, payload: heard.append(payload))
    yield heard
    await connection.close()


class Held:
    """A task that ends when it is let go."""

    def __init__(self, engine):
        self._engine = engine
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def task(self) -> int:
        self.begun.set()
        await self.go_on.wait()
        return 7

    async def waited_for(self):
        """A run of it that has begun, and a client that waits for it; the worker knows that ends are awaited."""
        run_id = await self._engine.submit(task="held")
        await in_time(self.begun.wait())
        waiting = asyncio.create_task(self._engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60}))
        await eventually(lambda: self._engine.api.services.run_ends.waiting)
        await eventually(lambda: self._engine.database.wake.ends_are_awaited)
        return run_id, waiting


@pytest.fixture
async def held(engine):
    """A worker with one such task."""
    one = Held(engine)
    async with engine.running(engine.worker({"held": one.task})):
        yield one


@pytest.mark.usefixtures("blind")
async def test_an_end_that_is_announced_needs_no_look(held):
    _, waiting = await held.waited_for()
    held.go_on.set()
    answer = await in_time(waiting)
    assert (answer.json()["status"], answer.json()["result"]) == ("success", 7)


@pytest.mark.usefixtures("blind")
async def test_a_failure_is_announced_as_well(engine):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        begun.set()
        await go_on.wait()
        raise ValueError("no")

    async with engine.running(engine.worker({"fail": fail})):
        run_id = await engine.submit(task="fail", maxRetries=0)
        await in_time(begun.wait())
        waiting = asyncio.create_task(engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60}))
        await eventually(lambda: engine.database.wake.ends_are_awaited)
        go_on.set()
        answer = await in_time(waiting)
    assert answer.json()["status"] == "failed"


@pytest.mark.usefixtures("deaf")
async def test_an_end_whose_announcement_is_lost_is_found_by_a_look(held):
    _, waiting = await held.waited_for()
    held.go_on.set()
    answer = await in_time(waiting)
    assert answer.json()["status"] == "success"


async def test_an_announcement_does_not_name_its_run(held, overheard):
    run_id, waiting = await held.waited_for()
    held.go_on.set()
    await in_time(waiting)
    await eventually(lambda: overheard)
    assert overheard == [mark_of("default", plain(run_id))]
    assert all(part not in overheard[0] for part in (run_id, plain(run_id).hex, plain(run_id).hex[-12:], "default"))


async def test_nothing_is_announced_while_no_client_waits(engine, overheard, sql):
    async with engine.running(engine.worker()):
        run_id = await engine.submit()
        await engine.until(run_id, "success")
    await sql.execute("SELECT pg_notify($1, 'the last')", ENDED)  # they arrive in the order of commits
    await eventually(lambda: overheard)
    assert overheard == ["the last"]


@pytest.mark.usefixtures("blind")
async def test_the_same_run_id_in_another_namespace_is_another_run(engine, ends):
    run_id = plain(await engine.submit())
    ours = asyncio.create_task(ends.wait("default", run_id, 60, "admin"))
    theirs = asyncio.create_task(ends.wait("other", run_id, 60, "admin"))
    await eventually(lambda: ends.waiting == 2)
    ends.heard(ENDED, mark_of("other", run_id))
    await in_time(theirs)
    assert not ours.done()
    ours.cancel()


@pytest.mark.usefixtures("blind")
async def test_who_begins_to_wait_just_after_the_announcement_is_answered(engine, ends):
    run_id = plain(await engine.submit())
    ends.heard(ENDED, mark_of("default", run_id))
    await in_time(ends.wait("default", run_id, 60, "admin"))


async def test_marks_of_runs_that_ended_are_remembered_in_a_bounded_number(ends):
    for number in range(run_waiters._MOST_REMEMBERED + 10):
        ends.heard(ENDED, f"{number:016x}")
    assert len(ends._announced) == run_waiters._MOST_REMEMBERED
    assert f"{number:016x}" in ends._announced


async def test_a_word_without_marks_makes_it_look(engine, ends, monkeypatch):
    run_id = await engine.submit()
    monkeypatch.setattr(run_waiters, "_TOLD_SECONDS", 3600.0)
    ends._told_at = float("inf")  # as if all ends were announced: no poll would come
    waiting = asyncio.create_task(engine.api.get(f"/v1/runs/{run_id}", params={"waitSeconds": 60}))
    await eventually(lambda: ends.waiting)
    await engine.api.post(f"/v1/runs/{run_id}/cancel")
    ends.heard(ENDED, "")
    assert (await in_time(waiting)).json()["status"] == "cancelled"


async def test_looks_are_rare_while_announcements_come_and_frequent_again_when_one_is_missed(engine, ends):
    runs = [await engine.submit() for _ in range(2)]
    waits = [asyncio.create_task(ends.wait("default", plain(run), 60, "admin")) for run in runs]
    await eventually(lambda: ends.waiting == 2)
    before = ends.pause_seconds
    ends.heard(ENDED, mark_of("default", plain(runs[0])))
    assert before < ends.pause_seconds
    await engine.api.post(f"/v1/runs/{runs[1]}/cancel")  # not announced
    await in_time(asyncio.gather(*waits))
    assert ends._told_at < 0
