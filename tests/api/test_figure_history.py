"""The six figures: now, over time, of single tasks and jobs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from engine import plain
from rota.store.measure import FigureWriter
from support import eventually, job


async def get(engine, path, **query):
    answer = await engine.api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def plant(sql, step, ago, *, namespace="default", kind="namespace", name="", started=100, looks=12):
    """A minute or hour of figures, and that it was written."""
    unit = {60: "minute", 3600: "hour"}[step]
    at = await sql.fetchval(f"SELECT date_trunc('{unit}', now()) - $1 * interval '1 {unit}'", ago)
    for place in (("", "namespace", ""), (namespace, kind, name)):
        await sql.execute(
            "INSERT INTO rota.figures VALUES ($1, $2, $3, $4, $5, $6, $7, 5, 5, 50, $8, $9, $10, 24, 7, 12, 120, 60,"
            " 36, $11) ON CONFLICT DO NOTHING",
            *(*place, step, at, started, started - 10, '{"3": 94, "10": 6}', '{"9": 100}', looks, '{"limit": 24}'),
        )
    return at


async def test_the_six_figures_are_of_the_window_and_of_now(engine, sql):
    await sql.execute(
        "INSERT INTO rota.tallies SELECT date_bin('5 s', now() - interval '15 seconds', '2000-01-01Z'), 'default',"
        " pool, gen_random_uuid(), 100, 90, 6, 4, array_cat(array_fill(0, ARRAY[3]), array_cat(ARRAY[94, 0, 6],"
        " array_fill(0, ARRAY[26]))) FROM unnest(ARRAY['default', 'mail']) AS pool"
    )
    await engine.join(engine.broker(), slots=8)
    await sql.execute("UPDATE rota.workers SET busy = 2")
    await engine.submit()
    await engine.submit(pool="mail")
    found = await get(engine, "/v1/stats")
    assert found["figures"] == {
        "successRate": 0.9375,
        "startLag": {"p50": 0.008, "p95": 0.032, "p99": 0.032, "samples": 200},
        "queueDepth": 2,
        "workerUtilisation": 0.25,
        "retryRate": 0.04,
        "deadLetters": 0,
    }
    assert found["figures"]["retryRate"] == found["retryRate"]
    mail = next(pool for pool in found["pools"] if pool["pool"] == "mail")["figures"]
    assert (mail["queueDepth"], mail["successRate"], mail["workerUtilisation"]) == (1, 0.9375, None)


async def test_history_has_a_point_for_each_minute_that_was_recorded_and_a_gap_where_none_was(engine, sql):
    written = [await plant(sql, 60, ago) for ago in (30, 29, 25)]
    found = await get(engine, "/v1/stats/history", range="1h")
    assert (found["range"], found["stepSeconds"], found["pool"]) == ("1h", 60, None)
    assert [datetime.fromisoformat(point["time"]) for point in found["points"]] == written
    point = found["points"][0]
    assert (point["started"], point["successRate"], point["retryRate"]) == (100, 0.9474, 0.05)
    assert point["startLag"] == {"p50": 0.008, "p95": 1.024, "p99": 1.024, "samples": 100}
    assert point["runSeconds"]["p95"] == 0.512
    assert (point["queueDepth"], point["mostQueued"], point["running"], point["slots"]) == (2, 7, 1, 10)
    assert (point["workerUtilisation"], point["deadLetters"], point["blocked"]) == (0.5, 3, {"limit": 2})


async def test_a_minute_in_which_a_pool_did_nothing_is_a_point_with_nothing(engine, sql):
    await plant(sql, 60, 5, kind="pool", name="mail")
    (mail,) = (await get(engine, "/v1/stats/history", pool="mail"))["points"]
    (other,) = (await get(engine, "/v1/stats/history", pool="other"))["points"]
    assert (mail["started"], mail["deadLetters"]) == (100, None)
    assert (other["started"], other["queueDepth"], other["successRate"], other["slots"]) == (0, 0, None, None)


async def test_what_was_there_is_unknown_where_no_scheduler_looked(engine, sql):
    await plant(sql, 60, 5, looks=0)
    (point,) = (await get(engine, "/v1/stats/history"))["points"]
    assert (point["started"], point["queueDepth"], point["running"], point["deadLetters"]) == (100, None, None, None)


async def test_history_of_days_ends_with_the_hour_that_is_not_over(engine, sql):
    hours = [await plant(sql, 3600, ago) for ago in (100, 3, 2)]
    last = await plant(sql, 60, 0, started=50)
    found = await get(engine, "/v1/stats/history", range="7d")
    assert found["stepSeconds"] == 3600
    *before, now = found["points"]
    assert [datetime.fromisoformat(point["time"]) for point in before] == hours
    assert datetime.fromisoformat(now["time"]) == last.replace(minute=0)
    assert now["started"] == 50
    month = await get(engine, "/v1/stats/history", range="30d")
    assert month["points"] == found["points"]
    assert len((await get(engine, "/v1/stats/history", range="24h"))["points"]) == 1


async def test_the_last_ten_minutes_come_from_what_workers_told_and_schedulers_saw(engine, sql):
    async with engine.running(engine.worker({"rota.echo": lambda: None})):
        runs = [await engine.submit() for _ in range(5)]
        for run in runs:
            await engine.until(run, "success")
    waits = await engine.submit(pool="mail")
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() - interval '1 second'")
    await FigureWriter(engine.database).sample()
    found = await get(engine, "/v1/stats/history", range="10m")
    assert found["stepSeconds"] == 5
    assert sum(point["succeeded"] for point in found["points"]) == 5
    assert sum(point["runSeconds"]["samples"] for point in found["points"]) == 5
    assert found["points"][-1]["queueDepth"] == 1
    (mail,) = (await get(engine, "/v1/stats/history", range="10m", pool="mail"))["points"]
    assert (mail["queueDepth"], mail["started"]) == (1, 0)
    assert waits


async def test_a_task_has_a_history_of_its_own(engine, sql):
    await plant(sql, 60, 5, kind="task", name="rota.echo")
    (point,) = (await get(engine, "/v1/stats/history", range="10m", task="rota.echo"))["points"]
    assert (point["started"], point["queueDepth"], point["workerUtilisation"]) == (100, None, 0.5)


async def test_another_namespace_has_no_part_in_history(engine, sql):
    await plant(sql, 60, 5, namespace="other")
    (point,) = (await get(engine, "/v1/stats/history"))["points"]
    assert point["started"] == 0


async def test_what_was_written_before_a_clock_was_set_back_is_not_shown(engine, sql):
    await plant(sql, 60, -5)
    assert (await get(engine, "/v1/stats/history"))["points"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"range": "1d"}, "range"),
        ({"range": ""}, "range"),
        ({"pool": "\0"}, "pool"),
        ({"pool": "a", "task": "b"}, "task"),
    ],
)
async def test_a_history_that_is_none_is_refused(engine, query, field):
    answer = await engine.api.get("/v1/stats/history", params=query)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field


def fails():
    raise ValueError("no")


async def test_a_task_tells_of_its_latest_runs(engine):
    async with engine.running(engine.worker({"rota.echo": lambda: None, "fails": fails})):
        good = [await engine.submit() for _ in range(4)]
        bad = await engine.submit(task="fails", maxRetries=0)
        for run in good:
            await engine.until(run, "success")
        await engine.until(bad, "failed")
    found = await get(engine, "/v1/tasks/rota.echo/stats")
    assert (found["successRate"], found["retryRate"], found["statuses"]) == (1.0, 0.0, {"success": 4})
    assert [run["runId"] for run in found["runs"]] == sorted(good, reverse=True)
    run = found["runs"][0]
    assert run["attempts"] == 1
    assert run["startTime"]
    assert found["runSeconds"]["samples"] == 4
    assert found["runSeconds"]["p99"] == max(run["seconds"] for run in found["runs"])
    assert (await get(engine, "/v1/tasks/fails/stats"))["successRate"] == 0.0
    assert (await engine.api.get("/v1/tasks/nothing/stats")).status_code == 404


async def test_durations_of_runs_are_exact(engine, sql):
    job_id = await engine.recurring(scheduleType="cron", cronExpression="0 9 * * *")
    await plant_runs(sql, job_id, 150)
    found = await get(engine, f"/v1/jobs/{job_id}/stats")
    assert len(found["runs"]) == 100, "the latest"
    assert found["runSeconds"] == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "samples": 100}
    assert found["meanRunSeconds"] == 50.5
    assert (found["successRate"], found["retryRate"]) == (0.9, 0.5)
    assert found["runs"][0] | {"runId": "", "startTime": ""} == {
        "runId": "", "status": "failed", "startTime": "", "seconds": 100.0, "attempts": 2,
    }  # fmt: skip


async def plant_runs(sql, job_id, count, owner="o"):
    """Runs of a job in history; the latest takes 100 seconds, the one before 99, and so on."""
    await sql.execute("SELECT rota.make_day(current_date)")
    await sql.execute(
        "INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,"
        " options, cause, shard, nominal_at, run_at, attempt, created_at, status, started_at, finished_at)"
        " SELECT 'default',"
        " (substr(rota.id_floor(due)::text, 1, 14) || '7' || substr(gen_random_uuid()::text, 16))::uuid,"
        " $1, 1, $3, 'n', 'counted', 'default', 0, '{}', '{}', 'schedule', 0, due, due, 2, due,"
        " CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'success' END, due, due + (n - $2 + 100) * interval '1 second'"
        " FROM (SELECT n, date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + n * interval '1 ms' AS due"
        " FROM generate_series(1, $2) AS n) AS s",
        plain(job_id),
        count,
        owner,
    )


async def test_a_job_without_runs_has_no_numbers_and_one_that_is_none_is_not_found(engine):
    job_id = await engine.recurring(scheduleType="cron", cronExpression="0 9 * * *")
    found = await get(engine, f"/v1/jobs/{job_id}/stats")
    assert (found["successRate"], found["runs"], found["runSeconds"]["p50"]) == (None, [], None)
    once = await engine.submit()
    assert (await get(engine, f"/v1/jobs/{once.replace('run_', 'job_')}/stats"))["runs"] == []
    assert (await engine.api.get(f"/v1/jobs/job_{'0' * 32}/stats")).status_code == 404


async def test_who_may_see_only_own_runs_gets_the_numbers_of_these(engine, api, sql):
    keys = {}
    for name in ("ada", "bob"):
        made = await api.post("/v1/keys", json={"name": name, "role": "submitter", "owner": name})
        keys[name] = {"Authorization": f"Bearer {made.json()['key']}"}
    jobs = {}
    for name, key in keys.items():
        body = job(scheduleType="cron", cronExpression="0 9 * * *", task="counted")
        answer = await api.post("/v1/jobs", json=body, headers=key)
        jobs[name] = answer.json()["jobId"]
        await plant_runs(sql, jobs[name], {"ada": 3, "bob": 5}[name], owner=name)
    seen = {name: (await api.get("/v1/tasks/counted/stats", headers=key)).json() for name, key in keys.items()}
    assert [len(seen[name]["runs"]) for name in ("ada", "bob")] == [3, 5]
    assert len((await get(engine, "/v1/tasks/counted/stats"))["runs"]) == 8
    assert len((await api.get(f"/v1/jobs/{jobs['ada']}/stats", headers=keys["ada"])).json()["runs"]) == 3
    assert (await api.get(f"/v1/jobs/{jobs['ada']}/stats", headers=keys["bob"])).status_code == 404


async def test_a_whole_scheduler_writes_history_while_it_runs(engine, sql):
    """Samples come by themselves; minutes are made from them when their time has come."""
    async with engine.running(engine.scheduler(), engine.worker({"rota.echo": lambda: None})):
        await asyncio.gather(*(engine.submit() for _ in range(3)))

        async def sampled():
            return await sql.fetchval("SELECT count(*) FROM rota.samples WHERE namespace = 'default'")

        assert await eventually(sampled, within=60)
    moved = timedelta(minutes=3)
    await sql.execute("UPDATE rota.samples SET at = at - $1::interval", moved)
    await sql.execute("UPDATE rota.tallies SET at = at - $1::interval", moved)
    await FigureWriter(engine.database).roll_up()
    points = (await get(engine, "/v1/stats/history"))["points"]
    assert sum(point["succeeded"] for point in points) == 3
    assert any(point["slots"] == 10 for point in points)
    assert datetime.fromisoformat(points[-1]["time"]) < datetime.now(UTC)
