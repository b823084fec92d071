"""An alert of each kind fires and resolves against a real fault."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime

import pytest

from commands import Commands
from rota.clock import WallClock
from support import eventually

EVERY_SECOND = {"scheduleType": "interval", "everySeconds": 1}


@pytest.fixture
def commands(database_url, tmp_path):
    """Processes on this test's database."""
    return Commands(
        tmp_path,
        1,
        ROTA_HOME=str(tmp_path / "home"),
        ROTA_DATABASE_URL=database_url,
        ROTA_WORKER_LEASE_SECONDS="1",
        ROTA_SCHEDULER_LEASE_SECONDS="1",
        ROTA_LOG_LEVEL="info",
    )


async def finished(alerting, count):
    await eventually(lambda: alerting.sql.fetchval("SELECT count(*) >= $1 FROM rota.finished_runs", count))


async def test_start_lag(alerting):
    await alerting.rule("late", "start_lag", threshold=0.05, minimum=10)
    for _ in range(12):
        await alerting.engine.submit()
    await eventually(
        lambda: alerting.sql.fetchval("SELECT bool_and(ready_at < now() - interval '0.3 s') FROM rota.live_runs")
    )
    async with alerting.engine.running(alerting.engine.worker()):
        await finished(alerting, 12)
        found = await alerting.alert("late")
    assert found["title"] == "12 of 12 runs in pool default started more than 0.05 s late within 1 h"
    assert (found["value"], found["threshold"], found["severity"]) == (100.0, 14.4, "critical")
    # An hour later no run was late within the last half hour.
    await alerting.sql.execute("UPDATE rota.alert_minutes SET at = at - interval '1 hour'")
    await alerting.sql.execute("TRUNCATE rota.tallies")
    await alerting.alert("late", "resolved")
    assert await alerting.told("late") == ["alert.fired", "alert.resolved"]


async def test_few_late_starts_say_nothing(alerting):
    await alerting.rule("late", "start_lag", threshold=0.05, minimum=10)
    for _ in range(9):
        await alerting.engine.submit()
    await eventually(
        lambda: alerting.sql.fetchval("SELECT bool_and(ready_at < now() - interval '0.3 s') FROM rota.live_runs")
    )
    async with alerting.engine.running(alerting.engine.worker()):
        await finished(alerting, 9)
        await eventually(lambda: alerting.sql.fetchval("SELECT sum(started) = 9 FROM rota.tallies"))
    await alerting.evaluate()
    assert await alerting.sql.fetchval("SELECT sum(started) FROM rota.alert_minutes") == 9
    assert await alerting.alerts("late") == []


async def test_success_rate(alerting):
    await alerting.rule("poor", "success_rate", threshold=0.5, minimum=4, windowSeconds=3600)
    async with alerting.engine.running(alerting.engine.worker()):
        for _ in range(4):
            await alerting.engine.submit(task="rota.fail", maxRetries=0)
        found = await alerting.alert("poor")
        assert found["title"] == "0.0% of 4 runs in pool default succeeded within 1 h"
        for _ in range(6):
            await alerting.engine.submit()
        await alerting.alert("poor", "resolved")
    assert await alerting.told("poor") == ["alert.fired", "alert.resolved"]


async def test_dead_letters(alerting):
    await alerting.rule("graves", "dead_letters", threshold=3, task="rota.fail")
    async with alerting.engine.running(alerting.engine.worker()):
        for _ in range(2):
            await alerting.engine.submit(task="rota.fail", maxRetries=0)
        await eventually(lambda: alerting.sql.fetchval("SELECT count(*) = 2 FROM rota.dead_letters"))
        await alerting.evaluate()
        assert await alerting.alerts("graves") == []
        await alerting.engine.submit(task="rota.fail", maxRetries=0)
        found = await alerting.alert("graves")
    assert found["title"] == "3 runs of task rota.fail were buried within 15 min"
    assert found["nextAct"] == "rota dead-letters"
    await alerting.api.post("/v1/dead-letters/discard", json={"all": True})
    await alerting.alert("graves", "resolved")


async def test_oldest_queued(alerting):
    await alerting.rule("backlog", "oldest_queued", threshold=0.2)
    await alerting.engine.submit()
    found = await alerting.alert("backlog")
    assert found["subject"] == "pool default"
    assert found["value"] >= 0.2
    async with alerting.engine.running(alerting.engine.worker()):
        await alerting.alert("backlog", "resolved")


async def test_no_worker(alerting):
    await alerting.rule("alone", "no_worker", threshold=0)
    await alerting.engine.submit(pool="gpu", task="rota.echo")
    found = await alerting.alert("alone")
    assert found["title"] == "Pool gpu has no workers"
    assert found["nextAct"] == "ROTA_NAMESPACES=default rota worker --pools gpu"
    async with alerting.engine.running(alerting.engine.worker(pools=("gpu",))):
        await alerting.alert("alone", "resolved")
        await alerting.engine.submit(pool="gpu", task="mail.sned")
        found = await alerting.alert("alone")
    assert found["title"] == "No worker of pool gpu knows task mail.sned"


async def test_a_paused_pool_is_no_backlog(alerting):
    await alerting.rule("backlog", "oldest_queued", threshold=0)
    await alerting.rule("alone", "no_worker", threshold=0)
    await alerting.api.post("/v1/pools/default/pause")
    await alerting.engine.submit()
    await eventually(lambda: alerting.sql.fetchval("SELECT bool_and(ready_at < now()) FROM rota.live_runs"))
    await alerting.evaluate()
    assert await alerting.alerts("backlog") == await alerting.alerts("alone") == []


async def test_job_failures(alerting):
    await alerting.rule("broken", "job_failures", threshold=2)
    async with alerting.engine.running(alerting.engine.scheduler(), alerting.engine.worker()):
        job_id = await alerting.engine.recurring(
            name="nightly", task="rota.fail", maxRetries=0, payload={}, **EVERY_SECOND
        )
        found = await alerting.alert("broken")
        assert found["title"] == "Job nightly failed 2 times in a row"
        assert found["jobId"] == job_id
        changed = await alerting.api.put(f"/v1/jobs/{job_id}", json={"task": "rota.echo"})
        assert changed.status_code == 200, changed.text
        await alerting.alert("broken", "resolved")


async def test_breaker_open(alerting):
    healthy = False

    def call() -> None:
        if not healthy:
            raise ConnectionError("refused")

    await alerting.rule("breakers", "breaker_open")
    worker = alerting.engine.worker({"call": call})
    async with alerting.engine.running(alerting.engine.scheduler(), worker):
        policy = {"breaker": {"failures": 1, "cooldownSeconds": 1, "key": "payments"}, "maxRetries": 0}
        await alerting.engine.submit(task="call", payload={}, **policy)
        found = await alerting.alert("breakers")
        assert found["title"] == "The breaker of key 'payments' is open"
        healthy = True
        await alerting.engine.submit(task="call", payload={}, **policy)
        await alerting.alert("breakers", "resolved")


async def test_worker_lost(alerting, commands):
    await alerting.rule("lost", "worker_lost")
    async with alerting.engine.running(alerting.scheduler):
        with commands.running("worker", until="joined") as worker:
            await eventually(lambda: alerting.sql.fetchval("SELECT count(*) FROM rota.workers"))
            worker.process.send_signal(signal.SIGKILL)
            found = await alerting.alert("lost")
        assert f"pid {worker.process.pid}, is lost" in found["title"]
        await alerting.sql.execute("UPDATE rota.workers SET gone_at = gone_at - interval '20 minutes'")
        await alerting.alert("lost", "resolved")
    assert await alerting.told("lost") == ["alert.fired", "alert.resolved"]


async def test_a_worker_that_stops_is_not_lost(alerting):
    await alerting.rule("lost", "worker_lost")
    async with alerting.engine.running(alerting.engine.worker()):
        await eventually(lambda: alerting.sql.fetchval("SELECT count(*) FROM rota.workers"))
    assert await alerting.sql.fetchval("SELECT gone_why FROM rota.workers") == "stopped"
    await alerting.evaluate()
    assert await alerting.alerts("lost") == []


async def test_scheduler_lost(alerting, commands):
    await alerting.rule("lost", "scheduler_lost", scope="installation", threshold=1)

    async def of_the_killed():
        return [each for each in await alerting.alerts("lost") if f"pid {killed.process.pid}," in each["title"]]

    async with alerting.engine.running(alerting.another(lease_seconds=1)):
        with commands.running("scheduler", until="took shards") as killed:
            await eventually(lambda: alerting.sql.fetchval("SELECT count(*) > 1 FROM rota.schedulers"))
            killed.process.send_signal(signal.SIGKILL)
            killed.process.wait()
        [found] = await eventually(of_the_killed)
        assert found["state"] == "firing"
        assert found["nextAct"] == "rota doctor"
        an_hour_ago = "UPDATE rota.schedulers SET beat_at = beat_at - interval '1 hour' WHERE pid = $1"
        await alerting.sql.execute(an_hour_ago, killed.process.pid)

        async def is_resolved():
            return [each["state"] for each in await of_the_killed()] == ["resolved"]

        await eventually(is_resolved)


async def test_disk(alerting):
    await alerting.rule("room", "disk", scope="installation", threshold=1.0, databaseBytes=1)
    await alerting.evaluate()
    found = {each["key"]: each for each in await alerting.alerts("room")}
    assert {key: each["state"] for key, each in found.items()} == {"disk": "firing", "database": "firing"}
    assert 0 <= found["disk"]["value"] < 1
    assert found["database"]["value"] > 1_000_000
    assert found["disk"]["runbook"] == "runbook/full-disk.md"
    await alerting.rule("room", "disk", scope="installation", threshold=0.0)
    await alerting.alert("room", "resolved")
    assert {each["state"] for each in await alerting.alerts("room")} == {"resolved"}


async def test_clock_skew(alerting):
    await alerting.rule("clocks", "clock_skew", scope="installation", threshold=2)
    shards = alerting.scheduler.leases._shards
    shards._wall_clock = WallClock(lambda: time.time() + 5)
    await alerting.scheduler.leases.tick()
    await alerting.scheduler.leases.tick()
    found = await alerting.alert("clocks")
    assert 4 < found["value"] <= 5
    assert "ahead of the database's" in found["title"]
    shards._wall_clock = WallClock()
    await alerting.scheduler.leases.tick()
    await alerting.scheduler.leases.tick()
    await alerting.alert("clocks", "resolved")


async def test_workers_tell_how_far_their_clocks_are_off(alerting, engine):
    broker = engine.broker()
    await engine.join(broker)
    broker._claims._wall_clock = WallClock(lambda: time.time() - 3)
    for _ in range(2):
        await broker.beat(busy=0, fenced=0, draining=False)
    assert -3 <= await alerting.sql.fetchval("SELECT clock_skew FROM rota.workers") < -2


def test_a_slow_answer_proves_no_skew():
    moments = iter((100.0, 108.0, 100.0, 100.1))
    wall = WallClock(lambda: next(moments))
    wall.ask()
    wall.answered(datetime.fromtimestamp(104, UTC))
    assert wall.skew == 0.0
    wall.ask()
    wall.answered(datetime.fromtimestamp(90, UTC))
    assert wall.skew == 10.0
