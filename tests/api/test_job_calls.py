"""The calls on jobs: create, read, list, change, pause, resume, cancel, run now, batches."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from support import job

FAR = "2090-01-01T09:00:00Z"
SCHEDULES = {
    "immediate": {},
    "future": {"scheduleTime": FAR},
    "cron": {"cronExpression": "30 9 * * MON-FRI", "timezone": "Europe/Berlin"},
    "interval": {"everySeconds": 90.0},
}


async def submit(api, schedule="immediate", **fields):
    """Submits a job with this kind of schedule; gives the answer."""
    answer = await api.post("/v1/jobs", json=job(scheduleType=schedule, **(SCHEDULES[schedule] | fields)))
    assert answer.status_code == 201, answer.text
    return answer.json()


async def read(api, path, status=200, method="GET", **options):
    answer = await api.request(method, path, **options)
    assert answer.status_code == status, answer.text
    return answer.json()


async def change(api, job_id, version=None, status=200, **fields):
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return await read(api, f"/v1/jobs/{job_id}", status, "PUT", json=fields, headers=headers)


async def claim(sql):
    """Every live run becomes some worker's."""
    await sql.execute("UPDATE rota.live_runs SET worker_id = gen_random_uuid(), claim = nextval('rota.claim_numbers')")


def moment(text):
    return datetime.fromisoformat(text)


def hex_of(shown):
    return UUID(shown.partition("_")[2])


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


# Lists


@pytest.fixture
async def many(api):
    """Jobs of all kinds, by a short name."""
    near = (api.services.now + timedelta(hours=2)).isoformat()
    return {
        "now": (await submit(api, name="now", tags=["a", "b"]))["jobId"],
        "other task": (await submit(api, name="other", task="other.task"))["jobId"],
        "near": (await submit(api, "future", name="near", scheduleTime=near, tags=["b"]))["jobId"],
        "far": (await submit(api, "future", name="far"))["jobId"],
        "cron": (await submit(api, "cron", name="cron", tags=["a"]))["jobId"],
        "interval": (await submit(api, "interval", name="interval", task="other.task"))["jobId"],
        "paused": await _paused(api),
    }


async def _paused(api):
    made = await submit(api, "cron", name="paused")
    await read(api, f"/v1/jobs/{made['jobId']}/pause", method="POST")
    return made["jobId"]


async def walk(api, path, limit, **query):
    """Ids of all items of a list, page by page."""
    found, cursor = [], {}
    while cursor is not None:
        page = await read(api, path, params={"limit": limit, **query, **cursor})
        assert len(page["items"]) <= limit
        found += [item["runId" if path.endswith("runs") else "jobId"] for item in page["items"]]
        cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else None
    return found


ALL = {"now", "other task", "near", "far", "cron", "interval", "paused"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ALL),
        ({"owner": "admin"}, ALL),
        ({"owner": "nobody"}, set()),
        ({"name": "cron"}, {"cron"}),
        ({"name": "cro"}, set()),
        ({"tag": "a"}, {"now", "cron"}),
        ({"tag": "b"}, {"now", "near"}),
        ({"task": "other.task"}, {"other task", "interval"}),
        ({"status": "queued"}, {"now", "other task"}),
        ({"status": "scheduled"}, {"near", "far", "cron", "interval"}),
        ({"status": "paused"}, {"paused"}),
        ({"status": "paused,queued"}, {"paused", "now", "other task"}),
        ({"status": "success"}, set()),
        ({"startTime": "+1h"}, {"near", "far"}),
        ({"startTime": "+3h"}, {"far"}),
        ({"startTime": "-1h", "endTime": "+1h"}, {"now", "other task", "cron", "interval", "paused"}),
        ({"endTime": "+3h"}, ALL - {"far"}),
        ({"endTime": "-1h"}, set()),
        ({"tag": "b", "status": "queued", "name": "now"}, {"now"}),
        ({"tag": "b", "task": "other.task"}, set()),
    ],
    ids=lambda value: "+".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else "",
)
async def test_a_list_has_what_matches_every_filter(api, many, query, expected):
    query = {
        name: (api.services.now + timedelta(hours=int(text[:-1]))).isoformat() if text.endswith("h") else text
        for name, text in query.items()
    }
    assert sorted(await walk(api, "/v1/jobs", 500, **query)) == sorted(many[name] for name in expected)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_walking_the_pages_finds_every_job_once(api, many, limit):
    found = await walk(api, "/v1/jobs", limit)
    assert sorted(found) == sorted(many.values())


async def test_many_jobs_of_one_moment_are_walked_without_loss_or_repetition(api):
    items = [job()] * 60 + [job(scheduleType="future", scheduleTime=FAR)] * 60
    made = await batch(api, as_array(items))
    assert sorted(await walk(api, "/v1/jobs", 7)) == sorted(result["jobId"] for result in made)


async def test_jobs_that_come_in_during_a_walk_do_not_disturb_it(api):
    before = [(await submit(api))["jobId"] for _ in range(6)]
    page = await read(api, "/v1/jobs", params={"limit": 3})
    await submit(api, "future")
    rest = await read(api, "/v1/jobs", params={"limit": 3, "cursor": page["nextCursor"]})
    assert sorted(item["jobId"] for item in page["items"] + rest["items"]) == sorted(before)


async def test_a_page_has_50_jobs_unless_told_otherwise(api):
    await read(api, "/v1/jobs/batch", method="POST", json=[job()] * 51)
    assert len((await read(api, "/v1/jobs"))["items"]) == 50


async def test_the_runs_of_a_job_are_walked_without_loss_or_repetition(api):
    made = await submit(api, "cron")
    path = f"/v1/jobs/{made['jobId']}"
    runs = [(await read(api, f"{path}/run", 202, "POST"))["runId"] for _ in range(7)]
    await submit(api)
    assert sorted(await walk(api, f"{path}/runs", 3)) == sorted(runs)


# Status


async def test_the_status_of_a_one_shot_is_its_runs(api, sql):
    made = await submit(api)
    path = f"/v1/jobs/{made['jobId']}/status"
    expected = {"jobId": made["jobId"], "runId": made["runId"], "status": "queued", "attempt": 0}
    nothing_yet = dict.fromkeys(("startTime", "endTime", "progress", "executorId", "error"))
    assert await read(api, path) == expected | nothing_yet
    await claim(sql)
    await sql.execute("UPDATE rota.live_runs SET started_at = now(), progress = 0.5")
    running = await read(api, path)
    assert (running["status"], running["attempt"], running["progress"]) == ("running", 1, "50%")
    assert running["startTime"]
    assert running["executorId"]


async def test_a_recurring_job_that_has_not_run_yet_has_its_own_status(api):
    made = await submit(api, "cron")
    found = await read(api, f"/v1/jobs/{made['jobId']}/status")
    assert (found["status"], found["runId"]) == ("scheduled", None)


async def test_the_status_of_a_recurring_job_is_its_latest_runs(api):
    made = await submit(api, "interval")
    runs = [(await read(api, f"/v1/jobs/{made['jobId']}/run", 202, "POST"))["runId"] for _ in range(2)]
    found = await read(api, f"/v1/jobs/{made['jobId']}/status")
    assert (found["runId"], found["status"]) == (max(runs), "queued")


# Change


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "patch",
    [
        {"name": "new"},
        {"task": "other.task"},
        {"pool": "gpu"},
        {"priority": "low"},
        {"tags": ["x", "y"]},
        {"tags": []},
        {"maxRetries": 9},
        {"retry": {"strategy": "fixed", "baseSeconds": 1, "maxSeconds": 1, "jitter": 0}},
        {"payload": {"new": True}},
        {"payload": {"text": "y" * 5000}},
        {"name": "new", "priority": "critical", "payload": {}},
    ],
    ids=lambda patch: json.dumps(patch)[:30],
)
async def test_a_change_concerns_the_given_fields_and_leaves_the_others(api, schedule, patch):
    made = await submit(api, schedule, payload={"old": True}, tags=["a"], maxRetries=1)
    before = await read(api, f"/v1/jobs/{made['jobId']}")
    after = await change(api, made["jobId"], **patch)
    assert after == await read(api, f"/v1/jobs/{made['jobId']}")
    # A moment later the next fire times may have moved on.
    moved = {"version", "updatedTime", "nextFireTimes"}
    kept = before.keys() - patch.keys() - moved
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert {name: after[name] for name in patch} == patch
    assert after["version"] == before["version"] + 1


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_payload_stored_apart_stays_when_something_else_changes(api, schedule):
    payload = {"text": "x" * 5000}
    made = await submit(api, schedule, payload=payload)
    assert (await change(api, made["jobId"], name="new"))["payload"] == payload


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_a_payload_can_be_taken_away(api, schedule):
    made = await submit(api, schedule, payload={"text": "x" * 5000})
    assert "payload" not in await change(api, made["jobId"], payload=None)


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_if_match_with_the_current_version_is_honoured_and_with_another_refused(api, schedule):
    job_id = (await submit(api, schedule))["jobId"]
    answer = await api.get(f"/v1/jobs/{job_id}")
    assert answer.headers["etag"] == '"1"'
    assert (await change(api, job_id, 1, name="second"))["version"] == 2
    refused = await change(api, job_id, 1, 412, name="third")
    assert refused["title"] == "Version mismatch"
    found = await read(api, f"/v1/jobs/{job_id}")
    assert (found["name"], found["version"]) == ("second", 2)


async def test_a_new_cron_and_zone_take_effect_at_once(api):
    job_id = (await submit(api, "cron"))["jobId"]
    changed = await change(api, job_id, cronExpression="0 15 4 1 1 *", timezone="UTC")
    assert (changed["cronExpression"], changed["timezone"]) == ("0 15 4 1 1 *", "UTC")
    assert {moment(text).strftime("%m-%d %H:%M") for text in changed["nextFireTimes"]} == {"01-01 04:15"}


async def test_a_cron_can_become_an_interval_and_an_interval_a_cron(api):
    job_id = (await submit(api, "cron"))["jobId"]
    interval = await change(api, job_id, everySeconds=30)
    assert (interval["scheduleType"], interval["everySeconds"]) == ("interval", 30)
    assert "cronExpression" not in interval
    cron = await change(api, job_id, cronExpression="0 0 1 1 *")
    assert (cron["scheduleType"], cron["cronExpression"]) == ("cron", "0 0 1 1 *")
    assert "everySeconds" not in cron


async def test_a_one_shot_moves_with_its_time_between_upcoming_and_live(api, sql):
    job_id = (await submit(api, "future"))["jobId"]
    at_once = await change(api, job_id, scheduleTime=api.services.now.isoformat())
    assert at_once["status"] == "queued"
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
    later = await change(api, job_id, scheduleTime="2091-01-01T00:00:00+01:00")
    assert (later["status"], later["scheduleTime"]) == ("scheduled", "2090-12-31T23:00:00Z")
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0


async def test_a_change_reaches_a_run_that_waits_and_recalls_one_that_is_claimed(api, sql):
    job_id = (await submit(api, "cron", priority="low"))["jobId"]
    claimed = (await read(api, f"/v1/jobs/{job_id}/run", 202, "POST"))["runId"]
    await claim(sql)
    unclaimed = (await read(api, f"/v1/jobs/{job_id}/run", 202, "POST"))["runId"]
    await change(api, job_id, priority="critical")
    assert (await read(api, f"/v1/runs/{unclaimed}"))["priority"] == "critical"
    assert (await read(api, f"/v1/runs/{claimed}"))["priority"] == "low"
    recalled = await sql.fetch("SELECT id FROM rota.live_runs WHERE recalled")
    assert [row["id"] for row in recalled] == [hex_of(claimed)]


@pytest.mark.parametrize("call", ["change", "pause"])
async def test_a_one_shot_that_is_claimed_can_not_be_changed_or_paused(api, sql, call):
    job_id = (await submit(api))["jobId"]
    await claim(sql)
    if call == "change":
        await change(api, job_id, status=409, name="new")
    else:
        await read(api, f"/v1/jobs/{job_id}/pause", 409, "POST")
    assert (await read(api, f"/v1/jobs/{job_id}"))["name"] == "test"


# Pause and resume


async def test_a_paused_schedule_fires_no_more_until_it_is_resumed(api, sql):
    job_id = (await submit(api, "interval"))["jobId"]
    paused = await read(api, f"/v1/jobs/{job_id}/pause", method="POST")
    assert (paused["status"], paused["nextFireTimes"]) == ("paused", [])
    assert await sql.fetchval("SELECT next_fire_at FROM rota.jobs") is None
    resumed = await read(api, f"/v1/jobs/{job_id}/resume", method="POST")
    assert resumed["status"] == "scheduled"
    assert await sql.fetchval("SELECT next_fire_at > now() FROM rota.jobs")


async def test_pausing_a_job_holds_its_runs_that_wait_and_resuming_lets_them_go(api):
    job_id = (await submit(api, "cron"))["jobId"]
    run_id = (await read(api, f"/v1/jobs/{job_id}/run", 202, "POST"))["runId"]
    await read(api, f"/v1/jobs/{job_id}/pause", method="POST")
    held = await read(api, f"/v1/runs/{run_id}")
    assert (held["status"], held["waitingFor"]) == ("blocked", "its job is paused")
    await read(api, f"/v1/jobs/{job_id}/resume", method="POST")
    assert (await read(api, f"/v1/runs/{run_id}"))["status"] == "queued"


@pytest.mark.parametrize(("schedule", "status"), [("immediate", "queued"), ("future", "scheduled")])
async def test_a_paused_one_shot_is_blocked_and_goes_on_where_it_was(api, schedule, status):
    path = f"/v1/jobs/{(await submit(api, schedule, payload={'text': 'x' * 3000}))['jobId']}"
    before = await read(api, path)
    assert (await read(api, f"{path}/pause", method="POST"))["status"] == "blocked"
    assert (await read(api, f"{path}/resume", method="POST"))["status"] == status
    assert await read(api, path) == before


async def test_a_paused_one_shot_can_be_changed_and_stays_paused(api):
    path = f"/v1/jobs/{(await submit(api, 'future'))['jobId']}"
    await read(api, f"{path}/pause", method="POST")
    changed = await read(api, path, method="PUT", json={"scheduleTime": api.services.now.isoformat()})
    assert changed["status"] == "blocked"
    assert (await read(api, f"{path}/resume", method="POST"))["status"] == "queued"


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_pausing_twice_and_resuming_twice_are_harmless(api, schedule):
    path = f"/v1/jobs/{(await submit(api, schedule))['jobId']}"
    paused = [(await read(api, f"{path}/pause", method="POST"))["status"] for _ in range(2)]
    resumed = [(await read(api, f"{path}/resume", method="POST"))["status"] for _ in range(2)]
    assert len(set(paused)) == len(set(resumed)) == 1
    assert paused != resumed


# Cancel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("paused", [False, True], ids=["as it is", "paused"])
async def test_cancelling_a_job_ends_it_for_good_and_can_be_repeated(api, schedule, paused):
    path = f"/v1/jobs/{(await submit(api, schedule))['jobId']}"
    if paused:
        await read(api, f"{path}/pause", method="POST")
    for _ in range(2):
        assert (await read(api, path, method="DELETE"))["status"] == "cancelled"
        assert (await read(api, path))["status"] == "cancelled"
    for call in ("PUT", "/pause"):
        method, tail = ("PUT", "") if call == "PUT" else ("POST", call)
        await read(api, path + tail, 409, method, json={"name": "new"} if call == "PUT" else None)
    assert (await read(api, path))["name"] == "test"


async def test_cancelling_a_job_cancels_its_runs_that_wait_and_asks_for_those_that_run(api, sql):
    job_id = (await submit(api, "cron"))["jobId"]
    running = (await read(api, f"/v1/jobs/{job_id}/run", 202, "POST"))["runId"]
    await claim(sql)
    queued = (await read(api, f"/v1/jobs/{job_id}/run", 202, "POST"))["runId"]
    await read(api, f"/v1/jobs/{job_id}", method="DELETE")
    ended = await read(api, f"/v1/runs/{queued}")
    assert (ended["status"], ended["reason"]) == ("cancelled", "its job was cancelled")
    asked = await read(api, f"/v1/runs/{running}")
    assert (asked["status"], asked["cancelRequested"]) == ("running", True)


async def test_a_job_that_has_ended_otherwise_can_not_be_cancelled(api, sql):
    job_id = (await submit(api))["jobId"]
    await read(api, f"/v1/jobs/{job_id}", method="DELETE")
    await sql.execute("UPDATE rota.finished_runs SET status = 'success'")
    assert "success" in (await read(api, f"/v1/jobs/{job_id}", 409, "DELETE"))["detail"]


# Run now


@pytest.mark.parametrize("schedule", ["cron", "interval"])
async def test_run_now_makes_a_run_besides_the_schedule(api, schedule):
    made = await submit(api, schedule, payload={"a": 1})
    before = await read(api, f"/v1/jobs/{made['jobId']}")
    started = await read(api, f"/v1/jobs/{made['jobId']}/run", 202, "POST")
    assert (started["jobId"], started["status"]) == (made["jobId"], "queued")
    run = await read(api, f"/v1/runs/{started['runId']}")
    assert (run["jobId"], run["cause"], run["payload"]) == (made["jobId"], "manual", {"a": 1})
    assert (await read(api, f"/v1/jobs/{made['jobId']}"))["version"] == before["version"]


async def test_run_now_of_a_one_shot_makes_a_second_run_with_a_key_of_its_own(api):
    made = await submit(api, payload={"text": "x" * 3000})
    started = await read(api, f"/v1/jobs/{made['jobId']}/run", 202, "POST")
    first, second = [await read(api, f"/v1/runs/{run_id}") for run_id in (made["runId"], started["runId"])]
    assert (second["jobId"], second["retryOf"], second["cause"]) == (made["jobId"], made["runId"], "manual")
    assert second["idempotencyKey"] != first["idempotencyKey"]
    assert second["payload"] == first["payload"]
    assert first["status"] == "queued"


# Batches


def as_array(items):
    return {"json": items}


def as_lines(items):
    text = "\n".join(item if isinstance(item, str) else json.dumps(item) for item in items)
    return {"content": text + "\n\n", "headers": {"Content-Type": "application/x-ndjson; charset=utf-8"}}


async def batch(api, request):
    return (await read(api, "/v1/jobs/batch", method="POST", **request))["results"]


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
