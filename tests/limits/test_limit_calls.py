"""Limits through the API: set, lifted, listed, and in force."""

from __future__ import annotations

import asyncio

import pytest

from rota.domain.limits import Limits
from support import eventually, job

FIELDS = (
    "requestsPerSecond",
    "requestBurst",
    "jobsPerSecond",
    "jobBurst",
    "mostWaiting",
    "largestPayloadBytes",
    "largestBatch",
    "mostFanOut",
)


async def put(api, subject="", **limits):
    answer = await api.put(f"/v1/limits/{subject}" if subject else "/v1/limits", json=limits)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def items(api, **query):
    answer = await api.get("/v1/limits", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_what_is_not_named_stays_and_null_lifts(api):
    first = await put(api, requestsPerSecond=10, mostWaiting=5, largestBatch=100)
    assert (first["subject"], first["requestBurst"], first["mostFanOut"]) == (None, 50, None)
    second = await put(api, requestsPerSecond=None, mostFanOut=7)
    assert {name: second[name] for name in FIELDS} == {
        **dict.fromkeys(FIELDS),
        "mostWaiting": 5,
        "largestBatch": 100,
        "mostFanOut": 7,
    }
    assert second["changedTime"] > first["changedTime"]
    (listed,) = (await items(api))["items"]
    assert listed.pop("waiting", 0) == 0
    assert listed == second


async def test_limits_are_listed_with_what_is_left_page_by_page(api):
    for subject in ("carol", "alice", "bob"):
        await put(api, subject, jobsPerSecond=0.001, jobBurst=10, requestsPerSecond=1)
    await put(api, jobsPerSecond=1000)
    await api.services.limiter.take("default", "bob", "jobs", 4)
    first = await items(api, limit=1)
    assert first["items"][0]["subject"] is None
    rest = await items(api, cursor=first["nextCursor"])
    shown = [(item["subject"], item["jobsLeft"], item["requestsLeft"]) for item in rest["items"]]
    assert shown == [("alice", 10, 5), ("bob", 6, 5), ("carol", 10, 5)]
    assert rest["nextCursor"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"requestsPerSecond": 0}, "requestsPerSecond"),
        ({"requestsPerSecond": -1}, "requestsPerSecond"),
        ({"jobsPerSecond": 10_000_000}, "jobsPerSecond"),
        ({"jobsPerSecond": "many"}, "jobsPerSecond"),
        ({"requestBurst": 0}, "requestBurst"),
        ({"jobBurst": 1.5}, "jobBurst"),
        ({"mostWaiting": -1}, "mostWaiting"),
        ({"largestPayloadBytes": 0}, "largestPayloadBytes"),
        ({"largestBatch": 10**12}, "largestBatch"),
        ({"mostFanOut": -1}, "mostFanOut"),
        ({"mostJoy": 1}, "mostJoy"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/limits", "/v1/limits/alice"])
async def test_what_can_be_no_limit_is_refused_by_its_name(api, path, body, field):
    answer = await api.put(path, json=body)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_a_change_that_changes_nothing_and_subjects_that_can_be_none_are_refused(api):
    assert (await api.put("/v1/limits", json={})).json()["detail"] == "give at least one limit to change"
    assert (await api.put("/v1/limits/" + "x" * 201, json={"mostWaiting": 1})).status_code == 400
    assert (await api.get("/v1/limits", params={"cursor": "alice"})).status_code == 400


async def test_what_holds_by_default_is_written_down_with_the_first_limit_of_somebody(make_api):
    defaults = Limits(requests_per_second=10.0, most_waiting=100, most_fan_out=1000)
    async with make_api(defaults=defaults) as api:
        made = await put(api, "alice", jobsPerSecond=5)
        kept = ("requestsPerSecond", "jobsPerSecond", "mostWaiting", "mostFanOut")
        assert [made[name] for name in kept] == [10, 5, 100, None]
        lifted = await put(api, "alice", requestsPerSecond=None)
        assert [lifted[name] for name in kept] == [None, 5, 100, None]
        whole = await put(api, jobsPerSecond=5)
        assert [whole[name] for name in kept] == [None, 5, None, None], "defaults are those of a key"


async def test_who_has_no_limit_left_is_not_listed_any_more(api):
    await put(api, requestsPerSecond=10, mostWaiting=5)
    await put(api, "alice", mostWaiting=5)
    await put(api, requestsPerSecond=None, mostWaiting=None)
    await put(api, "alice", mostWaiting=None)
    assert await items(api) == {"items": [], "nextCursor": None}


async def test_who_is_freed_of_the_defaults_is_listed_without_limits(make_api):
    async with make_api(defaults=Limits(most_waiting=100)) as api:
        await put(api, "alice", mostWaiting=None)
        await put(api, mostWaiting=None)
        (listed,) = (await items(api))["items"]
        assert (listed["subject"], listed["mostWaiting"]) == ("alice", None)


async def test_settings_limit_those_of_whom_nothing_is_said(make_api, somebody):
    alice = await somebody("submitter")
    async with make_api(defaults=Limits(jobs_per_second=0.001, job_burst=2)) as api:

        async def submit(**headers):
            return (await api.post("/v1/jobs", json=job(), headers=headers)).status_code

        authorization = alice.headers["Authorization"]
        assert [await submit(Authorization=authorization) for _ in range(3)] == [201, 201, 429]
        assert [await submit() for _ in range(3)] == [201, 201, 201]  # the admin token is for those who mend things
        await put(api, "alice", jobsPerSecond=None)
        assert await submit(Authorization=authorization) == 201


async def test_requests_are_limited_by_key_by_owner_and_by_namespace(api, somebody):
    first, second = await somebody("viewer"), await somebody("viewer")
    await put(api, first.key["keyId"], requestsPerSecond=0.001, requestBurst=2)
    assert [(await first.get("/v1/jobs")).status_code for _ in range(3)] == [200, 200, 429]
    assert (await second.get("/v1/jobs")).status_code == 200
    await put(api, "alice", requestsPerSecond=0.001, requestBurst=1)
    answers = [await second.get("/v1/jobs") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    assert [answer.headers["ratelimit-remaining"] for answer in answers] == ["0", "0"]
    assert "the limit of 'alice'" in answers[1].json()["detail"]
    carol = await somebody("viewer", owner="carol")
    await put(api, requestsPerSecond=0.001, requestBurst=1)
    assert [(await carol.get("/v1/jobs")).status_code for _ in range(2)] == [200, 429]
    await put(api, requestsPerSecond=None)  # the admin token is let in to lift it
    assert (await carol.get("/v1/jobs")).status_code == 200


async def test_who_is_refused_uses_up_their_own_limits_and_nobody_elses(api, somebody):
    mallory = await somebody("viewer", owner="mallory", namespace="acme")
    headers = {"Rota-Namespace": "acme"}
    await api.put("/v1/limits/mallory", json={"requestsPerSecond": 0.001, "requestBurst": 3}, headers=headers)
    await put(api, requestsPerSecond=0.001, requestBurst=5)
    statuses = [
        (await mallory.post("/v1/pools/default/pause", headers={"Rota-Namespace": "default"})).status_code
        for _ in range(6)
    ]
    assert statuses == [403, 403, 403, 429, 429, 429]
    assert (await api.get("/v1/jobs")).status_code == 200
    assert (await api.get("/v1/audit", params={"actor": "mallory"})).json()["items"] == []
    (entry,) = (await api.get("/v1/audit", params={"actor": "mallory"}, headers=headers)).json()["items"]
    assert entry["request"] == {"namespace": "default"}, "the others are counted, and recorded as one entry later"


async def test_jobs_that_come_too_fast_are_refused_with_the_usual_headers(api):
    await put(api, jobsPerSecond=0.01, jobBurst=3)
    answers = [await api.post("/v1/jobs", json=job()) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 429]
    refused = answers[-1]
    assert refused.json()["title"] == "Rate limited"
    assert refused.json()["type"] == "urn:rota:rate-limited"
    assert refused.json()["detail"] == "too many jobs: the limit of namespace 'default' is 0.01 a second"
    names = ("retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset")
    assert [refused.headers[name] for name in names] == ["100", "3", "0", "300"]


async def test_a_batch_takes_as_many_as_it_has_or_none(api, somebody):
    alice = await somebody("submitter")
    await put(api, "alice", jobsPerSecond=0.01, jobBurst=5)
    assert (await alice.post("/v1/jobs/batch", json=[job()] * 3)).status_code == 200
    assert (await alice.post("/v1/jobs/batch", json=[job()] * 3)).status_code == 429
    assert (await alice.post("/v1/jobs/batch", json=[job()] * 2)).status_code == 200
    refused = await alice.post("/v1/jobs/batch", json=[job()] * 6)
    assert (refused.status_code, refused.json()["title"]) == (413, "Too large")
    assert refused.json()["detail"] == "6 jobs at once; the limit of 'alice' allows at most 5"
    assert (await api.post("/v1/jobs/batch", json=[])).status_code == 200
    assert len((await api.get("/v1/runs")).json()["items"]) == 5


async def test_a_change_made_through_another_server_is_in_force_soon(api, make_api):
    async with make_api() as elsewhere:
        await put(elsewhere, jobsPerSecond=0.001, jobBurst=1)

        async def is_refused():
            return (await api.post("/v1/jobs", json=job())).status_code == 429

        await eventually(is_refused)


async def test_two_who_change_at_once_both_get_their_way_and_every_change_is_read(api, make_api):
    async with make_api() as elsewhere:
        await asyncio.gather(
            *(put(one, mostWaiting=10) for one in (api, elsewhere)),
            *(put(one, f"s{number}", largestBatch=number + 1) for number in range(20) for one in (api, elsewhere)),
            put(api, largestBatch=3),
            put(elsewhere, mostFanOut=4),
        )
        for one in (api, elsewhere):
            limits = one.services.gateway.limits
            await limits.read()
            whole = limits.of("default", "")
            assert (whole.most_waiting, whole.largest_batch, whole.most_fan_out) == (10, 3, 4)
            assert [limits.of("default", f"s{number}").largest_batch for number in range(20)] == list(range(1, 21))
