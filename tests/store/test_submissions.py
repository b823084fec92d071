"""Batches of submissions: each item is answered with what happened to it, and none holds up the others."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest

from rota.errors import DatabaseUnavailableError
from rota.store.postgres.database import Statements
from support import eventually, job

# The session that would write such a row is ended.
DEADLY = """
CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
CREATE TRIGGER deadly BEFORE INSERT ON rota.{table} FOR EACH ROW WHEN (NEW.name = 'deadly')
EXECUTE FUNCTION end_session();
"""
POISON = "ALTER TABLE rota.live_runs ADD CHECK (name <> 'poison') NOT VALID"


async def batch(api, *items):
    answer = await api.post("/v1/jobs/batch", json=items)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def statuses(results):
    """The errors of a batch; None for what went in."""
    return [result["error"]["status"] if "error" in result else None for result in results]


@pytest.fixture
def statements_of(monkeypatch):
    """The statements that were run inside of transactions, with what they were given."""
    ran = []
    fetch = Statements.fetch

    async def recorded(self, name, /, **parameters):
        ran.append((name, parameters))
        return await fetch(self, name, **parameters)

    monkeypatch.setattr(Statements, "fetch", recorded)
    return ran


@pytest.mark.parametrize(("on_duplicate", "ended"), [("keep", 0), ("reject", 0), ("replace", 299)])
async def test_many_items_with_one_unique_key_take_one_transaction(api, sql, statements_of, on_duplicate, ended):
    items = [job(name=f"n{number}", uniqueKey="k", onDuplicate=on_duplicate) for number in range(300)]
    results = await batch(api, *items)
    assert len(statements_of) < 10, [name for name, _ in statements_of]
    assert statuses(results) == ([None, *[409] * 299] if on_duplicate == "reject" else [None] * 300)
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'cancelled'") == ended
    if on_duplicate == "keep":
        assert {result["jobId"] for result in results} == {results[0]["jobId"]}


async def test_what_a_batch_has_committed_before_the_database_is_lost_is_answered_as_such(api, sql):
    await sql.execute(POISON + ";" + DEADLY.format(table="live_runs"))
    results = await batch(api, *(job(name=name) for name in ("fine", "poison", "deadly", "late")))
    assert statuses(results) == [None, 422, 503, 503]
    assert [row["name"] for row in await sql.fetch("SELECT name FROM rota.runs")] == ["fine"]


@pytest.mark.parametrize("keys", [[{}, {}], [{"idempotencyKey": "i"}, {"uniqueKey": "u"}, {"idempotencyKey": "j"}]])
async def test_plain_jobs_of_a_batch_are_written_though_its_schedules_can_not_be(api, sql, keys):
    await sql.execute(DEADLY.format(table="jobs"))
    schedule = {"name": "deadly", "scheduleType": "interval", "everySeconds": 60}
    results = await batch(api, job(**schedule, **keys[0]), *(job(**key) for key in keys[1:]))
    # Plain jobs have a statement of their own; one with a unique key shares the transaction of the schedule.
    assert statuses(results) == [503, *(503 if "uniqueKey" in key else None for key in keys[1:])]
    written = {row["id"].hex for row in await sql.fetch("SELECT id FROM rota.runs")}
    assert written == {result["jobId"][4:] for result in results if "jobId" in result}


async def test_first_answers_that_can_not_be_read_leave_the_others_committed(api, sql, monkeypatch):
    submissions = api.services.gateway._submissions
    await batch(api, job(idempotencyKey="old"))

    async def find_keys(_keys):
        raise DatabaseUnavailableError("gone")

    monkeypatch.setattr(submissions, "find_keys", find_keys)
    results = await batch(api, job(idempotencyKey="old"), job(idempotencyKey="new"))
    assert statuses(results) == [503, None]
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 2


@asynccontextmanager
async def holding(database_url, kind, key, answer="{}"):
    """A transaction that has a key of the admin's, until the block ends."""
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        taken = "VALUES ('default', $1, E'admin\\n' || $2, '', $3, now() + interval '1 hour')"
        await connection.execute(f"INSERT INTO rota.submission_keys {taken}", kind, key, answer)
        yield
    await connection.close()


async def test_items_that_wait_for_a_held_unique_key_wait_long_only_once(api, database_url, statements_of):
    async with holding(database_url, "unique", "held", str(uuid4())):
        items = [job(uniqueKey=f"k{number}") for number in range(31)]
        results = await batch(api, *items, job(uniqueKey="held"))
    assert statuses(results) == [None] * 31 + [503]
    waits = [given["longest"] for name, given in statements_of if name == "set_lock_timeout"]
    assert waits.count("2s") == 1
    assert len(waits) > 1


async def test_a_repeat_that_is_written_by_another_at_the_same_time_leaves_its_unique_key_free(api, sql, database_url):
    request = job(idempotencyKey="i", uniqueKey="k", uniqueSeconds=3600)
    async with holding(database_url, "idempotency", "i"):
        waiting = asyncio.create_task(batch(api, request, job(uniqueKey="k", onDuplicate="keep")))
        await eventually(lambda: sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))
    results = await waiting
    assert statuses(results) == [422, None]
    assert "duplicate" not in results[1]
