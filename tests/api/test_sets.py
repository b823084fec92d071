"""Sets: many jobs that differ in their payloads alone, in one request under one idempotency key."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import asyncpg
import pytest

from rota.domain.ids import shard_of
from rota.store.postgres.database import Statements
from support import eventually, in_time, job

COUNT = "SELECT count(*) FROM rota.runs"
POISON = "ALTER TABLE rota.live_runs ADD CHECK (payload NOT LIKE '%poison%') NOT VALID"


async def post(api, body, *, key=None, status=200):
    content = body if isinstance(body, (str, bytes)) else json.dumps(body)
    answer = await api.post("/v1/jobs/batch", content=content, headers={"Idempotency-Key": key} if key else {})
    assert answer.status_code == status, answer.text
    return answer.json()


def set_of(*payloads, **fields):
    return {"job": job(**fields), "payloads": list(payloads)}


def numbers(count):
    return [{"n": number} for number in range(count)]


def ids_of(answer):
    """The runs of a set by their positions."""
    found = {}
    for some in answer["accepted"]:
        first = int(some["runId"][4:], 16)
        assert some["runId"][4:] == some["jobId"][4:]
        found |= {some["position"] + step: f"{first + step:032x}" for step in range(some["count"])}
    return found


def refused(answer):
    return {one["position"] + step: one["error"]["status"] for one in answer["refused"] for step in range(one["count"])}


async def stored(sql):
    """The payloads of all runs by their ids."""
    rows = await sql.fetch(
        "SELECT r.id, coalesce(r.payload, p.body) AS payload FROM rota.runs AS r "
        "LEFT JOIN rota.payloads AS p ON p.namespace = r.namespace AND p.id = r.payload_id"
    )
    return {row["id"].hex: row["payload"] and json.loads(row["payload"]) for row in rows}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tags": ["a", "b"], "priority": "high", "pool": "other", "expiresSeconds": 60},
        {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"},
        {"scheduleType": "future", "delaySeconds": 0.2},
        {"orderingKey": "k"},
    ],
    ids=["immediate", "options", "a time", "a delay", "policies"],
)
@pytest.mark.parametrize("key", [None, "k"])
async def test_each_payload_of_a_set_is_a_job(api, sql, fields, key):
    payloads = [{"n": 1}, None, {}, {"text": "ä" * 3000}, {"n": 2}]
    answer = await post(api, set_of(*payloads, **fields), key=key)
    assert answer["refused"] == []
    assert {place: (await stored(sql))[run] for place, run in ids_of(answer).items()} == dict(enumerate(payloads))
    (said,) = {some["status"] for some in answer["accepted"]}
    now = (await api.get(f"/v1/runs/run_{ids_of(answer)[4]}")).json()["status"]
    assert said == now or "delaySeconds" in fields


async def test_a_large_set_has_ids_that_follow_each_other(api, sql):
    answer = await post(api, set_of(*numbers(2500)), key="k")
    assert [(some["position"], some["count"]) for some in answer["accepted"]] == [(0, 1000), (1000, 1000), (2000, 500)]
    rows = await stored(sql)
    assert {place: rows[run]["n"] for place, run in ids_of(answer).items()} == {n: n for n in range(2500)}


async def test_payloads_in_object_storage_come_back(api, sql):
    answer = await post(api, set_of({"text": "x" * 100_000}, {"n": 1}), key="k")
    run = (await api.get(f"/v1/runs/run_{ids_of(answer)[0]}")).json()
    assert len(run["payload"]["text"]) == 100_000
    assert await post(api, set_of({"text": "x" * 100_000}, {"n": 1}), key="k") == replayed(answer)


def replayed(answer):
    return {**answer, "accepted": [{**some, "replayed": True} for some in answer["accepted"]]}


async def test_a_repeat_gets_the_first_answer_and_another_set_is_refused(api, sql):
    first = await post(api, set_of(*numbers(1200)), key="k")
    assert await post(api, set_of(*numbers(1200)), key="k") == replayed(first)
    problem = await post(api, set_of(*numbers(1199)), key="k", status=422)
    assert problem["type"] == "urn:rota:idempotency-key-reused"
    assert await sql.fetchval(COUNT) == 1200


async def test_a_repeat_is_not_refused_because_its_time_has_passed(api, sql):
    wanted = set_of({}, scheduleType="future", scheduleTime=(api.services.now + timedelta(seconds=1)).isoformat())
    first = await post(api, wanted, key="k")
    later = api.services.now + timedelta(hours=1)
    api.services.clock.now_datetime = lambda: later
    assert await post(api, wanted, key="k") == replayed(first)
    await post(api, wanted, key="another", status=400)


async def test_sets_that_arrive_at_once_with_one_key_are_one_set(api, sql):
    answers = await asyncio.gather(*(post(api, set_of(*numbers(1500)), key="k") for _ in range(8)))
    assert len({json.dumps(ids_of(answer)) for answer in answers}) == 1
    assert await sql.fetchval(COUNT) == 1500


async def test_bad_payloads_are_refused_and_the_others_go_in(api, sql):
    body = '{"job": %s, "payloads": [{"n": 0}, 1, {"a": 1, "a": 2}, {"n": 3}, %s, {"n": 5}]}'
    body %= (json.dumps(job()), "[" * 70 + "]" * 70)
    for again in (False, True):
        answer = await post(api, body, key="k")
        assert refused(answer) == {1: 400, 2: 400, 4: 400}
        rows = await stored(sql)
        assert {place: rows[run]["n"] for place, run in ids_of(answer).items()} == {0: 0, 3: 3, 5: 5}
        assert [some.get("replayed", False) for some in answer["accepted"]] == [again] * 3
    assert await sql.fetchval(COUNT) == 3


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_job_that_the_database_refuses_is_refused_alone(api, sql, key):
    await sql.execute(POISON)
    wanted = set_of({"n": 0}, {"n": "poison"}, {"n": 2})
    answer = await post(api, wanted, key=key)
    assert refused(answer) == {1: 422}
    first = ids_of(answer)
    assert set(first) == {0, 2}
    if key:
        again = await post(api, wanted, key=key)
        assert (ids_of(again), refused(again)) == (first, {1: 422})
    assert await sql.fetchval(COUNT) == 2


async def test_jobs_over_the_backlog_limit_are_refused_and_a_repeat_says_the_same(api, sql):
    assert (await api.put("/v1/limits", json={"mostWaiting": 3})).status_code == 200
    answer = await post(api, set_of(*numbers(5)), key="k")
    assert refused(answer) == {3: 429, 4: 429}
    assert await post(api, set_of(*numbers(5)), key="k") == replayed(answer)
    await sql.execute("DELETE FROM rota.live_runs")
    assert await post(api, set_of(*numbers(5)), key="k") == replayed(answer)


async def test_an_empty_set_makes_nothing(api, sql):
    assert await post(api, {"job": job(), "payloads": []}) == {"accepted": [], "refused": []}
    assert await sql.fetchval(COUNT) == 0


async def test_scripts_of_a_set_are_checked_one_by_one(api, sql):
    wanted = {
        "job": {"name": "s", "scheduleType": "immediate"},
        "payloads": [{"script": "a.py"}, {"script": "../b"}, {}],
    }
    answer = await post(api, wanted, key="k")
    assert refused(answer) == {1: 400, 2: 400}
    assert await sql.fetchval("SELECT task FROM rota.live_runs") == "script"


async def test_members_of_a_set_that_came_in_get_their_first_answers(api, sql):
    first = await post(api, set_of(*numbers(3)), key="k")
    again = await post(api, {**set_of({"n": 2}, {"n": 0}), "positions": [2, 0]}, key="k")
    assert ids_of(again) == {place: ids_of(first)[place] for place in (0, 2)}
    assert await sql.fetchval(COUNT) == 3


async def test_members_that_are_repeated_before_their_set_arrives_come_in_once(api, sql):
    some = await post(api, {**set_of({"n": 1}), "positions": [1]}, key="k")
    again = await post(api, {**set_of({"n": 1}), "positions": [1]}, key="k")
    assert ids_of(again) == ids_of(some)
    assert [one.get("replayed") for one in (*some["accepted"], *again["accepted"])] == [None, True]
    late = await post(api, set_of(*numbers(3)), key="k")
    assert ids_of(late)[1] == ids_of(some)[1]
    rows = await stored(sql)
    assert {place: rows[run]["n"] for place, run in ids_of(late).items()} == {0: 0, 1: 1, 2: 2}
    assert await sql.fetchval(COUNT) == 3


async def test_members_and_their_set_at_once_come_in_once(api, sql):
    for number in range(5):
        members = [post(api, {**set_of({"n": n}), "positions": [n]}, key=f"k{number}") for n in range(3)]
        answers = await asyncio.gather(*members, post(api, set_of(*numbers(3)), key=f"k{number}"))
        whole = ids_of(answers[-1])
        assert [ids_of(answer)[n] for n, answer in enumerate(answers[:3])] == [whole[n] for n in range(3)]
    assert await sql.fetchval(COUNT) == 15


async def test_a_set_whose_key_is_held_elsewhere_is_refused_for_now(api, sql, database_url):
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        taken = "VALUES ('default', 'idempotency', E'admin\\nk\\n0', '', '', now() + interval '1 hour')"
        await connection.execute(f"INSERT INTO rota.submission_keys {taken}")
        waiting = asyncio.create_task(post(api, set_of({}), key="k"))
        other = await in_time(post(api, set_of({}), key="another"))
        assert len(ids_of(other)) == 1
        assert refused(await in_time(waiting)) == {0: 503}
    await connection.execute("DELETE FROM rota.submission_keys WHERE key = E'admin\\nk\\n0'")
    await connection.close()
    assert len(ids_of(await post(api, set_of({}), key="k"))) == 1


@pytest.fixture
def ran(monkeypatch):
    """The statements that were sent, whatever they are part of."""
    names = []
    run = Statements.run

    async def recorded(self, statement, values, timeout):
        names.append(statement.name)
        return await run(self, statement, values, timeout)

    monkeypatch.setattr(Statements, "run", recorded)
    return names


@pytest.mark.parametrize(
    ("fields", "statement"),
    [
        ({}, "submit_plain"),
        ({"scheduleType": "future", "delaySeconds": 60}, "submit_runs"),
        ({"orderingKey": "k"}, "submit_runs"),
    ],
    ids=["plain", "future", "policies"],
)
async def test_a_keyed_submission_is_one_statement(api, sql, ran, fields, statement):
    await post(api, set_of({}), key="first")  # limits are read once
    ran.clear()
    sent = await sql.fetchval("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
    assert sent is not None
    await post(api, set_of({"n": 1}, **fields), key="k")
    single = await api.post("/v1/jobs", json=job(**fields), headers={"Idempotency-Key": "single"})
    assert single.status_code == 201
    assert [name for name in ran if name.startswith(("submit", "find", "set_"))] == [statement] * 2


async def test_a_set_is_shared_out_over_the_shards(api, sql):
    await post(api, set_of(*numbers(640)))
    rows = await sql.fetch("SELECT id, shard FROM rota.live_runs")
    assert all(shard_of(row["id"], 64) == row["shard"] for row in rows)
    assert {row["shard"] for row in rows} == set(range(64))


async def test_sets_and_other_jobs_that_are_written_together_have_their_own_shards(api, sql):
    whole = (set_of({}), set_of(*numbers(3)), set_of({"n": 1}, name="other"), [job(), job()])
    await asyncio.gather(*(post(api, body) for _ in range(20) for body in whole))
    rows = await sql.fetch("SELECT id, shard FROM rota.live_runs")
    assert len(rows) == 20 * 7
    assert all(shard_of(row["id"], 64) == row["shard"] for row in rows)


async def test_a_key_used_before_for_a_later_part_alone_hides_nothing_that_was_made(api, sql):
    await post(api, set_of(*([1] * 1000), {"n": 0}), key="k")  # all of the first part are refused
    answer = await post(api, set_of(*numbers(1001)), key="k")
    assert refused(answer) == {1000: 422}
    assert len(ids_of(answer)) == 1000
    assert await sql.fetchval(COUNT) == 1001


async def test_an_owner_does_not_meet_the_sets_of_another(api, sql, somebody):
    first = await post(api, set_of(*numbers(2)), key="k")
    other = await somebody("submitter", owner="bob")
    again = await post(other, {**set_of({"n": 1}), "positions": [1]}, key="k")
    assert ids_of(again)[1] != ids_of(first)[1]
    assert len(ids_of(await post(other, set_of(*numbers(3)), key="k"))) == 3
    assert await sql.fetchval(COUNT) == 5


async def test_a_set_wakes_its_workers(api, sql, database_url):
    heard = []
    listener = await asyncpg.connect(database_url)
    await listener.add_listener("rota_ready", lambda *details: heard.append(details[-1]))
    await post(api, set_of({}, pool="special"), key="k")
    await eventually(lambda: "special" in heard)
    await listener.close()
