"""Cancel, update and pause race against promote, claim, retry and report, and never lose."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

from engine import plain
from support import eventually, job, patience

RUNS = 150
FAST = {"strategy": "fixed", "baseSeconds": 0.02, "jitter": 1}
EACH_SECOND = {"scheduleType": "cron", "cronExpression": "* * * * * *"}


async def submit_crowd(engine, **fields):
    """Runs that are due over the next second and a half; they will be promoted, claimed, fail and be retried."""
    now = datetime.now(UTC)
    items = [
        job(
            scheduleType="future",
            scheduleTime=(now + timedelta(seconds=random.uniform(0, 1.5))).isoformat(),
            maxRetries=1000,
            retry=FAST,
            **fields,
        )
        for _ in range(RUNS)
    ]
    results = (await engine.api.post("/v1/jobs/batch", json=items)).json()["results"]
    return [result["runId"] for result in results]


async def stir(scheduler):
    """Moves runs all the time: promotes as often as it can."""
    while True:
        await scheduler.promoter.tick()
        await asyncio.sleep(0)


async def test_cancel_never_loses_against_promote_claim_retry_and_report(engine, sql):
    async def fail():
        await asyncio.sleep(random.uniform(0, 0.01))
        raise RuntimeError("again")

    run_ids = await submit_crowd(engine, task="fail")
    scheduler = await engine.leading()
    stirring = asyncio.create_task(stir(scheduler))
    answers: Counter[int] = Counter()

    async def cancel(run_id):
        await asyncio.sleep(random.uniform(0, 2))
        answers[(await engine.api.post(f"/v1/runs/{run_id}/cancel")).status_code] += 1

    async with engine.running(engine.worker({"fail": fail}, slots=20), engine.worker({"fail": fail}, slots=20)):
        await asyncio.gather(*(cancel(run_id) for run_id in run_ids))

        async def all_ended():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == RUNS

        await eventually(all_ended)
        stirring.cancel()
    assert answers == {202: RUNS}, "a run that fails for ever is always there to be cancelled"
    rows = await sql.fetch("SELECT status, count(*) FROM rota.runs GROUP BY status")
    assert {row["status"]: row["count"] for row in rows} == {"cancelled": RUNS}
    assert await sql.fetchval("SELECT count(*) FROM rota.dead_letters") == 0


async def test_a_cancel_beside_a_success_leaves_one_truth(engine, sql):
    run_ids = await submit_crowd(engine, task="rota.echo")
    scheduler = await engine.leading()
    stirring = asyncio.create_task(stir(scheduler))

    async def cancel(run_id):
        await asyncio.sleep(random.uniform(0, 2))
        return run_id, (await engine.api.post(f"/v1/runs/{run_id}/cancel")).status_code

    async with engine.running(engine.worker(slots=20)):
        answers = dict(await asyncio.gather(*(cancel(run_id) for run_id in run_ids)))

        async def all_ended():
            return await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == RUNS

        await eventually(all_ended)
        stirring.cancel()
    rows = await sql.fetch("SELECT id, status, cancel_requested, started_at FROM rota.finished_runs")
    assert len(rows) == len({row["id"] for row in rows}) == RUNS
    for row in rows:
        answered = answers[f"run_{row['id'].hex}"]
        if answered == 409:
            assert (row["status"], row["cancel_requested"]) == ("success", False)
        else:
            assert row["cancel_requested"], "whoever was promised a cancel sees it on the run"


async def test_updates_bind_what_has_not_started_and_no_time_of_the_schedule_is_lost_or_doubled(engine, sql):
    started: list[tuple[datetime, int]] = []

    async def note(context, version: int):
        started.append((context.nominal_time, version))
        if random.random() < 0.3:
            raise RuntimeError("again")

    note.__annotations__["context"] = "rota.Context"
    job_id = await engine.recurring(**EACH_SECOND, task="note", payload={"version": 0}, maxRetries=1000, retry=FAST)
    changed_at = []
    async with engine.running(
        engine.scheduler(), engine.scheduler(), engine.worker({"note": note}), engine.worker({"note": note})
    ):
        for version in range(1, 25):
            await asyncio.sleep(random.uniform(0, 0.4))
            body = {"payload": {"version": version}}
            if version % 5 == 0:
                # A real change of the schedule: the same times in other words, so that none may be lost.
                body["cronExpression"] = ["* * * * * *", "*/1 * * * * *"][version // 5 % 2]
            answer = await engine.api.put(f"/v1/jobs/{job_id}", json=body)
            assert answer.status_code == 200, answer.text
            changed_at.append(datetime.now(UTC))
        end = datetime.now(UTC) + timedelta(seconds=2)

        async def all_done():
            return datetime.now(UTC) > end and not await sql.fetchval(
                "SELECT count(*) FROM rota.runs WHERE nominal_at <= $1 AND status <> 'success'", end
            )

        await eventually(all_done)
    for nominal, version in started:
        committed = sum(moment < nominal - timedelta(seconds=0.5 * patience()) for moment in changed_at)
        # Claimed up to a second ahead and recalled: what starts after a change must have seen it.
        assert version >= committed, f"{nominal} ran version {version}, but {committed} was there before"
    rows = await sql.fetch(
        "SELECT nominal_at, count(*) FROM rota.runs WHERE job_id = $1 AND nominal_at <= $2 GROUP BY 1 ORDER BY 1",
        plain(job_id),
        end,
    )
    times = [row["nominal_at"] for row in rows]
    assert {row["count"] for row in rows} == {1}
    assert times == [times[0] + timedelta(seconds=number) for number in range(len(times))]


async def test_pause_and_resume_race_with_everything_and_lose_no_run(engine, sql):
    running = Counter()

    async def note(context):
        running[context.run_id] += 1
        await asyncio.sleep(random.uniform(0, 0.02))
        if context.attempt < 3:
            raise RuntimeError("again")

    note.__annotations__["context"] = "rota.Context"
    job_id = await engine.recurring(**EACH_SECOND, task="note", maxRetries=5, retry=FAST)
    manual = []
    async with engine.running(engine.scheduler(), engine.worker({"note": note}), engine.worker({"note": note})):
        for _ in range(25):
            await engine.api.post(f"/v1/jobs/{job_id}/pause")
            manual += [(await engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"] for _ in range(2)]
            await asyncio.sleep(random.uniform(0, 0.05))
            await engine.api.post(f"/v1/jobs/{job_id}/resume")
            await asyncio.sleep(random.uniform(0, 0.1))
        for run_id in manual:
            run = await engine.until(run_id, "success")
            assert run["attempt"] == 3
        await engine.api.post(f"/v1/jobs/{job_id}/pause")

        async def quiet():
            return not await sql.fetchval("SELECT count(*) FROM rota.live_runs")

        await eventually(quiet)
    rows = await sql.fetch("SELECT nominal_at, cause FROM rota.runs WHERE cause = 'schedule'")
    assert len(rows) == len({row["nominal_at"] for row in rows})
    assert all(running[run_id] == 3 for run_id in manual)


async def test_a_paused_job_does_not_run_whatever_moves_meanwhile(engine, sql):
    ran = Counter()

    async def note(context):
        ran[context.run_id] += 1
        raise RuntimeError("again")

    note.__annotations__["context"] = "rota.Context"
    job_id = await engine.recurring(
        scheduleType="interval", everySeconds=3600, task="note", maxRetries=1000, retry=FAST
    )
    for _ in range(30):
        await engine.api.post(f"/v1/jobs/{job_id}/run")
    async with engine.running(engine.scheduler(), engine.worker({"note": note}, slots=5)):
        await eventually(lambda: len(ran) > 20)
        await engine.api.post(f"/v1/jobs/{job_id}/pause")

        async def all_held():
            return await sql.fetchval("SELECT count(*) FROM rota.held_runs WHERE gate = 'pause'") == 30

        # What ran at the commit of the pause ends its attempt; then it is held like the rest.
        await eventually(all_held)
        before = sum(ran.values())
        await asyncio.sleep(0.5)
        assert sum(ran.values()) == before
