"""The rules of a run's life: states, attempts, reports, retries, cancel, unknown tasks, priority."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from engine import plain, report
from rota.domain.run import Outcome
from support import eventually, patience

FAST = {"strategy": "fixed", "baseSeconds": 0.05, "jitter": 0}


async def places(sql, run_id):
    """Every table this run is in."""
    found = [
        table
        for table in ("upcoming_runs", "held_runs", "live_runs", "finished_runs")
        if await sql.fetchval(f"SELECT count(*) FROM rota.{table} WHERE id = $1", plain(run_id))
    ]
    assert len(found) == 1, found
    return found[0]


async def test_states_follow_from_the_place_of_a_run(engine, sql):
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    run_id = await engine.submit(scheduleType="future", scheduleTime=later, task="rota.sleep", payload={"seconds": 0.3})
    assert ((await engine.run(run_id))["status"], await places(sql, run_id)) == ("scheduled", "upcoming_runs")
    assert "not due until" in (await engine.run(run_id))["waitingFor"]
    await engine.api.post(f"/v1/jobs/job_{run_id[4:]}/pause")
    assert ((await engine.run(run_id))["status"], await places(sql, run_id)) == ("blocked", "held_runs")
    await engine.api.post(f"/v1/jobs/job_{run_id[4:]}/resume")
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now() + interval '0.9 s'")
    scheduler = await engine.leading()
    await eventually(scheduler.promoter.tick)
    assert ((await engine.run(run_id))["status"], await places(sql, run_id)) == ("queued", "live_runs")
    broker = engine.broker()
    await engine.join(broker, "rota.sleep")
    (claim,) = await broker.claim(10)
    # Claimed and not yet due is still queued; running begins with the due moment.
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() + interval '1 hour'")
    assert (await engine.run(run_id))["status"] == "queued"
    await sql.execute("UPDATE rota.live_runs SET ready_at = now()")
    run = await engine.until(run_id, "running")
    assert run["attempt"] == 1
    await broker.report([report(claim, result='{"slept": 1}')])
    run = await engine.run(run_id)
    assert (run["status"], run["result"], run["progress"]) == ("success", {"slept": 1}, "100%")
    assert await places(sql, run_id) == "finished_runs"


async def test_a_failed_attempt_is_retried_with_backoff_and_kept_with_its_error(engine, sql):
    async def flaky(fails: int):
        raise ValueError(f"broken {fails}")

    run_id = await engine.submit(task="flaky", payload={"fails": 1}, maxRetries=2, retry=FAST)
    async with engine.running(engine.scheduler(), engine.worker({"flaky": flaky})):
        run = await engine.until(run_id, "failed")
    assert run["attempt"] == 3
    assert [(attempt["attempt"], attempt["outcome"]) for attempt in run["attempts"]] == [
        (1, "failed"),
        (2, "failed"),
        (3, "failed"),
    ]
    for attempt in run["attempts"]:
        assert attempt["error"] == "ValueError: broken 1"
        assert "in flaky" in attempt["traceback"]
        assert attempt["executorId"]
        assert attempt["startTime"]
        assert attempt["endTime"]
    letters = (await engine.api.get("/v1/dead-letters")).json()["items"]
    assert [(letter["runId"], letter["payload"], letter["attempts"]) for letter in letters] == [
        (run_id, {"fails": 1}, 3)
    ]


async def test_while_it_waits_for_its_next_attempt_a_run_is_retrying(engine):
    run_id = await engine.submit(task="rota.fail", retry={"strategy": "fixed", "baseSeconds": 100, "jitter": 0})
    async with engine.running(engine.worker()):
        run = await engine.until(run_id, "retrying")
    assert run["attempt"] == 1
    wait = datetime.fromisoformat(run["scheduledTime"]) - datetime.fromisoformat(run["attempts"][0]["endTime"])
    assert timedelta(seconds=99) < wait < timedelta(seconds=100 + patience())


async def test_while_it_waits_for_its_next_attempt_a_run_says_why_the_last_one_failed(engine):
    again = {"strategy": "fixed", "baseSeconds": 100, "jitter": 0}
    run_id = await engine.submit(task="rota.fail", payload={"message": "the disk is full"}, retry=again)
    fine = await engine.submit(task="rota.echo")
    async with engine.running(engine.worker()):
        run = await engine.until(run_id, "retrying")
        await engine.until(fine, "success")
    assert run["error"] == run["attempts"][0]["error"]
    assert "the disk is full" in run["error"]
    status = (await engine.api.get(f"/v1/jobs/{run['jobId']}/status")).json()
    assert (status["status"], status["attempt"], status["error"]) == ("retrying", 1, run["error"])
    other = (await engine.api.get(f"/v1/jobs/job_{fine[4:]}/status")).json()
    assert (other["status"], other["error"]) == ("success", None)


async def test_the_status_of_a_run_that_never_failed_is_one_statement(engine, monkeypatch):
    asked = []
    fetch = type(engine.database).fetch

    async def count(database, name, /, **parameters):
        asked.append(name)
        return await fetch(database, name, **parameters)

    run_id = await engine.submit(task="rota.echo")
    monkeypatch.setattr(type(engine.database), "fetch", count)
    await engine.api.get(f"/v1/jobs/job_{run_id[4:]}/status")
    assert asked == ["statuses_of_jobs"]


async def test_an_error_declared_final_is_not_retried(engine):
    run_id = await engine.submit(task="rota.fail", payload={"message": "no such customer", "final": True})
    async with engine.running(engine.worker()):
        run = await engine.until(run_id, "failed")
    assert (run["attempt"], run["error"]) == (1, "no such customer")


async def test_retry_and_redrive_keep_the_idempotency_key_and_run_now_has_a_new_one(engine):
    run_id = await engine.submit(task="rota.fail", maxRetries=0)
    async with engine.running(engine.scheduler(), engine.worker()):
        first = await engine.until(run_id, "failed")
        retried = (await engine.api.post(f"/v1/runs/{run_id}/retry")).json()
        second = await engine.until(retried["runId"], "failed")
        assert (await engine.api.post("/v1/dead-letters/redrive", json={"all": True})).json() == {"count": 1}
        runs = (await engine.api.get(f"/v1/jobs/{first['jobId']}/runs")).json()["items"]
        third = await engine.until(runs[0]["runId"], "failed")
        manual = (await engine.api.post(f"/v1/jobs/{first['jobId']}/run")).json()
        fourth = await engine.until(manual["runId"], "failed")
    assert {run["jobId"] for run in (first, second, third, fourth)} == {first["jobId"]}
    assert second["idempotencyKey"] == third["idempotencyKey"] == first["idempotencyKey"]
    assert fourth["idempotencyKey"] != first["idempotencyKey"]
    assert [run["cause"] for run in (first, second, third, fourth)] == ["submit", "retry", "redrive", "manual"]
    assert (second["retryOf"], third["retryOf"]) == (run_id, second["runId"])
    # Finished rows are never taken back.
    assert (await engine.run(run_id))["status"] == "failed"


async def test_discarded_dead_letters_leave_the_failed_run_in_history(engine):
    run_id = await engine.submit(task="rota.fail", maxRetries=0)
    async with engine.running(engine.worker()):
        await engine.until(run_id, "failed")
    assert (await engine.api.post("/v1/dead-letters/discard", json={"runIds": [run_id]})).json() == {"count": 1}
    assert (await engine.api.post("/v1/dead-letters/discard", json={"runIds": [run_id]})).json() == {"count": 0}
    assert (await engine.api.get("/v1/dead-letters")).json()["items"] == []
    assert (await engine.run(run_id))["status"] == "failed"


async def test_a_report_for_a_claim_that_is_not_current_changes_nothing_and_is_fenced(engine, sql):
    run_id = await engine.submit()
    zombie, heir = engine.broker(), engine.broker()
    zombie_id = await engine.join(zombie)
    (old,) = await zombie.claim(1)
    beat = await sql.fetchval("SELECT beat FROM rota.workers WHERE id = $1", zombie_id)
    assert await engine.lost_workers.give_up(zombie_id, beat, "worker lost")
    scheduler = await engine.leading()
    assert await scheduler.reaper.tick() == 1
    await engine.join(heir)
    (new,) = await heir.claim(1)
    assert new.number != old.number
    assert new.attempt == 1, "it may have started: the attempt is charged"
    before = await sql.fetch("SELECT * FROM rota.runs")
    answer = await zombie.report([report(old, result='"zombie"')])
    assert answer.fenced == {old.number}
    assert await sql.fetch("SELECT * FROM rota.runs") == before
    assert await zombie.claim(1) == [], "who was given up can't claim"
    assert not (await heir.report([report(new, result='"heir"')])).fenced
    run = await engine.run(run_id)
    assert (run["status"], run["result"], run["attempt"]) == ("success", "heir", 2)
    # Even after the end, the zombie's word is fenced and the heir's is known.
    assert (await zombie.report([report(old)])).fenced == {old.number}
    assert not (await heir.report([report(new)])).fenced


@pytest.mark.parametrize("outcome", [Outcome.success, Outcome.failed, Outcome.final, Outcome.cancelled])
async def test_a_report_that_was_recorded_before_is_answered_as_recorded(engine, sql, outcome):
    await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    told = report(claim, outcome, error=None if outcome is Outcome.success else "why")
    assert not (await broker.report([told])).fenced
    before = await sql.fetch("SELECT * FROM rota.runs")
    again = await broker.report([told])
    assert (again.fenced, again.rejected) == (frozenset(), {})
    assert await sql.fetch("SELECT * FROM rota.runs") == before


async def test_a_lost_run_without_retries_is_dead_lettered_and_never_silently_run_again(engine, sql):
    run_id = await engine.submit(maxRetries=0)
    broker = engine.broker()
    worker_id = await engine.join(broker)
    await broker.claim(1)
    await engine.lost_workers.give_up(worker_id, await sql.fetchval("SELECT beat FROM rota.workers"), "worker lost")
    scheduler = await engine.leading()
    await scheduler.reaper.tick()
    run = await engine.run(run_id)
    assert (run["status"], run["error"]) == ("failed", "worker lost")
    assert await sql.fetchval("SELECT count(*) FROM rota.dead_letters") == 1


async def test_a_claim_lost_before_it_was_due_is_not_charged(engine, sql):
    soon = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    run_id = await engine.submit(scheduleType="future", scheduleTime=soon)
    await sql.execute(
        """WITH gone AS (DELETE FROM rota.upcoming_runs RETURNING *)
           INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                  payload, payload_id, options, cause, shard, nominal_at, run_at, created_at, ready_at, lane)
           SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
                  options, cause, shard, nominal_at, run_at, created_at, run_at,
                  rota.lane_of(namespace, pool, task, priority) FROM gone"""
    )
    broker = engine.broker()
    worker_id = await engine.join(broker)
    claims = await engine.claims.claim(worker_id, broker._lanes["default", "default"], 1, timedelta(minutes=1))
    assert len(claims) == 1
    await engine.lost_workers.give_up(worker_id, await sql.fetchval("SELECT beat FROM rota.workers"), "worker lost")
    scheduler = await engine.leading()
    await scheduler.reaper.tick()
    run = await engine.run(run_id)
    assert (run["status"], run["attempt"], run["attempts"]) == ("queued", 0, [])


async def test_five_losses_of_the_database_in_a_row_bury_a_run(engine):
    run_id = await engine.submit(maxRetries=3)
    broker = engine.broker()
    await engine.join(broker)
    for loss in range(1, 6):
        (claim,) = await eventually(lambda: broker.claim(1))
        assert (claim.attempt, claim.losses) == (0, loss - 1), "such a stop is not charged"
        await broker.report([report(claim, Outcome.cut_off, error="stopped: the worker lost the database")])
    run = await engine.run(run_id)
    assert run["status"] == "failed"
    assert len(run["attempts"]) == 5


async def test_cancel_ends_a_run_and_all_its_retries(engine):
    waiting = await engine.submit(task="rota.fail", retry={"strategy": "fixed", "baseSeconds": 100})
    future = await engine.submit(
        scheduleType="future", scheduleTime=(datetime.now(UTC) + timedelta(hours=1)).isoformat()
    )
    queued = await engine.submit(task="nobody.knows")
    async with engine.running(engine.worker()):
        await engine.until(waiting, "retrying")
        for run_id in (waiting, future, queued):
            answer = await engine.api.post(f"/v1/runs/{run_id}/cancel")
            assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
            assert (await engine.run(run_id))["status"] == "cancelled"
            assert (await engine.api.post(f"/v1/runs/{run_id}/cancel")).status_code == 409


async def test_a_success_reported_before_the_cancel_took_hold_wins_and_says_cancel_requested(engine):
    run_id = await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    answer = await engine.api.post(f"/v1/runs/{run_id}/cancel")
    assert answer.json()["cancelRequested"]
    await broker.report([report(claim)])
    run = await engine.run(run_id)
    assert (run["status"], run["cancelRequested"]) == ("success", True)


@pytest.mark.parametrize("outcome", [Outcome.failed, Outcome.final, Outcome.released, Outcome.interrupted])
async def test_whatever_else_is_reported_after_a_cancel_the_run_is_cancelled(engine, sql, outcome):
    run_id = await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    (claim,) = await broker.claim(1)
    await engine.api.post(f"/v1/runs/{run_id}/cancel")
    await broker.report([report(claim, outcome, error="e")])
    assert (await engine.run(run_id))["status"] == "cancelled"
    assert await sql.fetchval("SELECT count(*) FROM rota.dead_letters") == 0


async def test_cancelling_a_job_cancels_everything_of_it_that_waits_or_runs(engine):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=1, task="rota.sleep", payload={"seconds": 60})
    async with engine.running(engine.scheduler(), engine.worker()):

        async def two_running():
            runs = (await engine.api.get(f"/v1/jobs/{job_id}/runs")).json()["items"]
            return sum(run["status"] == "running" for run in runs) >= 2

        await eventually(two_running)
        answer = await engine.api.request("DELETE", f"/v1/jobs/{job_id}")
        cancelled = answer.json()
        assert (cancelled["jobId"], cancelled["status"]) == (job_id, "cancelled")
        assert cancelled["stopping"] >= 2

        async def all_cancelled():
            runs = (await engine.api.get(f"/v1/jobs/{job_id}/runs")).json()["items"]
            return all(run["status"] == "cancelled" for run in runs)

        await eventually(all_cancelled)
    assert (await engine.api.get(f"/v1/jobs/{job_id}")).json()["status"] == "cancelled"
    assert (await engine.api.post(f"/v1/jobs/{job_id}/resume")).status_code == 409


async def test_priority_orders_inside_a_pool_and_waiting_raises_it(engine, sql):
    order = []

    async def note(name: str):
        order.append(name)

    names = ["low", "normal", "high", "critical"]
    for name in names:
        await engine.submit(task="note", payload={"name": name}, priority=name)
    await engine.submit(task="note", payload={"name": "low, but waiting for 11 minutes"}, priority="low")
    await sql.execute(
        """UPDATE rota.live_runs SET ready_at = ready_at - interval '11 minutes' WHERE payload LIKE '%waiting%'"""
    )
    async with engine.running(engine.worker({"note": note}, slots=1)):
        await eventually(lambda: len(order) == 5)
    assert order == ["critical", "low, but waiting for 11 minutes", "high", "normal", "low"]


async def test_pools_keep_their_runs_apart(engine):
    ran = []

    async def note(name: str):
        ran.append(name)

    heavy = await engine.submit(task="note", payload={"name": "heavy"}, pool="heavy")
    light = await engine.submit(task="note", payload={"name": "light"})
    async with engine.running(engine.worker({"note": note})):
        await engine.until(light, "success")
        assert (await engine.run(heavy))["waitingFor"] == "no live worker serves pool heavy"
        async with engine.running(engine.worker({"note": note}, pools=("heavy",))):
            await engine.until(heavy, "success")
    assert ran == ["light", "heavy"]


async def test_a_payload_that_does_not_fit_the_task_fails_at_once_with_words(engine):
    async def pay(amount: int):
        return amount

    run_id = await engine.submit(task="pay", payload={"amuont": 3})
    async with engine.running(engine.worker({"pay": pay})):
        run = await engine.until(run_id, "failed")
    assert "does not fit the task's parameters" in run["error"]
    assert run["attempt"] == 1


async def test_progress_is_seen_while_a_run_goes_on(engine):
    go_on = asyncio.Event()

    async def slow(context):
        context.progress(0.5, "half way")
        await go_on.wait()

    slow.__annotations__["context"] = "rota.Context"
    run_id = await engine.submit(task="slow")
    async with engine.running(engine.worker({"slow": slow})):

        async def half_way():
            run = await engine.run(run_id)
            return run if run["progress"] == "50%" else None

        run = await eventually(half_way)
        assert (run["progressMessage"], run["status"]) == ("half way", "running")
        assert run["startTime"]
        status = (await engine.api.get(f"/v1/jobs/{run['jobId']}/status")).json()
        assert (status["progress"], status["executorId"]) == ("50%", run["executorId"])
        go_on.set()
        await engine.until(run_id, "success")


async def test_a_large_payload_and_a_large_result_survive_the_way(engine, sql):
    payload = {"text": "x" * 30_000}
    run_id = await engine.submit(payload=payload)
    async with engine.running(engine.worker()):
        run = await engine.until(run_id, "success")
    assert run["payload"] == payload
    assert run["result"] == payload
    assert await sql.fetchval("SELECT payload FROM rota.finished_runs") is None


async def test_numbers_and_text_come_back_as_they_went_in(engine):
    text = '{"big": 123456789012345678901234567890, "exact": 0.1, "nul": "a\\u0000b", "umlaut": "ä\\ud83d\\ude00"}'
    answer = await engine.api.post(
        "/v1/jobs",
        content=f'{{"name": "n", "scheduleType": "immediate", "task": "rota.echo", "payload": {text}}}',
    )
    run_id = answer.json()["runId"]
    async with engine.running(engine.worker()):
        run = await engine.until(run_id, "success")
    assert run["payload"] == msgspec.json.decode(text.encode())
    assert run["result"] == run["payload"]
