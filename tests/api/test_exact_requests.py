"""Requests mean one thing: names can be told apart by eye, headers come once, and a path has its own methods."""

from __future__ import annotations

import json

import msgspec
import pytest

from rota.api import openapi
from rota.api.routes import OPERATIONS
from rota.contract.access import KeyIn
from support import job

UNSEEN = [
    "\x85",
    "\x9b",
    "\xad",
    "\u061c",
    "\u200b",
    "\u200d",
    "\u200f",
    "\u2028",
    "\u202e",
    "\u2060",
    "\u2066",
    "\ufeff",
]


@pytest.mark.parametrize("sign", UNSEEN, ids=ascii)
async def test_names_and_tags_have_no_characters_that_are_not_seen(api, sign):
    for wanted in (job(name=f"pay{sign}roll"), job(tags=[f"a{sign}"])):
        assert (await api.post("/v1/jobs", json=wanted)).status_code == 400
    key = {"name": "k", "role": "viewer"}
    for wanted in (key | {"name": f"k{sign}"}, key | {"owner": f"ali{sign}ce"}):
        assert (await api.post("/v1/keys", json=wanted)).status_code == 400


@pytest.mark.parametrize("owner", [" alice", "alice ", "\u00a0alice", "alice\u3000", "\talice", " "])
async def test_an_owner_does_not_begin_or_end_with_a_space(api, owner):
    assert (await api.post("/v1/keys", json={"name": "k", "role": "viewer", "owner": owner})).status_code == 400


@pytest.mark.parametrize("name", ["Zahlungslauf für Jürgen", "給与計算", "x", "a b", "🚀 start", "O'Neil, Ltd."])
def test_names_of_all_languages_are_fine(name):
    assert msgspec.convert({"name": name, "role": "viewer", "owner": name}, KeyIn).owner == name


async def test_what_was_stored_with_such_a_name_can_still_be_found(api, sql):
    assert (await api.post("/v1/jobs", json=job(name="old"))).status_code == 201
    await sql.execute("UPDATE rota.live_runs SET name = E'ol\\u200bd'")
    found = (await api.get("/v1/runs", params={"name": "ol\u200bd"})).json()
    assert [run["name"] for run in found["items"]] == ["ol\u200bd"]


@pytest.mark.parametrize(
    ("method", "path", "name", "status"),
    [
        ("GET", "/v1/jobs", "Rota-Namespace", 400),
        ("POST", "/v1/jobs", "Idempotency-Key", 400),
        ("PUT", f"/v1/jobs/job_{'0' * 32}", "If-Match", 400),
    ],
)
async def test_a_header_that_means_one_thing_is_given_once(api, method, path, name, status):
    value = '"1"' if name == "If-Match" else "default"
    body = job() if method == "POST" else {"name": "b"} if method == "PUT" else None
    for second in (value, "other"):
        answer = await api.request(method, path, headers=[(name, value), (name, second)], json=body)
        assert answer.status_code == status, answer.text
        assert name in answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH", "PUT", "HEAD"])
async def test_a_path_of_its_own_is_not_taken_for_an_id(api, method):
    answer = await api.request(method, "/v1/jobs/batch")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_the_answer_to_a_wrong_method_lists_the_right_ones(api):
    answer = await api.request("TRACE", "/v1/jobs")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/jobs%0A", 404), ("/v1/limits%0A", 404), ("/v1/limits/%0A", 400), ("/v1/limits/a%0A", 400)],
)
async def test_a_line_break_at_the_end_of_a_path_is_part_of_it(api, path, status):
    answer = await api.put(path, json={"mostWaiting": 3})
    assert answer.status_code == status, answer.text


async def test_a_subject_with_a_line_break_within_is_bad_input(api):
    answer = await api.put("/v1/limits/a%0Ab", json={"mostWaiting": 3})
    assert answer.status_code == 400


def test_every_answer_that_any_operation_can_give_is_in_the_document():
    document = json.loads(msgspec.json.encode(openapi.document(OPERATIONS, "test")))
    for operation in OPERATIONS:
        described = document["paths"][operation.path][operation.method.lower()]["responses"]
        kinds = described[str(operation.status)]["content"].keys()
        assert ("text/event-stream" in kinds) == ("follow" in operation.query)
        if operation.needs != "public":
            assert {"401", "403", "429", "503"} <= described.keys()
        if operation.body:
            assert "413" in described
