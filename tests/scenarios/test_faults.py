"""Processes are killed, paused and stopped; nothing accepted is lost and nothing is done under a claim that is gone."""

from __future__ import annotations

import asyncio
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from grounds import on

from support import eventually, patience

pytestmark = pytest.mark.scenario


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


async def executor(fleet, run_id):
    """The worker process that runs it."""
    run = await fleet.until(run_id, "running")
    (found,) = [worker for worker in await fleet.workers() if worker["workerId"] == run["executorId"]]
    return next(process for process in fleet.processes if process.pid == found["pid"])


@on("direct", "pgbouncer")
async def test_a_run_whose_worker_was_killed_starts_elsewhere_within_the_lease(fleet, tmp_path):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    await asyncio.gather(fleet.start_worker(), fleet.start_worker())
    bystander = await fleet.submit("rota.sleep", payload={"seconds": 8})
    run_id = (await fleet.submit("note", payload={"file": str(tmp_path / "notes"), "first_seconds": 600}))["runId"]
    await eventually(lambda: lines(tmp_path / "notes"))
    victim = await executor(fleet, run_id)
    killed_at = time.monotonic()
    await victim.kill()
    await eventually(lambda: f"start {run_id} 2" in lines(tmp_path / "notes"))
    print(f"started elsewhere {time.monotonic() - killed_at:.2f} s after the kill")
    run = await fleet.until(run_id, "success")
    assert run["attempt"] == 2
    assert [(attempt["attempt"], attempt["outcome"]) for attempt in run["attempts"]] == [(1, "lost")]
    assert lines(tmp_path / "notes") == [f"start {run_id} 1", f"start {run_id} 2", f"end {run_id} 2"]
    other = await fleet.until(bystander["runId"], "success")
    assert other["attempt"] == (1 if other["attempts"] == [] else 2)


@on("direct", "pgbouncer")
async def test_a_paused_worker_changes_nothing_when_it_comes_back(fleet, tmp_path):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    first = await fleet.start_worker()
    run_id = (await fleet.submit("note", payload={"file": str(tmp_path / "notes"), "first_seconds": 600}))["runId"]
    await eventually(lambda: lines(tmp_path / "notes"))
    first.send(signal.SIGSTOP)
    await fleet.start_worker()
    run = await fleet.until(run_id, "success")
    assert run["attempt"] == 2
    first.send(signal.SIGCONT)

    async def counted():
        return sum(worker["fencedReports"] for worker in await fleet.workers()) >= 1

    await eventually(counted)
    assert await fleet.run(run_id) == run


@on("direct", "pgbouncer")
async def test_a_killed_scheduler_is_replaced_and_every_time_of_every_schedule_has_one_run(fleet, sql):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"), fleet.start("scheduler"))
    await fleet.start_worker()
    schedules = [
        {"name": f"each second {number}", "scheduleType": "cron", "cronExpression": "* * * * * *", "task": "rota.echo"}
        for number in range(200)
    ]
    answers = (await fleet.post("/v1/jobs/batch", schedules))["results"]
    assert all("jobId" in answer for answer in answers)

    async def fired():
        return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") > 400

    await eventually(fired)
    owner = await sql.fetchval("SELECT owner FROM rota.shard_leases WHERE shard = 0")
    pid = await sql.fetchval("SELECT pid FROM rota.schedulers WHERE id = $1", owner)
    await next(process for process in fleet.processes if process.pid == pid).kill()
    killed_at = time.monotonic()

    async def taken_over():
        owners = await sql.fetch("SELECT DISTINCT owner FROM rota.shard_leases")
        return owner not in [row["owner"] for row in owners]

    await eventually(taken_over)
    print(f"all shards taken over {time.monotonic() - killed_at:.2f} s after the kill")
    until = datetime.now(UTC) + timedelta(seconds=4)

    async def caught_up():
        return not await sql.fetchval(
            "SELECT count(*) FROM rota.runs WHERE status NOT IN ('success') AND nominal_at <= $1", until
        ) and datetime.now(UTC) > until + timedelta(seconds=1)

    await eventually(caught_up)
    rows = await sql.fetch(
        """SELECT job_id, count(*) AS runs, count(DISTINCT nominal_at) AS times, min(nominal_at) AS first,
                  extract(epoch FROM max(nominal_at) - min(nominal_at))::int + 1 AS expected
             FROM rota.runs WHERE nominal_at <= $1 AND status = 'success' GROUP BY job_id""",
        until,
    )
    assert len(rows) == 200
    wrong = [dict(row) for row in rows if not row["runs"] == row["times"] == row["expected"]]
    assert not wrong, wrong[:3]
    created = await sql.fetch("SELECT id, created_at FROM rota.jobs")
    first_expected = {row["id"]: row["created_at"].replace(microsecond=0) + timedelta(seconds=1) for row in created}
    late = [row for row in rows if row["first"] - first_expected[row["job_id"]] > timedelta(seconds=patience())]
    assert not late


async def test_a_thousand_future_jobs_start_on_the_dot(fleet, sql):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    await asyncio.gather(fleet.start_worker(), fleet.start_worker())
    base = datetime.now(UTC) + timedelta(seconds=3 * patience())
    jobs = [
        {
            "name": "future",
            "scheduleType": "future",
            "scheduleTime": (base + timedelta(milliseconds=10 * number)).isoformat(),
            "task": "rota.echo",
        }
        for number in range(1000)
    ]
    answers = (await fleet.post("/v1/jobs/batch", jobs))["results"]
    assert all(answer.get("status") == "scheduled" for answer in answers)

    async def done():
        return await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'success'") == 1000

    await eventually(done)
    lags = sorted(
        row["lag"]
        for row in await sql.fetch(
            "SELECT extract(epoch FROM started_at - run_at)::float8 AS lag FROM rota.finished_runs"
        )
    )
    quantiles = {q: round(lags[min(999, int(q * 1000))] * 1000, 2) for q in (0, 0.5, 0.9, 0.99, 0.999)}
    print(f"start lag in ms: {quantiles}, max {lags[-1] * 1000:.2f}")
    assert lags[0] >= 0, "one started early"
    assert lags[-1] <= patience(), "one was more than a second late"


async def test_cancel_stops_a_running_job_within_a_second(fleet, tmp_path):
    script = fleet.home / "scripts" / "slow.py"
    script.parent.mkdir(parents=True)
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    await fleet.start_worker()
    kinds = {
        "async": {"task": "rota.sleep", "payload": {"seconds": 60}},
        "sync": {"task": "note_sync", "payload": {"file": str(tmp_path / "notes"), "seconds": 60}},
        "script": {"task": "script", "payload": {"script": "slow.py"}},
    }
    for kind, fields in kinds.items():
        run_id = (await fleet.submit(**fields))["runId"]
        await fleet.until(run_id, "running")
        if kind == "sync":
            await eventually(lambda: lines(tmp_path / "notes"))
        asked_at = time.monotonic()
        answer = await fleet.post(f"/v1/runs/{run_id}/cancel")
        assert answer["cancelRequested"]
        run = await fleet.until(run_id, "cancelled")
        took = time.monotonic() - asked_at
        print(f"{kind}: {took * 1000:.0f} ms")
        assert took < 1.5 * patience()
        assert run["cancelRequested"]


@on("direct")  # how it learns of the request is tried above
async def test_a_script_that_ignores_the_request_is_killed_after_the_grace_period(fleet):
    script = fleet.home / "scripts" / "stubborn.py"
    script.parent.mkdir(parents=True)
    script.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)\n"
    )
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    await fleet.start_worker()
    run_id = (await fleet.submit("script", payload={"script": "stubborn.py"}))["runId"]
    await fleet.until(run_id, "running")
    await asyncio.sleep(0.5)
    await fleet.post(f"/v1/runs/{run_id}/cancel")
    run = await fleet.until(run_id, "cancelled")
    assert run["cancelRequested"]


@on("direct", "pgbouncer")
async def test_a_worker_told_to_stop_drains_and_charges_nothing(fleet, tmp_path):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    worker = await fleet.start_worker("--slots", "1")
    running = (await fleet.submit("note", payload={"file": str(tmp_path / "notes"), "seconds": 1}))["runId"]
    await eventually(lambda: lines(tmp_path / "notes"))
    soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
    waiting = [(await fleet.submit("rota.echo", scheduleType="future", scheduleTime=soon))["runId"] for _ in range(5)]
    assert await worker.terminate() == 0
    run = await fleet.run(running)
    assert (run["status"], run["attempt"]) == ("success", 1)
    await fleet.start_worker()
    for run_id in waiting:
        run = await fleet.until(run_id, "success")
        assert (run["attempt"], run["attempts"]) == (1, [])
    gone = [found for found in await fleet.workers() if found["pid"] == worker.pid]
    assert [(found["status"], found["goneReason"]) for found in gone] == [("gone", "stopped")]


@on("direct")  # handing back behind PgBouncer is tried above
async def test_runs_that_outlast_the_drain_are_handed_back_uncharged(fleet, tmp_path):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    worker = await fleet.start_worker(ROTA_DRAIN_SECONDS="0.2")
    notes = tmp_path / "notes"
    again = (await fleet.submit("note", payload={"file": str(notes), "seconds": 30}))["runId"]
    once = (await fleet.submit("note", payload={"file": str(notes), "seconds": 30}, maxRetries=0))["runId"]
    await eventually(lambda: len(lines(notes)) == 2)
    assert await worker.terminate() == 0
    run = await fleet.run(again)
    assert (run["status"], run["attempt"]) == ("queued", 0)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["interrupted"]
    # Without retries it may not silently run again: somebody must decide.
    assert (await fleet.run(once))["status"] == "failed"
    assert [letter["runId"] for letter in (await fleet.get("/v1/dead-letters"))["items"]] == [once]


@on("direct")  # a matter of the process alone
async def test_a_worker_leaves_when_told_to_even_if_a_thread_does_not(fleet, tmp_path):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    worker = await fleet.start_worker(ROTA_DRAIN_SECONDS="0.2", ROTA_WORKER_LEASE_SECONDS=str(2 * patience()))
    run_id = (await fleet.submit("stubborn", payload={"file": str(tmp_path / "notes")}))["runId"]
    await eventually(lambda: lines(tmp_path / "notes"))
    assert await worker.terminate() == 0
    # Nobody could say how it ended: it may have done its work, so it is charged and tried again.
    await eventually(lambda: gone_lost(fleet, run_id))


async def gone_lost(fleet, run_id):
    return [attempt["outcome"] for attempt in (await fleet.run(run_id))["attempts"]] == ["lost"]


@on("without-notify")  # nobody is woken for it
async def test_a_worker_that_does_not_know_a_task_leaves_it_to_one_that_does(fleet, tmp_path):
    await asyncio.gather(fleet.start_api(), fleet.start("scheduler"))
    ignorant = await fleet.start("worker")

    async def known():
        return any(worker["pid"] == ignorant.pid for worker in await fleet.workers())

    await eventually(known)
    run_id = (await fleet.submit("note", payload={"file": str(tmp_path / "notes")}))["runId"]
    beside = (await fleet.submit("rota.echo", payload={"a": 1}))["runId"]
    await fleet.until(beside, "success")
    run = await fleet.run(run_id)
    assert (run["status"], run["attempt"]) == ("queued", 0)
    assert run["waitingFor"] == "no live worker knows task note"
    await fleet.start_worker()
    run = await fleet.until(run_id, "success")
    assert run["attempt"] == 1
