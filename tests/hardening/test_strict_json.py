"""JSON that decoders read differently, or that costs too much to read, is refused; all else comes back as it was."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rota.contract.json_rules import MOST_LEVELS, has_repeated_name, is_too_deep
from support import examples, job

HEAD = '{"name": "a", "scheduleType": "immediate", "task": "rota.echo"'


def with_payload(text):
    return (HEAD + ', "payload": ').encode() + (text if isinstance(text, bytes) else text.encode()) + b"}"


def nested(levels):
    """A payload of this many levels."""
    return '{"a": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


REPEATED = "fields of the same name"
DEEP = "levels deep"
REFUSED = [
    pytest.param(with_payload(nested(MOST_LEVELS + 1)), DEEP, id="one level too deep"),
    pytest.param(with_payload(nested(900)), DEEP, id="far too deep"),
    pytest.param(with_payload('{"a": "]]]]", "b": ' + nested(MOST_LEVELS) + "}"), DEEP, id="brackets in strings"),
    pytest.param(with_payload('{"a": "\\\\\\"]]", "b": ' + nested(MOST_LEVELS) + "}"), DEEP, id="escaped quotes"),
    pytest.param(with_payload('{"a": 1, "a": 2}'), REPEATED, id="a name twice in a payload"),
    pytest.param(with_payload('{"a": {"b": [{"c": 1, "c": 1}]}}'), REPEATED, id="a name twice deep in a payload"),
    pytest.param(with_payload('{"a" :1, "b": 1, "b" : 2}'), REPEATED, id="blanks before the colons"),
    pytest.param(with_payload('{"a": 1, "\\u0061": 2}'), REPEATED, id="the second name as escapes"),
    pytest.param(with_payload('{"a": "\\u003a", "b": 1, "b": 2}'), REPEATED, id="a colon as an escape"),
    pytest.param(with_payload('{"a": "' + "x" * 5000 + '", "b": 1, "b": 2}'), REPEATED, id="twice in a large payload"),
    pytest.param((HEAD + ', "name": "b"}').encode(), REPEATED, id="the job's name twice"),
    pytest.param((HEAD + ', "retry": {"jitter": 0, "jitter": 1}}').encode(), REPEATED, id="twice in a policy"),
    pytest.param(
        (HEAD + ', "payload": {"a": "' + "x" * 5000 + '"}, "payload": {}}').encode(), REPEATED, id="the payload twice"
    ),
    pytest.param(with_payload(b'{"a": "\xff"}'), "valid JSON", id="not UTF-8"),
    pytest.param(with_payload(b'{"a": "\xed\xa0\x80"}'), "valid JSON", id="a surrogate in UTF-8"),
    pytest.param(with_payload('{"a": "\\ud800"}'), "", id="half a pair of surrogates"),
    pytest.param(with_payload('{"a": "\\udc00\\ud800"}'), "", id="surrogates the wrong way round"),
    pytest.param(with_payload('{"a": 1e999}'), "valid JSON", id="a number too large"),
    pytest.param(with_payload('{"a": ' + "9" * 5000 + "}"), "valid JSON", id="far too many digits"),
    pytest.param(with_payload('{"a": 01}'), "", id="a number that begins with nought"),
    pytest.param(with_payload('{"a": NaN}'), "", id="not a number"),
    pytest.param(b"\xef\xbb\xbf" + json.dumps(job()).encode(), "", id="a byte order mark"),
    pytest.param((HEAD + ', "uniqueKey": "a\\u0000"}').encode(), "uniqueKey", id="NUL in a key"),
    pytest.param((HEAD + ', "tags": ["a\\u0000"]}').encode(), "tags", id="NUL in a tag"),
    pytest.param((HEAD + ', "headers": {"a": "\\u0000"}}').encode(), "headers", id="NUL in a header"),
]


@pytest.mark.parametrize(("body", "words"), REFUSED)
async def test_it_is_refused_alone_and_in_batches(api, sql, body, words):
    answer = await api.post("/v1/jobs", content=body)
    assert answer.status_code == 400, answer.text
    assert words in answer.text
    good = json.dumps(job()).encode()
    lines = await api.post(
        "/v1/jobs/batch", content=good + b"\n" + body, headers={"Content-Type": "application/x-ndjson"}
    )
    first, second = lines.json()["results"]
    assert first["status"] == "queued"
    assert (second["error"]["status"], words in second["error"]["detail"]) == (400, True)
    array = await api.post("/v1/jobs/batch", content=b"[" + good + b"," + body + b"]")
    assert array.status_code == 200, array.text
    assert [result.get("error", {}).get("status") for result in array.json()["results"]] == [None, 400]


KEPT = [
    pytest.param(nested(MOST_LEVELS), id="as deep as may be"),
    pytest.param('{"a": [' + ", ".join(['{"b": [1]}'] * 200) + "]}", id="many brackets"),
    pytest.param('{"a": "' + "[" * 500 + '"}', id="brackets in a string"),
    pytest.param('{"a": "x\\u0000y", "b\\u0000": 1}', id="NUL"),
    pytest.param('{"a": "\\u003a\\u007b", "b": {"a": 1}}', id="escapes"),
    pytest.param('{"a": "\\ud83d\\ude00", "b": "\U0001f600"}', id="a pair of surrogates"),
    pytest.param('{"a": 1e-999, "b": -0, "c": 123456789012345678901234567890}', id="odd numbers"),
    pytest.param('{"": {"": 1}}', id="empty names"),
]


@pytest.mark.parametrize("text", KEPT)
async def test_it_comes_back_as_it_was(api, text):
    answer = await api.post("/v1/jobs", content=with_payload(text))
    assert answer.status_code == 201, answer.text
    job_id = answer.json()["jobId"]
    assert json.loads((await api.get(f"/v1/jobs/{job_id}")).content)["payload"] == json.loads(text)


async def test_a_change_is_read_as_strictly(api):
    job_id = (await api.post("/v1/jobs", json=job(scheduleType="cron", cronExpression="0 9 * * *"))).json()["jobId"]
    for body in (b'{"name": "b", "name": "c"}', b'{"payload": ' + nested(65).encode() + b"}"):
        assert (await api.put(f"/v1/jobs/{job_id}", content=body)).status_code == 400


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text('[]{}":,\\a')
trees = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}":\\a'), inner), max_leaves=60
)


def depth_of(value):
    if not isinstance(value, list | dict):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max((depth_of(item) for item in inside), default=0)


@settings(max_examples=examples(300), deadline=None)
@given(trees, st.integers(55, 70), st.sampled_from([None, 2]))
@example(["]", "]"], 64, None)
def test_the_depth_is_counted_right(tree, more, indent):
    for _ in range(more):
        tree = [tree]
    text = json.dumps(tree, indent=indent).encode()
    assert is_too_deep(text) == (depth_of(tree) > MOST_LEVELS)


def written(value, twice):
    """As JSON, with the first name of each object written twice if wanted."""
    if isinstance(value, dict):
        pairs = [(json.dumps(name), written(item, twice)) for name, item in value.items()]
        return "{" + ", ".join(f"{name} : {item}" for name, item in pairs[:1] * twice + pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(item, twice) for item in value) + "]"
    return json.dumps(value).replace(":", "\\u003a") if isinstance(value, str) and "[" in value else json.dumps(value)


def has_objects(value):
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and any(has_objects(item) for item in value)


@settings(max_examples=examples(300), deadline=None)
@given(trees, st.booleans())
def test_a_repeated_name_is_found_wherever_it_is(tree, twice):
    text = written(tree, twice).encode()
    assert has_repeated_name(text, msgspec.json.decode(text)) == (twice and has_objects(tree))
