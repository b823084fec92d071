"""Requests in the words that people bring from elsewhere: accepted as they are, answered in ours; the rest refused."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest

from rota.contract import aliases
from rota.contract.jobs import BatchJobIn, JobIn, JobPatch, SchedulePreviewIn
from rota.contract.runs import DeadLetterSelection, RunSelection
from support import eventually, job

ROOT = Path(__file__).parents[2]
CHOSEN_IDS = "job_id" in JobIn.__struct_fields__
CLEANUP = {
    "name": "Daily Cleanup",
    "scheduleType": "cron",
    "scheduleTime": "2027-01-22T02:00:00Z",
    "cronExpression": "0 0 2 * * *",
    "payload": {"script": "cleanup.py", "params": {"days": 30}},
    "maxRetries": 3,
}
EMAIL = {
    "job_type": "email_send",
    "schedule_time": "2027-12-31T23:59:59Z",
    "payload": {"user_id": 123},
    "retries": 3,
}
REPORT = {"taskId": "report", "schedule": {"type": "CRON", "expression": "0 9 * * *"}, "parameters": {"x": 1}}
COMMAND = {
    **({"job_id": "daily_report"} if CHOSEN_IDS else {}),
    "schedule": "0 0 * * *",
    "command": "python generate_report.py",
    "max_retries": 3,
    "timeout": 3600,
}
EXAMPLES = [CLEANUP, EMAIL, REPORT, COMMAND]
# What each of them is in our words.
UNDERSTOOD = [
    {
        "name": "Daily Cleanup",
        "scheduleType": "cron",
        "startTime": "2027-01-22T02:00:00Z",
        "cronExpression": "0 0 2 * * *",
        "task": "script",
        "payload": {"script": "cleanup.py", "params": {"days": 30}},
        "maxRetries": 3,
    },
    {
        "name": "email_send",
        "scheduleType": "future",
        "scheduleTime": "2027-12-31T23:59:59Z",
        "task": "email_send",
        "payload": {"user_id": 123},
        "maxRetries": 3,
    },
    {
        "name": "report",
        "scheduleType": "cron",
        "cronExpression": "0 9 * * *",
        "task": "report",
        "payload": {"x": 1},
    },
    {
        "scheduleType": "cron",
        "cronExpression": "0 0 * * *",
        "task": "shell",
        "payload": {"command": "python generate_report.py"},
        "maxRetries": 3,
        "timeoutSeconds": 3600.0,
    },
]
IDS = ["cleanup", "email", "report", "command"]


async def shown(api, job_id):
    return (await api.get(f"/v1/jobs/{job_id}")).json()


def parts_of(found, expected):
    return {name: found.get(name) for name in expected}


async def wrong_fields(api, body, *, method="POST", path="/v1/jobs"):
    """What is wrong with which field of a refused body."""
    answer = await api.request(method, path, json=body)
    assert answer.status_code == 400, answer.text
    return {error["field"]: error["message"] for error in answer.json()["errors"]}


async def understood(api, **fields):
    """A job that was submitted with these fields, as the API shows it."""
    answer = await api.post("/v1/jobs", json=fields)
    assert answer.status_code == 201, answer.text
    return await shown(api, answer.json()["jobId"])


@pytest.mark.parametrize(("body", "expected"), list(zip(EXAMPLES, UNDERSTOOD, strict=True)), ids=IDS)
async def test_requests_of_design_documents_are_accepted_as_they_are(api, body, expected):
    found = await understood(api, **body)
    assert parts_of(found, expected) == expected


@pytest.mark.parametrize("lines", [False, True], ids=["an array", "lines"])
async def test_they_are_accepted_in_a_batch(api, lines):
    if lines:
        content = "\n".join(map(json.dumps, EXAMPLES))
        options = {"content": content, "headers": {"Content-Type": "application/x-ndjson"}}
    else:
        options = {"json": [*EXAMPLES, job(), {"task": "rota.echo", "idempotency_key": "k"}]}
    results = (await api.post("/v1/jobs/batch", **options)).json()["results"]
    assert [result.get("error") for result in results] == [None] * len(results)
    for result, expected in zip(results, UNDERSTOOD, strict=False):
        assert parts_of(await shown(api, result["jobId"]), expected) == expected


async def test_the_template_of_a_set_can_be_in_other_words(api):
    wanted = {"job": {"job_type": "rota.echo", "retries": 1}, "payloads": [{"a": 1}, {"a": 2}]}
    answer = await api.post("/v1/jobs/batch", json=wanted)
    assert answer.json()["accepted"][0]["count"] == 2
    bad = await api.post("/v1/jobs/batch", json=wanted | {"job": {"jobTyp": "a", "retries": "x"}})
    assert {error["field"] for error in bad.json()["errors"]} == {"job.jobTyp", "job.maxRetries"}


@pytest.mark.parametrize(("body", "expected"), list(zip(EXAMPLES, UNDERSTOOD, strict=True)), ids=IDS)
async def test_they_are_accepted_as_changes(api, body, expected):
    recurring = "scheduleTime" not in expected
    interval, later = {"scheduleType": "interval", "everySeconds": 60}, {"scheduleType": "future", "delaySeconds": 9000}
    before = interval if recurring else later
    made = await understood(api, **job(task=expected["task"], payload=expected["payload"], **before))
    body = {name: made["jobId"] if name == "job_id" else value for name, value in body.items()}
    answer = await api.put(f"/v1/jobs/{made['jobId']}", json=body)
    assert answer.status_code == 200, answer.text
    expected = {name: value for name, value in expected.items() if name in body or name != "name"}
    assert parts_of(answer.json(), expected) == expected


async def test_a_change_may_repeat_the_id_and_the_type_but_not_name_others(api):
    made = await understood(api, **job(scheduleType="cron", cronExpression="0 9 * * *"))
    path = f"/v1/jobs/{made['jobId']}"
    same = {"job_id": made["jobId"], "scheduleType": "cron", "name": "new"}
    assert (await api.put(path, json=same)).json()["name"] == "new"
    assert await wrong_fields(api, {"jobId": "job_" + "0" * 32}, method="PUT", path=path) == {
        "jobId": "is not that of the path, and a job keeps its id"
    }
    assert "'cron'" in (await wrong_fields(api, {"scheduleType": "interval"}, method="PUT", path=path))["scheduleType"]
    changed = await api.put(path, json={"scheduleType": "interval", "every_seconds": 60})
    assert changed.json()["scheduleType"] == "interval"


def structs():
    return [JobIn, BatchJobIn, JobPatch, RunSelection, DeadLetterSelection, SchedulePreviewIn]


@pytest.mark.parametrize("kind", structs(), ids=lambda kind: kind.__name__)
def test_every_field_has_its_name_in_snake_case(kind):
    known = aliases.known_names(kind)
    for field in msgspec.structs.fields(kind):
        assert known[field.name] == known[field.encode_name] == field.encode_name


async def test_fields_within_fields_are_known_in_snake_case_too(api):
    found = await understood(
        api,
        task="rota.echo",
        retry={"base_seconds": 2, "max_seconds": 9},
        rate_limit={"limit": 5, "per_seconds": 60},
        breaker={"cooldown_seconds": 7},
        every_seconds=60,
        misfire={"window_seconds": 70},
    )
    assert (found["retry"]["baseSeconds"], found["rateLimit"]["perSeconds"]) == (2, 60)
    assert (found["breaker"]["cooldownSeconds"], found["misfire"]["windowSeconds"]) == (7, 70)


async def test_the_words_of_other_bodies_are_known_too(api):
    preview = {"cron_expression": "0 9 * * *", "count": 1, "after": 1_893_456_000}
    answer = await api.post("/v1/schedules/preview", json=preview)
    assert answer.json()["fireTimes"] == ["2030-01-01T09:00:00Z"]
    await api.post("/v1/jobs", json=job(scheduleType="future", delaySeconds=900))
    assert (await api.post("/v1/runs/cancel", json={"user_id": "nobody"})).json() == {"count": 0}
    everything = {"start_time": 0, "end_time": "2100-01-01T00:00:00Z"}
    assert (await api.post("/v1/runs/cancel", json=everything)).json() == {"count": 1}


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("@daily", {"scheduleType": "cron", "cronExpression": "@daily"}),
        ({"type": "cron", "expression": "0 9 * * *"}, {"scheduleType": "cron", "cronExpression": "0 9 * * *"}),
        ({"expression": "0 9 * * *"}, {"scheduleType": "cron", "cronExpression": "0 9 * * *"}),
        (
            {"type": "DATE", "expression": "2090-01-01T00:00:00Z"},
            {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"},
        ),
        ({"type": "Interval", "expression": 60}, {"scheduleType": "interval", "everySeconds": 60}),
        (
            {"scheduleType": "cron", "cronExpression": "0 9 * * *", "time_zone": None},
            None,
        ),
        (
            {"cron_expression": "0 9 * * *", "timezone": "Europe/Berlin", "startTime": "2090-01-01T00:00:00Z"},
            {"scheduleType": "cron", "timezone": "Europe/Berlin", "startTime": "2090-01-01T00:00:00Z"},
        ),
    ],
    ids=str,
)
async def test_a_schedule_can_be_an_expression_or_an_object(api, schedule, expected):
    if expected is None:
        assert "timezone" in (await wrong_fields(api, {"task": "a", "schedule": schedule}))["schedule.time_zone"]
        return
    assert parts_of(await understood(api, task="rota.echo", schedule=schedule), expected) == expected


@pytest.mark.parametrize("schedule", [{}, {"expression": None}, {"type": None, "expression": None}], ids=str)
async def test_a_schedule_with_nothing_in_it_does_not_mean_now(api, sql, schedule):
    assert (await wrong_fields(api, {"task": "rota.echo", "schedule": schedule})).keys() == {"schedule"}
    assert await sql.fetchval("SELECT count(*) FROM rota.runs") == 0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "immediate"),
        ({"delaySeconds": 900}, "future"),
        ({"scheduleTime": "2090-01-01T00:00:00Z"}, "future"),
        ({"everySeconds": 60}, "interval"),
        ({"cronExpression": "0 9 * * *", "scheduleTime": "2001-01-01T00:00:00Z"}, "cron"),
    ],
    ids=str,
)
async def test_without_a_type_it_follows_from_what_is_given_and_the_name_is_the_tasks(api, fields, expected):
    found = await understood(api, task="rota.echo", **fields)
    assert (found["scheduleType"], found["name"]) == (expected, "rota.echo")


async def test_a_time_beside_a_cron_expression_is_its_start(api):
    cron = {"cronExpression": "0 9 * * *", "scheduleTime": "2090-06-01T10:00:00Z", "task": "rota.echo"}
    found = await understood(api, **cron)
    assert found["nextFireTimes"][0] == "2090-06-02T09:00:00Z"
    past = await understood(api, **cron | {"scheduleTime": "2001-01-01T00:00:00Z"})
    assert datetime.fromisoformat(past["nextFireTimes"][0]) < datetime.now(UTC) + timedelta(days=2)
    both = await wrong_fields(api, cron | {"startTime": "2090-06-01T10:00:00Z"})
    assert both.keys() == {"scheduleTime"}


@pytest.mark.parametrize("number", [1_893_456_000, 1_893_456_000.0, 1_893_456_000_000], ids=str)
async def test_a_time_can_be_a_number_of_seconds_or_milliseconds(api, number):
    found = await understood(api, task="rota.echo", executionTime=number)
    assert found["scheduleTime"] == "2030-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"task": "a", "maxRetries": 3, "retries": 3}, "retries"),
        ({"task": "a", "retries": 3, "maxRetries": 3}, "retries"),
        ({"job_type": "a", "taskId": "a"}, "taskId"),
        ({"task": "a", "scheduleTime": "2090-01-01T00:00:00Z", "schedule_time": 5}, "schedule_time"),
        ({"task": "a", "schedule": "0 9 * * *", "cronExpression": "0 9 * * *"}, "schedule"),
        ({"task": "a", "schedule": {"timezone": "UTC"}, "timezone": "UTC"}, "schedule.timezone"),
        ({"task": "shell", "command": "true"}, "command"),
        ({"params": {}, "command": "true"}, "command"),
        ({"task": "a", "retry": {"base_seconds": 1, "baseSeconds": 1}}, "retry.base_seconds"),
    ],
    ids=str,
)
async def test_an_alias_beside_its_own_field_is_refused(api, body, field):
    found = await wrong_fields(api, body)
    assert found.keys() == {field}
    assert "another name of" in found[field]


async def test_aliases_never_reach_into_payloads(api):
    inside = {
        "job_type": "a",
        "retries": 1,
        "schedule": "x",
        "max_retries": 2,
        "parameters": {"timeout": 1},
        "big": 1.0,
    }
    text = json.dumps(inside)
    body = f'{{"taskId": "rota.echo", "parameters": {text}, "headers": {{"max_retries": "1"}}}}'
    made = (await api.post("/v1/jobs", content=body)).json()
    found = await api.get(f"/v1/jobs/{made['jobId']}")
    assert found.json()["payload"] == inside
    assert '"big":1.0' in found.text.replace(" ", ""), "as it came, to the letter"
    assert found.json()["headers"] == {"max_retries": "1"}


async def test_a_name_given_twice_is_refused_in_other_words_too(api):
    answer = await api.post("/v1/jobs", content='{"taskId": "a", "retries": 1, "retries": 2}')
    assert answer.status_code == 400
    assert "two fields of the same name" in answer.json()["detail"]


async def test_an_idempotency_key_stands_for_the_body_as_it_was_sent(api):
    headers = {"Idempotency-Key": "k"}
    first = await api.post("/v1/jobs", json={"taskId": "rota.echo", "retries": 3}, headers=headers)
    again = await api.post("/v1/jobs", json={"retries": 3, "taskId": "rota.echo"}, headers=headers)
    assert again.json() == first.json()
    other = await api.post("/v1/jobs", json={"task": "rota.echo", "maxRetries": 3}, headers=headers)
    assert other.status_code == 422, "the same job in other words is another body"


async def test_everything_that_is_wrong_is_named_at_once_with_the_nearest_right_name(api):
    found = await wrong_fields(
        api,
        {
            "taks": "rota.echo",
            "max-retries": 3,
            "queue": "default",
            "cron": "0 9 * * *",
            "image": "python:3",
            "volumes": ["a"],
            "schdule": "0 9 * * *",
            "idempotencyKey": "k",
            "user_id": "ada",
            "priority": "urgent",
            "timeout": "1h",
            "tags": [1],
            "retry": {"basSeconds": 1, "strategy": "random"},
        },
    )
    assert found == {
        "taks": "unknown field; did you mean task?",
        "max-retries": "unknown field; did you mean maxRetries?",
        "queue": "unknown field; did you mean pool?",
        "cron": "unknown field; did you mean cronExpression?",
        "image": "containers can't be run; without it, the command runs in a shell of the worker's machine",
        "volumes": "unknown field",
        "schdule": "unknown field; did you mean schedule?",
        "idempotencyKey": "send it as the header Idempotency-Key",
        "user_id": "a job belongs to the caller who submits it",
        "priority": "must be one of critical, high, normal, low",
        "timeoutSeconds": "Expected `float | null`, got `str` (sent as timeout)",
        "tags[0]": "Expected `str`, got `int`",
        "retry.basSeconds": "unknown field; did you mean baseSeconds?",
        "retry.strategy": "must be one of exponential, linear, fibonacci, fixed",
    }


async def test_a_body_of_many_wrong_fields_names_some_and_counts_the_others(api):
    body = {f"field {number}" * 100: number for number in range(1000)}
    answer = await api.post("/v1/jobs", json=body)
    errors = answer.json()["errors"]
    assert len(errors) == 20
    assert errors[-1]["message"].endswith("(and 980 more are wrong)")
    assert max(len(error["field"]) for error in errors) == 100


async def test_an_image_beside_a_command_is_refused(api):
    assert (await wrong_fields(api, {"command": "true", "image": "alpine"})).keys() == {"image"}


async def test_a_command_is_checked_like_that_of_a_shell_job(api):
    assert (await wrong_fields(api, {"command": " "})).keys() == {"payload.command"}


async def test_lists_take_the_words_of_others(api):
    for fields in ({}, {"scheduleType": "future", "delaySeconds": 9000}):
        await api.post("/v1/jobs", json=job(**fields))
    one_shot = (await api.get("/v1/jobs", params={"status": "QUEUED"})).json()["items"]
    assert [item["scheduleType"] for item in one_shot] == ["immediate"]
    owner, day = one_shot[0]["owner"], timedelta(days=1)
    start, end = ((datetime.now(UTC) + distance).timestamp() for distance in (-day, day))
    query = {"userId": owner, "status": "Queued,SCHEDULED", "startTime": int(start), "endTime": int(end * 1000)}
    assert len((await api.get("/v1/jobs", params=query)).json()["items"]) == 2
    snake = {"user_id": owner, "status": "queued", "start_time": f"{start:.3f}", "end_time": int(end)}
    for path in ("/v1/jobs", "/v1/runs"):
        assert len((await api.get(path, params=snake)).json()["items"]) == 1
        assert (await api.get(path, params=snake | {"user_id": "nobody"})).json()["items"] == []
        refused = (await api.get(path, params={"userId": "a", "owner": "a", "sort": "x", "lmit": 1})).json()["errors"]
        assert [error["field"] for error in refused] == ["owner", "sort", "lmit"]
        assert refused[2]["message"] == "unknown parameter; did you mean limit?"


async def test_completed_finds_finished_schedules_and_successful_one_shots(api, engine):
    await api.post("/v1/jobs", json=job(name="once"))
    await api.post("/v1/jobs", json=job(name="waits", scheduleType="future", delaySeconds=9000))
    end = (datetime.now(UTC) + timedelta(seconds=1.5)).isoformat()
    await api.post("/v1/jobs", json=job(name="over", scheduleType="interval", everySeconds=1, endTime=end))

    async def completed():
        items = (await api.get("/v1/jobs", params={"status": "COMPLETED"})).json()["items"]
        return sorted((item["name"], item["status"]) for item in items) == [("once", "success"), ("over", "completed")]

    async with engine.running(engine.scheduler(), engine.worker()):
        await eventually(completed)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD"])
@pytest.mark.parametrize(
    "path", ["/jobs", "/jobs/", "/jobs/job_1/run", "/jobs?userId=a%20b&x=1", "/jobs/a%2Fb%0d%0aX:y"]
)
async def test_paths_without_a_version_are_redirected(api, method, path):
    answer = await api.request(method, path, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (308, f"/v1{path}")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_redirected_submission_arrives(api):
    answer = await api.post("/jobs", json=job(), follow_redirects=True)
    assert answer.status_code == 201


async def test_a_real_server_redirects_with_path_and_query_as_they_were_sent(server):
    async with httpx.AsyncClient(base_url=server.url) as stranger:
        answer = await stranger.post("/jobs/a%2Fb?userId=a%20b", content=b"x" * 100_000)
    assert (answer.status_code, answer.headers["location"]) == (308, "/v1/jobs/a%2Fb?userId=a%20b")


@pytest.mark.parametrize("path", ["/jobsx", "/job", "/runs"])
async def test_other_paths_without_a_version_are_not_found(api, path):
    assert (await api.get(path, follow_redirects=False)).status_code == 404


async def test_answers_say_created_at_and_for_now_created_time(api):
    made = await understood(api, **job())
    listed = (await api.get("/v1/jobs")).json()["items"][0]
    run = (await api.get(f"/v1/runs/{made['runId']}")).json()
    assert made["createdAt"] == made["createdTime"] == listed["createdAt"] == run["createdAt"] == run["createdTime"]


def test_the_table_in_the_reference_is_the_one_in_the_code():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE))
    assert rows.items() >= (aliases.WORDS | aliases.QUERY_WORDS).items()


async def test_the_audit_trail_shows_what_was_sent_in_other_words_but_no_payload(api):
    await api.post("/v1/jobs", json=REPORT)
    await api.post("/v1/jobs", json={"command": "echo secret", "schedule": "@daily", "retries": 7})
    trail = (await api.get("/v1/audit")).json()["items"]
    requests = [entry["request"] for entry in trail if entry["action"] == "submit"]
    assert {"command": "…", "schedule": "@daily", "retries": 7} in requests
    assert {"taskId": "report", "schedule": REPORT["schedule"], "parameters": "…"} in requests
