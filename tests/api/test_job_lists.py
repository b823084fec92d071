"""Lists of jobs: filters, pages, and the status that each shows."""

from datetime import timedelta

import pytest
from job_calls import FAR, as_array, batch, claim, read, submit, walk

from rota.store.read import runs
from support import job

ALL = {"now", "other task", "near", "far", "cron", "interval", "paused"}


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


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/jobs"])
@pytest.mark.parametrize("filtered", ["owner", "name", "tag", "task", "status"])
async def test_a_filter_that_reads_for_too_long_is_told_to_narrow_its_range(api, sql, monkeypatch, path, filtered):
    monkeypatch.setattr(runs, "LIST_SECONDS", 0.2)
    query = {filtered: "failed" if filtered == "status" else "nothing"}
    async with sql.transaction():
        await sql.execute("LOCK TABLE rota.finished_runs")  # stands for millions of runs that don't match
        answer = await api.get(path, params=query)
        assert answer.status_code == 400
        assert "choose a narrower range with startTime and endTime" in answer.json()["detail"]
    assert (await api.get(path, params=query)).json()["items"] == [], "the bound ends with its transaction"
    assert await api.services.runs._database.fetch_value("database_time")


@pytest.mark.parametrize("more", [{}, {"name": "held"}, {"status": "paused,scheduled"}, {"limit": 1}])
async def test_paused_finds_jobs_that_run_once_as_well_as_schedules(api, sql, many, more):
    held = (await submit(api, "future", name="held"))["jobId"]
    await read(api, f"/v1/jobs/{held}/pause", method="POST")
    query = {"status": "paused", **more}
    shown = {item["jobId"]: item["status"] for item in (await read(api, "/v1/jobs", params=query))["items"]}
    assert shown[held] == "blocked"
    assert many["now"] not in shown


async def test_paused_finds_what_was_due_long_ago(api, sql):
    held = (await submit(api, "future", name="held", scheduleTime=api.services.now.isoformat()))["jobId"]
    await read(api, f"/v1/jobs/{held}/pause", method="POST")
    later = api.services.now + timedelta(days=40)
    api.services.clock.now_datetime = lambda: later
    assert await walk(api, "/v1/jobs", 500, status="paused") == [held]
