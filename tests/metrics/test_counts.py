"""What processes count: submissions, attempts, fire times, lost runs."""

from __future__ import annotations

from engine import report
from metric_lines import total
from rota.broker.postgres import PostgresBroker
from rota.clock import DatabaseClock
from rota.metrics.catalogue import Metrics
from rota.scheduler.reaper import Reaper
from support import eventually, job


def counting_worker(engine, tasks, metrics, **options):
    broker = PostgresBroker(database=engine.database, listen_url=engine.url, lease_seconds=5.0, metrics=metrics)
    return engine.worker(tasks, broker=broker, **options)


async def test_a_submission_is_counted_once_however_often_it_is_repeated(make_api):
    async with make_api() as api:
        for _ in range(3):
            await api.post("/v1/jobs", json=job(), headers={"Idempotency-Key": "one"})
        await api.post("/v1/jobs/batch", json={"job": {"task": "rota.echo"}, "payloads": [{}] * 20})
        await api.post("/v1/jobs/batch", json=[job(), job(task="")])
        assert total(api.services.metrics, "rota_runs_submitted_total", namespace="default", pool="default") == 22


async def test_attempts_are_counted_by_outcome_with_lag_queue_and_duration(engine):
    async def fail():
        raise ValueError("no")

    metrics = Metrics(task_label=True)
    good = [await engine.submit(task="rota.echo") for _ in range(3)]
    bad = await engine.submit(task="fail", maxRetries=1, retry={"baseSeconds": 0.01, "jitter": 0})
    async with engine.running(engine.scheduler(), counting_worker(engine, {"fail": fail}, metrics)):
        for run_id in good:
            await engine.until(run_id, "success")
        await engine.until(bad, "failed")
        await eventually(lambda: total(metrics, "rota_attempts_ended_total") == 5)
    assert total(metrics, "rota_attempts_started_total", task="rota.echo") == 3
    assert total(metrics, "rota_attempts_ended_total", task="rota.echo", outcome="success") == 3
    assert total(metrics, "rota_attempts_ended_total", task="fail", outcome="failed") == 2
    assert total(metrics, "rota_retries_total", task="fail") == 1
    assert total(metrics, "rota_runs_buried_total", task="fail") == 1
    assert total(metrics, "rota_queue_seconds_count") == 5
    assert total(metrics, "rota_start_lag_seconds_count") == 4  # a retry starts late on purpose
    assert total(metrics, "rota_run_duration_seconds_count") == 5


async def test_a_long_attempt_has_started_before_it_ends(engine):
    metrics = Metrics()
    run_id = await engine.submit(task="rota.sleep", payload={"seconds": 60})
    async with engine.running(counting_worker(engine, {}, metrics)):
        await eventually(lambda: total(metrics, "rota_attempts_started_total") == 1)
        assert total(metrics, "rota_attempts_ended_total") == 0
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        await eventually(lambda: total(metrics, "rota_attempts_ended_total", outcome="cancelled") == 1)
    assert total(metrics, "rota_attempts_started_total") == 1
    assert total(metrics, "rota_start_lag_seconds_count") == 1


async def test_a_fenced_report_is_no_end(engine, sql):
    metrics = Metrics()
    broker = PostgresBroker(database=engine.database, listen_url=engine.url, lease_seconds=5.0, metrics=metrics)
    await engine.join(broker, "rota.echo")
    await engine.submit(task="rota.echo")
    (claim,) = await broker.claim(1)
    await sql.execute("UPDATE rota.live_runs SET claim = claim + 1")
    receipt = await broker.report([report(claim)])
    assert receipt.fenced == {claim.number}
    assert total(metrics, "rota_fenced_reports_total") == 1
    assert total(metrics, "rota_attempts_ended_total") == 0


async def test_fire_times_are_counted_by_namespace(engine):
    await engine.recurring(scheduleType="interval", everySeconds=1)
    scheduler = await engine.leading()
    metrics = Metrics()
    scheduler.firer._metrics = metrics
    await scheduler.firer.tick()
    assert total(metrics, "rota_fire_total", namespace="default") > 5


async def test_attempts_of_a_lost_worker_are_counted_by_the_scheduler_that_settles_them(engine, sql):
    broker = engine.broker()
    worker_id = await engine.join(broker, "rota.echo")
    await engine.submit(task="rota.echo")
    assert await broker.claim(1)
    await sql.execute("UPDATE rota.workers SET gone_at = now(), gone_why = 'silent' WHERE id = $1", worker_id)
    metrics = Metrics()
    reaper = Reaper(workers=engine.lost_workers, reports=engine.reports, clock=DatabaseClock(), metrics=metrics)
    assert await reaper.tick() == 1
    assert total(metrics, "rota_attempts_ended_total", outcome="lost", pool="default") == 1
    assert total(metrics, "rota_attempts_started_total") == 0
