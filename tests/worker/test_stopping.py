"""Timeouts, cancellation, expiry: asked, waited for, killed, given up."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

import rota
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.shell import ShellRunner
from support import eventually, in_time

SLACK = timedelta(seconds=2)  # between the clock of a test and that of the database


@pytest.fixture
def shell():
    return {"shell": ShellRunner(Subprocesses(), grace_seconds=0.3)}


async def test_an_async_task_that_takes_too_long_is_cancelled_and_tried_again(engine):
    seen = []

    async def slow():
        seen.append(time.monotonic())
        if len(seen) == 1:
            await asyncio.sleep(60)
        return "done"

    retry = {"strategy": "fixed", "baseSeconds": 0}
    run_id = await engine.submit(task="slow", timeoutSeconds=1, retry=retry)
    async with engine.running(engine.worker({"slow": slow})):
        run = await engine.until(run_id, "success")
    assert run["timeoutSeconds"] == 1
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["timed_out"]
    assert run["attempts"][0]["error"] == "timed out after 1 s"


async def test_what_comes_after_the_timeout_is_no_success(engine):
    async def stubborn():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done all the same"

    run_id = await engine.submit(task="stubborn", timeoutSeconds=0.2, maxRetries=0)
    async with engine.running(engine.worker({"stubborn": stubborn})):
        run = await engine.until(run_id, "failed", "success")
    assert (run["status"], run.get("result")) == ("failed", None)


async def test_a_context_knows_its_deadline(engine):
    async def look(context: rota.Context):
        return context.deadline.isoformat()

    before = datetime.now(UTC)
    run_id = await engine.submit(task="look", timeoutSeconds=30)
    async with engine.running(engine.worker({"look": look})):
        run = await engine.until(run_id, "success")
    assert before < datetime.fromisoformat(run["result"]) - timedelta(seconds=29) < datetime.now(UTC) + SLACK


async def test_a_shell_command_that_ignores_sigterm_is_killed(engine, shell):
    command = {"command": "trap '' TERM; while true; do sleep 0.1; done"}
    run_id = await engine.submit(task="shell", payload=command, timeoutSeconds=0.3, maxRetries=0)
    async with engine.running(engine.worker(runners=shell, grace_seconds=0.3)):
        run = await engine.until(run_id, "failed")
    assert run["error"] == "timed out after 0.3 s"


async def test_a_function_in_a_thread_is_asked_then_given_up_and_its_record_says_so(engine):
    free = threading.Event()
    run_id = await engine.submit(task="deaf", timeoutSeconds=0.2, maxRetries=0)
    worker = engine.worker({"deaf": lambda: free.wait(30)}, grace_seconds=0.2)
    async with engine.running(worker):
        run = await engine.until(run_id, "failed")
        assert "can't be killed, and may still be running" in run["error"]
        assert worker.has_abandoned_runs
        assert worker.health().status == "ailing"
        # It is told with the next beat, and listed.
        listed = await eventually(lambda: _ailing(engine))
        assert "did not stop" in listed["detail"]
        free.set()
        await eventually(lambda: not worker.has_abandoned_runs)


async def _ailing(engine):
    workers = (await engine.api.get("/v1/workers")).json()["items"]
    return next((worker for worker in workers if worker["status"] == "ailing"), None)


async def test_a_worker_with_too_many_that_do_not_stop_restarts(engine):
    free = threading.Event()
    for _ in range(2):
        await engine.submit(task="deaf", timeoutSeconds=0.2, maxRetries=0)
    worker = engine.worker({"deaf": lambda: free.wait(30)}, grace_seconds=0.2, most_abandoned=2)
    await in_time(worker.run())
    assert worker.restart_wanted
    free.set()


async def test_a_function_waits_for_its_thread_before_its_time_counts(engine):
    free, holding = threading.Event(), []

    def hold():
        holding.append(True)
        free.wait(60)

    worker = engine.worker({"hold": hold, "short": lambda: "ran"})
    for _ in range(4):
        await engine.submit(task="hold")
    async with engine.running(worker):
        await eventually(lambda: len(holding) == 4)
        runs = [await engine.submit(task="short", timeoutSeconds=1, maxRetries=0) for _ in range(4)]
        await eventually(lambda: len(worker.slots.running) == 8)
        await asyncio.sleep(1.5)
        free.set()
        for run_id in runs:
            run = await engine.until(run_id, "success", "failed")
            assert (run["status"], run["result"]) == ("success", "ran")


async def test_cancelling_what_ignores_it_ends_after_the_grace_period(engine):
    free, begun = threading.Event(), threading.Event()

    def deaf():
        begun.set()
        free.wait(60)

    run_id = await engine.submit(task="deaf")
    worker = engine.worker({"deaf": deaf}, grace_seconds=0.2)
    async with engine.running(worker):
        await eventually(begun.is_set)
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        run = await engine.until(run_id, "cancelled")
        assert "may still be running" in run["error"]
        free.set()


async def test_a_run_that_waited_too_long_is_skipped_by_the_scheduler(engine, sql):
    run_id = await engine.submit(task="nobody.knows", expiresSeconds=60)
    run = await engine.run(run_id)
    assert run["expiresTime"] > run["scheduledTime"]
    scheduler = await engine.leading()
    assert await scheduler.expirer.tick() == 0
    await sql.execute("UPDATE rota.live_runs SET expires_at = now() - interval '1 s'")
    assert await scheduler.expirer.tick() == 1
    run = await engine.run(run_id)
    assert (run["status"], run["reason"]) == ("skipped", "expired: it was not started in time")
    assert run["attempts"] == []


async def test_a_worker_does_not_start_what_has_expired(engine, sql):
    run_id = await engine.submit(expiresSeconds=60)
    await sql.execute("UPDATE rota.live_runs SET expires_at = now() - interval '1 s'")
    async with engine.running(engine.worker()):
        run = await engine.until(run_id, "skipped", "success")
    assert (run["status"], run["startTime"]) == ("skipped", None)


async def test_a_paused_run_expires_as_well(engine, sql):
    answer = await engine.api.post(
        "/v1/jobs", json={"name": "n", "scheduleType": "immediate", "task": "nobody.knows", "expiresSeconds": 60}
    )
    await engine.api.post(f"/v1/jobs/{answer.json()['jobId']}/pause")
    await sql.execute("UPDATE rota.held_runs SET expires_at = now() - interval '1 s'")
    assert await (await engine.leading()).expirer.tick() == 1


async def test_expiry_concerns_the_first_start_only(engine, sql):
    async def fail():
        raise ValueError("no")

    run_id = await engine.submit(task="fail", expiresSeconds=60, retry={"strategy": "fixed", "baseSeconds": 60})
    async with engine.running(engine.worker({"fail": fail})):
        await engine.until(run_id, "retrying")
    assert await sql.fetchval("SELECT expires_at FROM rota.upcoming_runs") is None


async def test_a_change_of_expiry_binds_what_waits(engine):
    run_id = await engine.submit(task="nobody.knows")
    job_id = run_id.replace("run_", "job_")
    await engine.api.put(f"/v1/jobs/{job_id}", json={"expiresSeconds": 60})
    assert "expiresTime" in await engine.run(run_id)
    await engine.api.put(f"/v1/jobs/{job_id}", json={"expiresSeconds": None})
    assert "expiresTime" not in await engine.run(run_id)


async def test_runs_of_a_schedule_expire_by_their_own_time(engine, sql):
    await engine.recurring(scheduleType="interval", everySeconds=1, task="nobody.knows", expiresSeconds=5)
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    assert await sql.fetchval(
        "SELECT bool_and(expires_at = nominal_at + interval '5 s') AND count(*) > 0 FROM rota.upcoming_runs"
    )


@pytest.mark.parametrize("field", ["timeoutSeconds", "expiresSeconds"])
@pytest.mark.parametrize("value", [0, -1, "soon", 1e12])
async def test_lengths_that_make_no_sense_are_refused(engine, field, value):
    answer = await engine.api.post(
        "/v1/jobs", json={"name": "n", "scheduleType": "immediate", "task": "rota.echo", field: value}
    )
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field


async def test_a_snooze_is_not_an_attempt_and_the_run_comes_back(engine):
    seen = []

    async def wait_for_it(context: rota.Context):
        seen.append(context.attempt)
        return rota.Snooze(0.2) if len(seen) < 3 else "there"

    run_id = await engine.submit(task="wait", maxRetries=0)
    async with engine.running(engine.scheduler(), engine.worker({"wait": wait_for_it})):
        run = await engine.until(run_id, "success", "failed")
    assert (run["result"], run["snoozes"], run["attempt"]) == ("there", 2, 1)
    assert seen == [1, 1, 1]


def test_a_snooze_has_a_length():
    for wrong in (-1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="number of seconds"):
            rota.Snooze(wrong)


async def test_a_checkpoint_is_there_for_the_next_attempt(engine):
    async def resume(context: rota.Context):
        page = context.last_checkpoint or 0
        context.checkpoint(page + 1)
        if page < 2:
            raise ValueError(f"stopped after page {page}")
        return page

    run_id = await engine.submit(task="resume", retry={"strategy": "fixed", "baseSeconds": 0})
    async with engine.running(engine.worker({"resume": resume})):
        run = await engine.until(run_id, "success", "failed")
    assert (run["result"], run["attempt"]) == (2, 3)


async def test_a_checkpoint_is_written_while_the_run_goes_on(engine, sql):
    release = asyncio.Event()

    async def hold(context: rota.Context):
        context.checkpoint({"page": 7})
        await release.wait()

    await engine.submit(task="hold")
    async with engine.running(engine.worker({"hold": hold})):

        async def written():
            return await sql.fetchval("SELECT checkpoint FROM rota.live_runs")

        assert await eventually(written) == '{"page":7}'
        release.set()


async def test_a_checkpoint_that_is_too_large_is_the_tasks_error(engine):
    async def much(context: rota.Context):
        context.checkpoint("x" * 70_000)

    run_id = await engine.submit(task="much", maxRetries=0)
    async with engine.running(engine.worker({"much": much})):
        assert "the limit is 65536" in (await engine.until(run_id, "failed"))["error"]


async def test_a_snooze_that_cannot_be_stored_does_not_run_for_ever(engine):
    with pytest.raises(ValueError, match="a year"):
        rota.Snooze(1e15)
    seen = []

    async def forge():
        seen.append(True)
        snooze = rota.Snooze(1)
        snooze.seconds = 1e15
        return snooze

    run_id = await engine.submit(task="forge", maxRetries=0)
    async with engine.running(engine.worker({"forge": forge})):
        run = await engine.until(run_id, "failed")
    assert "could not be stored" in run["error"]
    assert len(seen) == 1


async def test_an_error_that_raises_when_it_is_shown_is_told_all_the_same(engine):
    class WickedError(Exception):
        def __str__(self):
            raise SystemExit(1)

    async def wicked():
        raise WickedError

    run_id = await engine.submit(task="wicked", maxRetries=0)
    async with engine.running(engine.worker({"wicked": wicked})):
        assert "can't be described" in (await engine.until(run_id, "failed"))["error"]


async def test_a_function_in_a_thread_knows_its_deadline_from_the_start(engine):
    def look(context: rota.Context):
        return context.deadline is not None

    run_id = await engine.submit(task="look", timeoutSeconds=30)
    async with engine.running(engine.worker({"look": look})):
        assert (await engine.until(run_id, "success"))["result"] is True
