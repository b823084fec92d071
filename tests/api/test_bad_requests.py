"""Requests that are refused: 4xx as a problem document, and the database as it was before."""

import json

import httpx
import pytest

from rota.access.authorization import PUBLIC
from rota.api.routes import OPERATIONS
from support import job

pytestmark = pytest.mark.asyncio(loop_scope="module")
DIGITS = "0" * 32
UNKNOWN_JOB = f"/v1/jobs/job_{DIGITS}"
UNKNOWN_RUN = f"/v1/runs/run_{DIGITS}"
OF_A_JOB = [("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/status"), ("GET", "/runs")]
OF_A_RUN = [("GET", ""), ("POST", "/cancel"), ("POST", "/retry")]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/v1/pools/a%2Fb/pause", 404), ("POST", "/v1/pools/%20/pause", 400), ("GET", "/v1/events?cursor=x", 400)],
)
async def test_bad_pools_and_cursors_are_refused(spared, method, path, status):
    answer = await spared.api.request(method, path)
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("version", ["one", '"x"', "", '"1", "2"', "-1"], ids=repr)
async def test_an_if_match_that_is_no_version_is_refused(spared, version):
    await spared.refuses(
        "PUT", f"/v1/jobs/{spared.job_ids[0]}", json={"name": "new"}, headers={"If-Match": version}, field="If-Match"
    )


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"], ids=["empty", "too long", "a tab"])
async def test_an_idempotency_key_that_is_none_is_refused(spared, key):
    await spared.refuses("POST", "/v1/jobs", json=job(), headers={"Idempotency-Key": key}, field="Idempotency-Key")


@pytest.mark.parametrize(
    "text",
    [f"run_{DIGITS}", DIGITS, "1", f"job_{DIGITS}0", f"job_{'F' * 32}", "job_00000000-0000-0000-0000-000000000000"],
)
async def test_an_id_that_can_be_no_jobs_is_not_found_by_any_call(spared, text):
    for method, tail in OF_A_JOB:
        body = {"name": "new"} if method == "PUT" else None
        await spared.refuses(method, f"/v1/jobs/{text}{tail}", json=body, status=404)


@pytest.mark.parametrize("text", [f"job_{DIGITS}", DIGITS, "run_", "run_%00"])
async def test_an_id_that_can_be_no_runs_is_not_found_by_any_call(spared, text):
    for method, tail in OF_A_RUN:
        await spared.refuses(method, f"/v1/runs/{text}{tail}", status=404)


@pytest.mark.parametrize(("method", "tail"), OF_A_JOB)
async def test_a_job_that_does_not_exist_is_not_found(spared, method, tail):
    body = {"name": "new"} if method == "PUT" else None
    await spared.refuses(method, f"{UNKNOWN_JOB}{tail}", json=body, status=404)


@pytest.mark.parametrize(("method", "tail"), OF_A_RUN)
async def test_a_run_that_does_not_exist_is_not_found(spared, method, tail):
    await spared.refuses(method, f"{UNKNOWN_RUN}{tail}", status=404)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic dGVzdDp0ZXN0",
        "test-token",
        "Bearer test-token2",
        "Bearer é",
    ],
    ids=repr,
)
async def test_without_the_token_nothing_is_answered(spared, authorization):
    before = await spared.contents()
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    async with httpx.AsyncClient(transport=spared.api._transport, base_url="http://rota", headers=headers) as stranger:
        for operation in OPERATIONS:
            names = {"jobId": f"job_{DIGITS}", "runId": f"run_{DIGITS}", "keyId": f"key_{DIGITS}", "pool": "default"}
            names |= {"subject": "somebody", "task": "tidy", "operationId": f"op_{DIGITS}"}
            names |= {
                "workflowId": "nightly",
                "workflowRunId": f"wfr_{DIGITS}",
                "node": "a",
                "signal": "go",
                "calendar": "holidays",
                "destination": "pager",
                "rule": "disk",
                "silenceId": f"silence_{DIGITS}",
                "day": "20200101",
            }
            path = operation.path.format(**names)
            answer = await stranger.request(operation.method, path, json=job() if operation.body else None)
            public = operation.needs == PUBLIC
            assert answer.status_code in (200, 400) if public else (answer.status_code == 401), answer.text
            if not public:
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.headers["www-authenticate"] == "Bearer"
    assert await spared.contents() == before


@pytest.mark.parametrize("path", ["/v1", "/v1/nothing", f"{UNKNOWN_JOB}/nothing", "/v2/jobs"])
async def test_an_unknown_path_is_not_found(spared, path):
    await spared.refuses("GET", path, status=404)


async def test_a_path_that_leads_upwards_is_no_job(spared):
    await spared.refuses("GET", "/v1/jobs/%2e%2e", status=404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/jobs"),
        ("PATCH", UNKNOWN_JOB),
        ("GET", f"{UNKNOWN_JOB}/run"),
        ("PUT", UNKNOWN_RUN),
        ("POST", "/v1/workers"),
        ("POST", "/openapi.json"),
    ],
)
async def test_a_wrong_method_is_refused_saying_which_would_do(spared, method, path):
    answer = await spared.refuses(method, path, status=405)
    assert answer.headers["allow"]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/runs"])
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "501"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "1.5"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": f"job_{DIGITS}"}, "cursor"),
        ({"cursor": DIGITS + "\n"}, "cursor"),
        ({"status": ""}, "status"),
        ({"status": "broken"}, "status"),
        ({"status": "queued,broken"}, "status"),
        ({"startTime": "yesterday"}, "startTime"),
        ({"startTime": "2026-01-01"}, "startTime"),
        ({"startTime": "2026-01-01T00:00:00"}, "startTime"),
        ({"endTime": "1767225600000000"}, "endTime"),
        ({"endTime": "1e9"}, "endTime"),
        ({"endTime": ""}, "endTime"),
        ({"sort": "name"}, "sort"),
        ({"Limit": "5"}, "Limit"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_bad_query_parameter_is_refused_with_its_name(spared, path, query, field):
    answer = await spared.api.get(path, params=query)
    assert answer.status_code == 400, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", UNKNOWN_JOB), ("POST", "/v1/jobs"), ("GET", "/v1/workers"), ("GET", "/healthz"), ("DELETE", UNKNOWN_JOB)],
)
async def test_a_query_parameter_where_there_is_none_is_refused(spared, method, path):
    await spared.refuses(method, path, params={"hard": "true"}, field="hard")


async def _in_pieces(size):
    for _ in range(size // 65536):
        yield b" " * 65536


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda: b" " * 12_000_000, id="announced"),
        pytest.param(lambda: _in_pieces(13_000_000), id="streamed"),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/jobs"), ("PUT", UNKNOWN_JOB), ("POST", "/v1/runs/cancel")])
async def test_an_oversized_body_is_refused(spared, method, path, content):
    await spared.refuses(method, path, content=content(), status=413)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/runs/cancel", {}, None),
        ("/v1/runs/cancel", {"status": "success"}, "status"),
        ("/v1/runs/cancel", {"status": ["queued"]}, "status"),
        ("/v1/runs/cancel", {"startTime": "2026-01-01T00:00:00"}, "startTime"),
        ("/v1/runs/cancel", {"runIds": []}, "runIds"),
        ("/v1/dead-letters/redrive", {}, None),
        ("/v1/dead-letters/redrive", {"runIds": [f"job_{DIGITS}"]}, "runIds[0]"),
        ("/v1/dead-letters/redrive", {"runIds": []}, "runIds"),
        ("/v1/dead-letters/discard", {"jobId": "a b"}, "jobId"),
        ("/v1/dead-letters/discard", {"runIds": [f"run_{DIGITS}"], "all": True}, "runIds"),
        ("/v1/dead-letters/discard", {"all": "yes"}, "all"),
    ],
    ids=json.dumps,
)
async def test_a_bad_selection_is_refused_with_its_field(spared, path, body, field):
    await spared.refuses("POST", path, json=body, field=field)


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[", b'[{"name": "a"}', b"[1,]"],
    ids=repr,
)
async def test_a_batch_that_is_no_array_is_refused(spared, body):
    await spared.refuses("POST", "/v1/jobs/batch", content=body)
