"""Bodies that are small to send and costly to read: refused before anything is made of them, beside other requests."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api.http.body_budget import BYTES_PER_JOB, BodyBudget
from rota.contract.json_rules import MOST_VALUES, has_repeated_name, has_too_many_values, items_of
from rota.errors import BadInputError, OverloadedError
from support import examples, job

LINES = {"Content-Type": "application/x-ndjson"}
MANY = 900_000
HEAD = b'{"name": "a", "scheduleType": "immediate", "task": "rota.echo", '
TOO_MANY_VALUES = "values"
TOO_MANY_JOBS = "at most 10000 jobs"


def with_payload(text):
    return HEAD + b'"payload": ' + text + b"}"


def fields(count, first=b'"x": 1'):
    return b"{" + b",".join([first, *(b'"f%d":1' % number for number in range(count))]) + b"}"


BATCHES = [
    pytest.param(b"1\n" * MANY, LINES, TOO_MANY_JOBS, id="lines"),
    pytest.param(b"\n" * MANY, LINES, TOO_MANY_JOBS, id="empty lines"),
    pytest.param(b"[" + b"{}," * MANY + b"{}]", {}, TOO_MANY_JOBS, id="empty objects"),
    pytest.param(b"[" + b"1," * MANY + b"1]", {}, TOO_MANY_JOBS, id="numbers"),
    pytest.param(b"[" + with_payload(b'{"a": [' + b"[]," * MANY + b"1]}") + b"]", {}, TOO_MANY_VALUES, id="one job"),
]
JOBS = [
    pytest.param(with_payload(fields(MANY)), id="fields"),
    pytest.param(with_payload(fields(MANY, b'"\\u003a": 1')), id="fields and an escaped colon"),
    pytest.param(with_payload(b'{"a": [' + b"{}," * MANY + b"1]}"), id="empty objects"),
    pytest.param(HEAD + b'"tags": [' + b'"a",' * MANY + b'"a"]}', id="tags"),
    pytest.param(b"[" * MANY, id="brackets"),
]


async def refused(api, path, body, headers):
    """The answer, and how much memory it took at most besides the body."""
    tracemalloc.start()
    try:
        answer = await api.post(path, content=body, headers=headers)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status_code == 400, answer.text
    return answer, peak


@pytest.mark.parametrize(("body", "headers", "words"), BATCHES)
async def test_a_batch_with_far_too_much_in_it_is_refused_before_it_is_read(api, sql, body, headers, words):
    answer, peak = await refused(api, "/v1/jobs/batch", body, headers)
    assert words in answer.json()["detail"]
    # The test's client holds the body, the server its copy; ten thousand lines or items may have been looked at.
    assert peak < 4 * len(body) + 50 * 2**20
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0


@pytest.mark.parametrize("body", JOBS)
async def test_a_job_with_far_too_many_values_is_refused_before_it_is_read(api, body):
    answer, peak = await refused(api, "/v1/jobs", body, {})
    assert TOO_MANY_VALUES in answer.json()["detail"]
    assert peak < 5 * len(body) + 10 * 2**20


@pytest.mark.parametrize("number", [b"7" * 4200, b"0." + b"7" * 60 + b"e-300"], ids=["whole", "fraction"])
async def test_a_job_with_long_numbers_for_seconds_of_work_is_refused(api, number):
    numbers = b",".join([number] * (3 * 2**20 // len(number)))
    answer = await api.post("/v1/jobs", content=with_payload(b'{"a": [' + numbers + b"]}"))
    assert answer.status_code == 400
    assert "send long ones as text" in answer.json()["detail"]
    few, text = b'{"a": [' + number + b"]}", b'{"a": "\\"' + numbers.replace(b",", b" ") + b'"}'
    for taken in (few, text):
        assert (await api.post("/v1/jobs", content=with_payload(taken))).status_code == 201


async def test_of_a_batch_only_the_job_with_too_many_values_is_refused(api):
    good, bad = json.dumps(job()).encode(), with_payload(fields(MOST_VALUES))
    for body, headers in ((b"[" + good + b"," + bad + b"]", {}), (good + b"\n" + bad, LINES)):
        first, second = (await api.post("/v1/jobs/batch", content=body, headers=headers)).json()["results"]
        assert first["status"] == "queued"
        assert TOO_MANY_VALUES in second["error"]["detail"]


async def test_as_many_values_as_may_be_and_commas_in_texts_are_taken(api):
    table = msgspec.json.encode({"csv": 'a,"b",{c}[\n' * MOST_VALUES})
    for payload in (fields(MOST_VALUES - 10), table, fields(1000, b'"\\u003a": ":"')):
        answer = await api.post("/v1/jobs", content=with_payload(payload))
        assert answer.status_code == 201, answer.text


LARGE = [job(payload={"number": number, "text": "x" * 300}) for number in range(10_000)]
UNKNOWN = [{f"scheduleTimf{number:02}": 1 for number in range(20)}] * 400


@pytest.mark.parametrize(("batch", "is_bad"), [(LARGE, False), (UNKNOWN, True)], ids=["large", "full of mistakes"])
async def test_other_requests_go_on_while_a_costly_batch_is_read(api, batch, is_bad):
    """The longest time in which nothing else had its turn is a small part of all the time it took to compute."""
    body = msgspec.json.encode(batch)
    stretches, done = [], asyncio.Event()

    async def watch():
        while not done.is_set():
            began = time.thread_time()
            await asyncio.sleep(0)
            stretches.append(time.thread_time() - began)

    gc.collect()
    gc.freeze()  # what the other tests left is not looked at again in the middle of this
    watching = asyncio.create_task(watch())
    answer = await api.post("/v1/jobs/batch", content=body)
    done.set()
    await watching
    assert all(("error" in result) == is_bad for result in answer.json()["results"])
    assert max(stretches) < sum(stretches) / 5


async def test_what_a_batch_makes_of_its_jobs_counts_as_memory(api):
    budget = api.services.body_budget
    budget.most_bytes = 400 * BYTES_PER_JOB
    batch = [job() for _ in range(150)]
    with budget.hold("default") as others:
        others.grow_by(100 * BYTES_PER_JOB)
        for body, headers in (
            (msgspec.json.encode(batch), {}),
            (b"\n".join(map(msgspec.json.encode, batch)), LINES),
        ):
            answer = await api.post("/v1/jobs/batch", content=body, headers=headers)
            assert (answer.status_code, answer.json()["title"]) == (503, "Overloaded")
            assert budget.held == others.size
    assert (await api.post("/v1/jobs/batch", json=batch)).status_code == 200


def test_one_namespace_leaves_half_of_the_memory_to_the_others():
    budget = BodyBudget(100)
    with budget.hold("greedy") as first, budget.hold("greedy") as second, budget.hold("modest") as other:
        first.grow_by(40)
        with pytest.raises(OverloadedError, match="of this namespace"):
            second.grow_by(20)
        other.grow_by(50)
        second.grow_by(10)
        with pytest.raises(OverloadedError):
            other.grow_by(1)
    assert (budget.held, dict(budget.held_by)) == (0, {})


scalars = st.none() | st.booleans() | st.integers() | st.text('[]{}":,\\a')
trees = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}":,\\'), inner))


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(trees), st.sampled_from([None, 1]))
def test_an_array_is_split_where_its_items_end(items, indent):
    text = json.dumps(items, indent=indent).encode()
    assert [json.loads(item) for item in items_of(text)] == items


@pytest.mark.parametrize(
    "text", ["", "{}", "1", "[", "[1", "[1,", "[1,]", "[,1]", "[,]", "[}", "[1}", '["a]', "[{]", "[1] 2", "1 []", "[[]"]
)
def test_what_is_no_array_is_not_split(text):
    with pytest.raises(BadInputError, match="not valid JSON"):
        list(items_of(text.encode()))


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.text('[]{}":,\\'), max_size=30), st.integers(-3, 3))
def test_values_are_counted_right_whatever_the_texts_between_them_hold(texts, more):
    filler = b",1" * (MOST_VALUES - 1 - len(texts) + more)
    text = b"[" + b",".join(json.dumps(each).encode() for each in [*texts, ""]) + filler + b"]"
    assert has_too_many_values(text) == (more > 0)


@settings(max_examples=examples(100), deadline=None)
@given(st.text('\\:u03aA"'), st.booleans())
def test_escaped_colons_do_not_hide_a_repeated_name(name, twice):
    escaped = json.dumps(name).replace(":", "\\u003A")
    again = ', "b": 2' if twice else ""
    text = f'{{{escaped}: 1, "other\\u003a": {{"b": 1{again}}}}}'.encode()
    assert has_repeated_name(text, msgspec.json.decode(text)) == twice
