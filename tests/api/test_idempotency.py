"""The row 'idempotency' of SEMANTICS.md: the same key with the same body gets the first answer."""

import asyncio
import json
from datetime import timedelta

import pytest

from support import in_time, job

KEYED = {"Idempotency-Key": "order-17"}
COUNT = "SELECT (SELECT count(*) FROM rota.runs) + (SELECT count(*) FROM rota.jobs)"
REPLAYED = {"replayed": True}


async def submit(api, body, *, status=201, key="order-17"):
    content = body if isinstance(body, str) else json.dumps(body)
    answer = await api.post("/v1/jobs", content=content, headers={"Idempotency-Key": key})
    assert answer.status_code == status, answer.text
    return answer.json()


async def batch(api, *items):
    answer = await api.post("/v1/jobs/batch", json=items)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def pass_time(api, **distance):
    """Lets the API think that it is so much later."""
    later = api.services.now + timedelta(**distance)
    api.services.clock.now_datetime = lambda: later


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"},
        {"scheduleType": "cron", "cronExpression": "0 9 * * *"},
        {"scheduleType": "interval", "everySeconds": 60},
        {"payload": {"text": "x" * 5000}},
    ],
    ids=["immediate", "future", "cron", "interval", "a large payload"],
)
async def test_the_same_key_with_the_same_body_gets_the_first_answer(api, sql, fields):
    first = await submit(api, job(**fields))
    assert [await submit(api, job(**fields)) for _ in range(3)] == [first] * 3
    assert await sql.fetchval(COUNT) == 1


async def test_only_a_repeat_is_marked_as_one(api):
    answers = [await api.post("/v1/jobs", json=job(), headers=KEYED) for _ in range(2)]
    assert [answer.headers.get("idempotent-replay") for answer in answers] == [None, "true"]


async def test_without_a_key_every_submission_is_a_job(api, sql):
    for _ in range(2):
        await api.post("/v1/jobs", json=job())
    assert await sql.fetchval(COUNT) == 2


async def test_another_key_makes_another_job(api):
    one, two = await submit(api, job()), await submit(api, job(), key="order-18")
    assert one["jobId"] != two["jobId"]


async def test_the_same_json_spaced_and_ordered_differently_is_the_same_body(api, sql):
    body = job(payload={"b": [1, {"d": 4, "c": 3}], "a": "ż"}, tags=["x"])
    backwards = dict(reversed(body.items())) | {"payload": {"a": "ż", "b": [1, {"c": 3, "d": 4}]}}
    first = await submit(api, json.dumps(body, separators=(",", ":")))
    assert await submit(api, json.dumps(backwards, indent=4, ensure_ascii=False)) == first
    assert await sql.fetchval(COUNT) == 1


@pytest.mark.parametrize(
    "other",
    [job(name="other"), job(payload={"a": 2}), job(payload={"a": 1}, maxRetries=3), job(payload={"a": [1]})],
    ids=["another name", "another payload", "a field more", "another type"],
)
async def test_the_same_key_with_another_body_is_refused(api, sql, other):
    await submit(api, job(payload={"a": 1}))
    refused = await submit(api, other, status=422)
    assert refused["title"] == "Idempotency key reused"
    assert await sql.fetchval(COUNT) == 1


async def test_a_list_in_another_order_is_another_body(api):
    await submit(api, job(tags=["a", "b"]))
    await submit(api, job(tags=["b", "a"]), status=422)


async def test_concurrent_requests_with_one_key_make_one_job(api, sql):
    answers = await asyncio.gather(*(submit(api, job()) for _ in range(20)))
    assert len({answer["jobId"] for answer in answers}) == 1
    assert await sql.fetchval(COUNT) == 1


async def test_of_concurrent_requests_with_one_key_and_two_bodies_one_body_wins(api, sql):
    bodies = [job(name=name) for name in ("one", "two") * 5]
    answers = await asyncio.gather(*(api.post("/v1/jobs", json=body, headers=KEYED) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [422] * 5
    winner = await sql.fetchval("SELECT name FROM rota.runs")
    accepted = [body["name"] for body, answer in zip(bodies, answers, strict=True) if answer.status_code == 201]
    assert accepted == [winner] * 5


async def test_a_key_taken_between_lookup_and_commit_gets_the_first_answer(api, sql, monkeypatch):
    find_keys = api.services.gateway._submissions.find_keys
    both_looked = asyncio.Barrier(2)

    async def find_together(keys):
        found = await find_keys(keys)
        if not found:
            await both_looked.wait()
        return found

    monkeypatch.setattr(api.services.gateway._submissions, "find_keys", find_together)
    one, two = await in_time(asyncio.gather(submit(api, job()), submit(api, job())))
    assert one == two
    assert await sql.fetchval(COUNT) == 1


async def test_a_key_is_looked_up_before_anything_that_depends_on_time(api, sql):
    body = job(scheduleType="future", scheduleTime=(api.services.now + timedelta(seconds=30)).isoformat())
    first = await submit(api, body)
    pass_time(api, hours=1)
    assert await submit(api, body) == first
    await submit(api, body, status=400, key="order-18")
    assert await sql.fetchval(COUNT) == 1


async def test_what_was_refused_leaves_its_key_free(api):
    await submit(api, job(task="no task"), status=400)
    await submit(api, job(scheduleType="future", scheduleTime="2001-01-01T00:00:00Z"), status=400)
    await submit(api, job())


async def test_the_first_answer_stands_whatever_became_of_the_job(api):
    first = await submit(api, job())
    await api.delete(f"/v1/jobs/{first['jobId']}")
    assert await submit(api, job()) == first


async def test_a_key_is_kept_for_a_day(api, sql):
    await submit(api, job())
    left = await sql.fetchval("SELECT expires_at - now() FROM rota.submission_keys")
    assert timedelta(hours=23, minutes=59) < left <= timedelta(hours=24)


@pytest.mark.parametrize(
    "schedule", [{}, {"scheduleType": "interval", "everySeconds": 60}], ids=["one-shot", "recurring"]
)
async def test_an_expired_key_can_be_used_again(api, sql, schedule):
    first = await submit(api, job(**schedule))
    await sql.execute("UPDATE rota.submission_keys SET expires_at = now() - interval '1 second'")
    second = await submit(api, job(name="other", **schedule))
    assert second["jobId"] != first["jobId"]
    assert await submit(api, job(name="other", **schedule)) == second
    await submit(api, job(**schedule), status=422)


# In batches


async def test_items_of_a_batch_repeat_by_their_own_keys(api, sql):
    items = [job(idempotencyKey="a"), job(idempotencyKey="b", scheduleType="interval", everySeconds=60), job()]
    first = await batch(api, *items)
    second = await batch(api, *items)
    assert second[:2] == [result | REPLAYED for result in first[:2]]
    assert second[2]["jobId"] != first[2]["jobId"]
    assert await sql.fetchval(COUNT) == 4


async def test_an_item_with_a_used_key_and_another_body_is_refused_alone(api):
    await batch(api, job(idempotencyKey="a"))
    results = await batch(api, job(name="x"), job(idempotencyKey="a", name="other"), job(name="y"))
    assert ["error" in result for result in results] == [False, True, False]
    assert results[1]["error"]["status"] == 422


@pytest.mark.parametrize(
    "schedule", [{}, {"scheduleType": "cron", "cronExpression": "0 9 * * *"}], ids=["one-shot", "recurring"]
)
async def test_a_key_that_comes_twice_in_one_batch_makes_one_job(api, sql, schedule):
    item = job(idempotencyKey="a", **schedule)
    results = await batch(api, item, job(name="between"), item)
    assert results[2] == results[0] | REPLAYED
    assert await sql.fetchval(COUNT) == 2


async def test_a_key_that_comes_twice_in_one_batch_with_two_bodies_is_refused_once(api, sql):
    results = await batch(api, job(idempotencyKey="a"), job(idempotencyKey="a", name="other"))
    assert ["error" in result for result in results] == [False, True]
    assert results[1]["error"]["status"] == 422
    assert await sql.fetchval(COUNT) == 1


async def test_an_item_is_looked_up_by_its_key_before_anything_that_depends_on_time(api):
    moment = (api.services.now + timedelta(seconds=30)).isoformat()
    item = job(idempotencyKey="a", scheduleType="future", scheduleTime=moment)
    first = await batch(api, item)
    pass_time(api, hours=1)
    again, refused = await batch(api, item, item | {"idempotencyKey": "b"})
    assert again == first[0] | REPLAYED
    assert refused["error"]["errors"][0]["field"] == "scheduleTime"


async def test_many_repeats_in_one_large_batch_make_one_job_for_each_key(api, sql):
    results = await batch(api, *(job(idempotencyKey=f"key {number % 100}") for number in range(3000)))
    assert [result["jobId"] for result in results] == [results[number % 100]["jobId"] for number in range(3000)]
    assert await sql.fetchval(COUNT) == 100
