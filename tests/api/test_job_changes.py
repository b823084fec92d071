"""The calls that change a job: update, pause, resume, cancel, run now."""

import json

import pytest
from job_calls import SCHEDULES, change, claim, hex_of, moment, read, submit


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
