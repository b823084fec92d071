"""Transactional tasks: what they write and the run's success are committed together, or neither is."""

from __future__ import annotations

import asyncio

import pytest

import rota
from engine import plain, report
from rota.domain.run import Outcome
from rota.errors import SetupError
from rota.worker.runners.function import FunctionRunner
from support import eventually, in_time


async def charge(context: rota.Context, cents: int = 1, then: str = "") -> dict:
    await context.connection.execute("INSERT INTO ledger VALUES ($1)", cents)
    return after_charge(context, then)


def charge_sync(context: rota.Context, cents: int = 1, then: str = "") -> dict:
    context.connection.execute("INSERT INTO ledger VALUES (%s)", (cents,))
    return after_charge(context, then)


def after_charge(context, then):
    if then == "fail" and context.attempt == 1:
        raise ValueError("failed after the charge")
    if then == "snooze" and not context.claim.checkpoint:
        context.checkpoint("seen")
        return rota.Snooze(0.1)
    return {"large": "x" * 100_000} if then == "large" else {"charged": True}


@pytest.mark.parametrize("function", [charge, charge_sync])
async def test_a_success_is_recorded_with_what_was_written(engine, serving, ledger, function):
    async with serving(function):
        run = await engine.until(await engine.submit(task="charge", payload={"cents": 5}), "success")
        assert (run["result"], run["attempt"], run["progress"]) == ({"charged": True}, 1, "100%")
        large = await engine.until(await engine.submit(task="charge", payload={"then": "large"}), "success")
        assert len(large["result"]["large"]) == 100_000
    assert sorted(await ledger()) == [1, 5]


@pytest.mark.parametrize("function", [charge, charge_sync])
@pytest.mark.parametrize("then", ["fail", "snooze"])
async def test_nothing_of_an_attempt_stays_that_did_not_succeed(engine, serving, ledger, function, then):
    retry = {"strategy": "fixed", "baseSeconds": 0, "jitter": 0}
    async with serving(function):
        run_id = await engine.submit(task="charge", payload={"cents": 7, "then": then}, retry=retry)
        run = await engine.until(run_id, "success")
        assert run["attempt"] == (2 if then == "fail" else 1)
    assert await ledger() == [7]


async def test_what_a_cancelled_task_wrote_is_rolled_back(engine, serving, ledger):
    begun = asyncio.Event()

    async def wait(context: rota.Context) -> None:
        await context.connection.execute("INSERT INTO ledger VALUES (1)")
        begun.set()
        await asyncio.sleep(60)

    async with serving(wait):
        run_id = await engine.submit(task="charge")
        await in_time(begun.wait())
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        await engine.until(run_id, "cancelled")
    assert await ledger() == []


async def test_whoever_lost_the_claim_can_not_commit(engine, serving, ledger, sql):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(context: rota.Context) -> None:
        await context.connection.execute("INSERT INTO ledger VALUES (1)")
        begun.set()
        await go_on.wait()

    async with serving(slow):
        run_id = await engine.submit(task="charge")
        await in_time(begun.wait())
        # Somebody else has it now, under another number.
        await sql.execute("UPDATE rota.live_runs SET claim = claim + 1000000 WHERE id = $1", plain(run_id))
        go_on.set()
        workers = engine.api

        async def fenced():
            return (await workers.get("/v1/workers")).json()["items"][0]["fencedReports"]

        await eventually(fenced)
    assert await ledger() == []
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == 0


async def test_a_report_after_a_commit_whose_answer_was_lost_changes_nothing(engine, sql):
    broker = engine.broker()
    await engine.join(broker, "charge")
    run_id = await engine.submit(task="charge")
    (claim,) = await broker.claim(1)
    done = await sql.fetchval(
        "SELECT rota.complete_v1('default', $1, $2, now(), '7', NULL)", plain(run_id), claim.number
    )
    answer = await broker.report([report(claim, Outcome.failed, error="the connection was lost")])
    run = await engine.run(run_id)
    assert (done, answer.fenced, run["status"], run["result"]) == (True, frozenset(), "success", 7)
    again = "SELECT rota.complete_v1('default', $1, $2, now(), '8', NULL)"
    assert await sql.fetchval(again, plain(run_id), claim.number) is False


async def test_a_run_of_a_day_without_history_makes_its_day(engine, sql):
    broker = engine.broker()
    await engine.join(broker, "charge")
    run_id = await engine.submit(task="charge")
    (claim,) = await broker.claim(1)
    day = await sql.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')")
    await sql.execute(f"DROP TABLE rota.finished_runs_{day}")
    complete = "SELECT rota.complete_v1('default', $1, $2, now(), NULL, NULL)"
    assert await sql.fetchval(complete, plain(run_id), claim.number)
    assert (await engine.run(run_id))["status"] == "success"


async def test_who_waits_behind_a_transactional_run_goes_on_when_it_has_ended(engine, serving, ledger):
    async with serving(charge):
        runs = [await engine.submit(task="charge", payload={"cents": number}, orderingKey="one") for number in range(5)]
        for run_id in runs:
            await engine.until(run_id, "success")
    assert await ledger() == [0, 1, 2, 3, 4]


async def test_only_a_transactional_task_has_a_connection(engine):
    async def reach(context: rota.Context) -> None:
        await context.connection.execute("SELECT 1")

    async with engine.running(engine.worker({"reach": reach})):
        run = await engine.until(await engine.submit(task="reach", maxRetries=0), "failed")
    assert "transactional=True" in run["error"]


def test_a_worker_without_transactions_to_share_refuses_such_tasks():
    with pytest.raises(SetupError, match="has no transactions to share"):
        FunctionRunner({"charge": charge}, threads=1, transactional=["charge"])


async def test_what_a_task_has_recorded_itself_is_not_reported_to_the_database(
    engine, serving, ledger, sql, monkeypatch
):
    statements = []
    fetch = engine.database.fetch

    async def noted(name, /, **options):
        statements.append(name)
        return await fetch(name, **options)

    async with serving(charge):
        monkeypatch.setattr(engine.database, "fetch", noted)
        await engine.until(await engine.submit(task="charge"), "success")

        await eventually(lambda: sql.fetchval("SELECT sum(succeeded) FROM rota.tallies"))
    assert await ledger() == [1]
    assert not {"report_success", "recorded_reports"} & set(statements)


async def test_a_completion_that_the_database_lost_is_run_again_and_not_called_a_success(engine, sql):
    """After a restore neither the task's writes nor the completion are there."""
    broker = engine.broker()
    await engine.join(broker, "charge")
    run_id = await engine.submit(task="charge")
    (claim,) = await broker.claim(1)
    answer = await broker.report([report(claim, recorded=True)])
    assert answer.fenced == frozenset()
    assert (await engine.run(run_id))["status"] == "running"
    assert await broker.reconcile(frozenset()) == 1
    assert (await engine.run(run_id))["status"] == "queued"
