"""Jobs are accepted and read back, one by one and in batches."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from job_calls import FAR, SCHEDULES, as_array, as_lines, batch, hex_of, moment, read, submit

from support import job


@pytest.mark.parametrize(
    ("schedule", "status", "place"),
    [
        ("immediate", "queued", "live_runs"),
        ("future", "scheduled", "upcoming_runs"),
        ("cron", "scheduled", "jobs"),
        ("interval", "scheduled", "jobs"),
    ],
)
async def test_each_kind_of_job_is_accepted_put_in_its_place_and_read_back(api, sql, schedule, status, place):
    answer = await api.post("/v1/jobs", json=job(scheduleType=schedule, **SCHEDULES[schedule]))
    assert answer.status_code == 201
    made = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{made['jobId']}"
    assert made["status"] == status
    assert ("runId" in made) == (schedule in ("immediate", "future"))
    assert await sql.fetchval(f"SELECT id FROM rota.{place}") == hex_of(made["jobId"])
    found = await read(api, answer.headers["location"])
    assert (found["jobId"], found["status"], found["scheduleType"]) == (made["jobId"], status, schedule)
    assert {name: found[name] for name in SCHEDULES[schedule]} == SCHEDULES[schedule]
    assert (found["name"], found["task"], found["owner"], found["version"]) == ("test", "rota.echo", "admin", 1)


async def test_the_defaults_of_a_job_are_those_of_the_contract(api):
    found = await read(api, f"/v1/jobs/{(await submit(api))['jobId']}")
    assert (found["maxRetries"], found["priority"], found["pool"], found["tags"]) == (3, "normal", "default", [])
    assert found["retry"] == {"strategy": "exponential", "baseSeconds": 5, "maxSeconds": 3600, "jitter": 0.1}
    assert "payload" not in found


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_all_fields_of_a_job_are_kept(api, schedule):
    fields = {
        "payload": {"text": "żółw 🐢 \u0000", "number": 1.5, "nested": {"list": [None, True]}},
        "maxRetries": 0,
        "retry": {"strategy": "fibonacci", "baseSeconds": 0.5, "maxSeconds": 60.0, "jitter": 0.0},
        "priority": "critical",
        "pool": "gpu-1",
        "tags": ["nightly", "of the house"],
    }
    found = await read(api, f"/v1/jobs/{(await submit(api, schedule, **fields))['jobId']}")
    assert {name: found[name] for name in fields} == fields


@pytest.mark.parametrize("priority", ["critical", "high", "normal", "low"])
async def test_a_run_has_the_priority_pool_and_tags_of_its_job(api, priority):
    made = await submit(api, priority=priority, pool="slow", tags=["a"])
    run = await read(api, f"/v1/runs/{made['runId']}")
    assert (run["priority"], run["pool"], run["tags"]) == (priority, "slow", ["a"])


async def test_a_payload_with_a_script_and_no_task_is_a_script_job(api):
    body = {"name": "s", "scheduleType": "immediate", "payload": {"script": "tidy/cleanup.py", "params": {"days": 30}}}
    made = await read(api, "/v1/jobs", 201, "POST", json=body)
    assert (await read(api, f"/v1/jobs/{made['jobId']}"))["task"] == "script"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("size", "apart"), [(2048, False), (2049, True), (60_000, True)])
async def test_a_payload_over_2_kib_is_stored_apart_and_read_back_whole(api, sql, schedule, size, apart):
    payload = {"text": "x" * (size - len('{"text":""}'))}
    made = await submit(api, schedule, payload=payload)
    assert await sql.fetchval("SELECT count(*) FROM rota.payloads") == (1 if apart else 0)
    assert (await read(api, f"/v1/jobs/{made['jobId']}"))["payload"] == payload
    if "runId" in made:
        assert (await read(api, f"/v1/runs/{made['runId']}"))["payload"] == payload


async def test_a_recurring_job_tells_its_next_fire_times(api):
    berlin = await submit(api, "cron", cronExpression="0 12 * * *", timezone="Europe/Berlin")
    times = [moment(text) for text in (await read(api, f"/v1/jobs/{berlin['jobId']}"))["nextFireTimes"]]
    assert len(times) == 5
    assert times == sorted(set(times))
    assert times[0] > datetime.now(UTC) - timedelta(minutes=1)
    assert {time.astimezone(UTC).hour for time in times} <= {10, 11}


async def test_an_interval_fires_at_multiples_of_its_seconds(api):
    made = await submit(api, "interval", everySeconds=1.5)
    times = [moment(text) for text in (await read(api, f"/v1/jobs/{made['jobId']}"))["nextFireTimes"]]
    assert {later - one for one, later in pairwise(times)} == {timedelta(seconds=1.5)}


async def test_a_future_time_less_than_a_minute_ago_runs_at_once(api, sql):
    moment = api.services.now - timedelta(seconds=50)
    answer = await api.post("/v1/jobs", json=job(scheduleType="future", scheduleTime=moment.isoformat()))
    assert answer.status_code == 201
    assert answer.json()["status"] == "queued"
    assert await sql.fetchval("SELECT ready_at <= now() AND run_at = $1 FROM rota.live_runs", moment)


@pytest.mark.parametrize("form", [as_array, as_lines])
async def test_a_batch_answers_good_and_bad_items_in_order(api, form):
    items = [
        job(name="first"),
        job(scheduleType="weekly"),
        job(scheduleType="cron", cronExpression="0 9 * * *", name="second"),
        job(overlap="skip"),
        job(scheduleType="future", scheduleTime=FAR, name="third"),
        job(payload={"text": "x" * 10 * 1024 * 1024}),
        job(payload={"text": "x" * 3000}, name="fourth"),
        5,
    ]
    results = await batch(api, form(items))
    assert [result.get("status") for result in results] == [
        *("queued", None, "scheduled", None, "scheduled", None, "queued", None)
    ]
    names = [(await read(api, f"/v1/jobs/{result['jobId']}"))["name"] for result in results if "jobId" in result]
    assert names == ["first", "second", "third", "fourth"]
    problems = [result["error"] for result in results if "error" in result]
    assert [problem["status"] for problem in problems] == [400] * 4
    assert [problem.get("errors", [{}])[0].get("field") for problem in problems] == [
        *("scheduleType", "overlap", "payload", None)
    ]
    assert [("runId" in result) for result in results if "jobId" in result] == [True, False, True, True]


async def test_a_line_that_is_not_json_spoils_only_itself(api):
    results = await batch(api, as_lines([job(), "{not json", job()]))
    assert ["error" in result for result in results] == [False, True, False]


async def test_an_empty_batch_has_no_results(api):
    assert await batch(api, as_array([])) == await batch(api, as_lines([])) == []


@pytest.mark.parametrize("form", [as_array, as_lines])
async def test_ten_thousand_jobs_go_in_with_one_call_in_order(api, sql, form):
    results = await batch(api, form([job(name=f"job {number}") for number in range(10_000)]))
    rows = await sql.fetch("SELECT id, name FROM rota.live_runs")
    names = {row["id"]: row["name"] for row in rows}
    assert [names[hex_of(result["jobId"])] for result in results] == [f"job {number}" for number in range(10_000)]
    assert len(names) == 10_000


@pytest.mark.parametrize("form", [as_array, as_lines])
async def test_more_than_ten_thousand_jobs_in_one_call_are_refused_as_a_whole(api, sql, form):
    refused = await read(api, "/v1/jobs/batch", 400, "POST", **form([job()] * 10_001))
    assert "10000" in refused["detail"]
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0
