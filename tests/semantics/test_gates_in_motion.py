"""Narrow places of admission: runs that come back, move, or were started before; rounds that fail or are large."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rota.store.postgres
from engine import report
from gatekeeping import ids_of, time_of_schedule
from rota.domain.gates import Bucket, Candidate, Gate, GateStates, OpenRun, decide
from rota.domain.ids import new_id
from rota.domain.policies import Policies
from rota.domain.run import Outcome
from rota.errors import DatabaseUnavailableError
from rota.store import admit as gates_module
from rota.store.postgres.database import Statements
from support import eventually, job

NOW = datetime(2030, 1, 1, tzinfo=UTC)
COLUMNS = ", ".join((Path(rota.store.postgres.__path__[0]) / "run_columns.txt").read_text().split())
# A run on its way from one place to another, held open by the test.
MOVE = f"""WITH t AS (DELETE FROM rota.upcoming_runs RETURNING *)
           INSERT INTO rota.held_runs ({COLUMNS}, gate) SELECT {COLUMNS}, 'new' FROM t"""
BREAKER = {"failures": 1, "cooldownSeconds": 60}


async def fired(gates, sql, **fields):
    """A job whose schedule fired five seconds ago."""
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, **fields)
    await sql.execute(
        "UPDATE rota.jobs SET anchor_at = now() - interval '5 s', next_fire_at = now() - interval '5 s',"
        " fired_through = now() - interval '10 s'"
    )
    await gates.scheduler.firer.tick()
    await gates.scheduler.promoter.tick()
    return job_id


async def test_a_retry_holds_its_key_also_in_the_last_second_of_its_backoff(gates, sql):
    """Promotion takes it up to a second early: it is neither upcoming then nor due."""
    await gates.engine.submit(orderingKey="a", retry={"baseSeconds": 60})
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now() + interval '0.9 s'")
    await gates.scheduler.promoter.tick()
    await gates.engine.submit(orderingKey="a")
    assert {found.run_id for found in await gates.claim()} <= {claim.run_id}, "the retry itself may be due by now"


async def test_a_snoozed_run_holds_its_key(gates):
    await gates.engine.submit(orderingKey="a")
    await gates.engine.submit(orderingKey="a")
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.snoozed, snooze_seconds=60)])
    assert await gates.claim() == []


@pytest.mark.parametrize("how", ["retry", "snooze"])
async def test_overlap_sees_a_run_that_waits_to_be_started_again(gates, sql, how):
    job_id = await gates.engine.recurring(
        scheduleType="interval", everySeconds=3600, overlap="skip", retry={"baseSeconds": 60}
    )
    await time_of_schedule(gates, sql, job_id, 100)
    (claim,) = await gates.claim()
    if how == "retry":
        await gates.broker.report([report(claim, Outcome.failed, error="e")])
        await sql.execute("UPDATE rota.upcoming_runs SET run_at = now() + interval '0.9 s'")
        await gates.scheduler.promoter.tick()
    else:
        await gates.broker.report([report(claim, Outcome.snoozed, snooze_seconds=60)])
    await time_of_schedule(gates, sql, job_id, 0)
    assert {found.run_id for found in await gates.claim()} <= {claim.run_id}, "the retry itself may be due by now"
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs WHERE status = 'skipped'") == 1


def test_jitter_that_turned_two_times_round_does_not_let_them_overlap():
    around = GateStates(NOW, {}, {}, {}, {}, {})
    job_id, earlier, later = new_id(1.0), new_id(1.0), new_id(2.0)
    gate = Gate("default", "overlap", job_id.hex)
    around.open_runs[gate] = [OpenRun(later, NOW, None)]
    candidate = Candidate("default", earlier, job_id, Policies(overlap="skip"), NOW.replace(year=2029), True)
    assert decide(candidate, around).fate == "skip"


async def test_a_started_run_that_is_given_back_passes_its_gates_again(gates, sql):
    await gates.engine.submit(rateLimit={"limit": 1, "perSeconds": 3600})
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.interrupted)])
    assert await gates.claim() == [], "its next start would be the second of this hour"


@pytest.mark.parametrize("what", ["pause", "another schedule"])
async def test_a_snoozed_run_of_a_schedule_is_not_dropped_as_if_it_were_to_come(gates, sql, what):
    job_id = await fired(gates, sql)
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.snoozed, snooze_seconds=600)])
    if what == "pause":
        await gates.engine.api.post(f"/v1/jobs/{job_id}/pause")
    else:
        await gates.engine.api.put(f"/v1/jobs/{job_id}", json={"everySeconds": 1800})
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE snoozes > 0") == 1


async def test_a_snoozed_run_is_not_judged_as_missed(gates, sql):
    await fired(gates, sql)
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.snoozed, snooze_seconds=7200)])
    await sql.execute(
        "UPDATE rota.upcoming_runs"
        " SET nominal_at = nominal_at - interval '2 hours', run_at = now() - interval '2 minutes'"
    )
    await gates.scheduler.misfires.tick()
    await gates.scheduler.promoter.tick()
    assert len(await gates.claim()) == 1


async def test_a_time_whose_jitter_is_still_ahead_survives_pause_and_resume(gates, sql):
    job_id = await fired(gates, sql, jitterSeconds=86400)
    for action in ("pause", "resume"):
        await gates.engine.api.post(f"/v1/jobs/{job_id}/{action}")
    assert await sql.fetchval("SELECT count(*) FROM rota.runs WHERE nominal_at < now()") == 1


async def test_a_replaced_run_of_a_day_without_a_partition_does_not_stop_admission(gates, sql):
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, overlap="replace")
    await time_of_schedule(gates, sql, job_id, 100)
    await gates.admit()
    await sql.execute(
        "UPDATE rota.live_runs SET id = ('0100' || substr(id::text, 5))::uuid, nominal_at = now() - interval '40 years'"
    )
    await time_of_schedule(gates, sql, job_id, 0)
    other = await gates.engine.submit(orderingKey="a")
    assert other in await ids_of(await gates.claim())


async def test_admission_does_not_spin_without_shards_or_without_a_database(gates, monkeypatch):
    admitter = gates.scheduler.admitter
    admitter._next_due = -1.0
    monkeypatch.setattr(type(gates.scheduler.leases), "owned", property(lambda _self: {}))
    await admitter.tick()
    assert admitter.pause_seconds > 0
    monkeypatch.undo()

    async def away(_owned):
        raise DatabaseUnavailableError("away")

    admitter._next_due = -1.0
    monkeypatch.setattr(admitter._gates, "next_due_in", away)
    admitter._hinted = False
    with pytest.raises(DatabaseUnavailableError):
        await admitter.tick()
    assert admitter.pause_seconds > 0
    assert admitter._next_due == math.inf


async def test_a_round_takes_a_bounded_number_of_locks_and_comes_to_its_end(gates, sql, monkeypatch):
    monkeypatch.setattr(gates_module, "MOST_GATES", 40)
    monkeypatch.setattr(gates_module, "NEW_PER_ROUND", 20)
    rate = {"limit": 50, "perSeconds": 0.01, "burst": 1}
    jobs = [job(orderingKey=f"o{n}", rateLimit={**rate, "key": f"r{n % 5}"}) for n in range(200)]
    await gates.engine.api.post("/v1/jobs/batch", json=jobs)
    claimed = 0

    async def all_claimed():
        nonlocal claimed
        await gates.scheduler.leases.tick()
        await gates.scheduler.admitter.tick()
        claimed += len(await gates.broker.claim(1000))
        return claimed == 200

    await eventually(all_claimed)


async def test_what_a_round_locks_is_bounded_whatever_comes_together(gates, sql, monkeypatch):
    """Each run and each note names gates of its own; the lock table of the server is shared by all."""
    monkeypatch.setattr(gates_module, "MOST_GATES", 40)
    most, fetch = 0, Statements.fetch

    async def counted(statements, name, /, **parameters):
        nonlocal most
        rows = await fetch(statements, name, **parameters)
        if name in ("lock_gates", "try_lock_gates"):
            held = await statements._connection.fetchval(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            )
            most = max(most, held)
        return rows

    monkeypatch.setattr(Statements, "fetch", counted)
    jobs = [job(orderingKey=f"o{n % 60}", concurrencyKey=f"c{n}", concurrencyLimit=1) for n in range(120)]
    await gates.engine.api.post("/v1/jobs/batch", json=jobs)
    started = 0

    async def all_started():
        nonlocal started
        await gates.scheduler.leases.tick()
        await gates.scheduler.admitter.tick()
        claims = await gates.broker.claim(1000)
        started += len(claims)
        await gates.broker.report([report(claim) for claim in claims])
        return started == len(jobs)

    await eventually(all_started)
    assert most <= 40


# Breakers


async def open_breaker(gates, **fields):
    await gates.engine.submit(breaker=BREAKER, maxRetries=0, **fields)
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    await gates.admit()


async def test_the_success_of_a_run_that_began_before_does_not_close_a_breaker(gates, sql):
    for _ in range(2):
        await gates.engine.submit(breaker=BREAKER, maxRetries=0)
    one, two = await gates.claim()
    await gates.broker.report([report(one, Outcome.failed, error="e")])
    await gates.admit()
    await gates.broker.report([report(two)])
    await gates.admit()
    assert await sql.fetchval("SELECT state FROM rota.gates") == "open"


async def test_a_probe_that_waits_at_another_gate_leaves_it_to_the_next_to_try(gates, sql):
    await open_breaker(gates)
    first = await gates.engine.submit(breaker=BREAKER, concurrencyKey="c", concurrencyLimit=1)
    second = await gates.engine.submit(breaker=BREAKER)
    await gates.admit()
    await gates.engine.submit(concurrencyKey="c", concurrencyLimit=1)
    assert len(await gates.claim()) == 1
    await sql.execute("UPDATE rota.gates SET until = now(), wakes_at = now()")
    assert await ids_of(await gates.claim()) == [second]
    assert (await gates.waiting_for(first))[1].startswith("limit 1/1 of key 'c'")


async def test_a_probe_that_nobody_claims_is_not_waited_for(gates, sql):
    await open_breaker(gates)
    stuck = await gates.engine.submit(breaker=BREAKER, pool="unserved")
    other = await gates.engine.submit(breaker=BREAKER)
    await gates.admit()
    await sql.execute("UPDATE rota.gates SET until = now(), wakes_at = now()")
    assert await gates.claim() == []
    assert (await gates.engine.run(stuck))["status"] == "queued"
    await sql.execute("UPDATE rota.live_runs SET ready_at = now() - interval '11 seconds'")
    await sql.execute("UPDATE rota.gates SET wakes_at = now()")
    assert await ids_of(await gates.claim()) == [other]


# Rates


def test_with_different_rates_on_one_key_the_first_token_counts():
    gate = Gate("default", "rate", "key:r")
    around = GateStates(NOW, {}, {}, {gate: Bucket(0.0, NOW)}, {}, {})
    for per in (0.1, 3600.0):
        policies = Policies(rate="key:r", count=1, per=per, burst=1)
        assert decide(Candidate("default", new_id(1.0), new_id(1.0), policies, NOW, False), around).fate == "wait"
    assert (around.buckets[gate].wakes_at - NOW).total_seconds() == pytest.approx(0.1)


# Unique


async def test_the_same_request_twice_at_once_makes_one_job_and_cancels_none(engine, sql):
    async def submit(on_duplicate):
        body = job(uniqueKey=on_duplicate, onDuplicate=on_duplicate)
        return await engine.api.post("/v1/jobs", json=body, headers={"Idempotency-Key": on_duplicate})

    for on_duplicate in ("replace", "reject"):
        answers = await asyncio.gather(*(submit(on_duplicate) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["jobId"] for answer in answers}) == 1
    assert [row["status"] for row in await sql.fetch("SELECT status FROM rota.runs")] == ["queued", "queued"]


async def test_a_unique_key_with_a_window_stays_as_long_as_its_job_waits(engine, sql):
    later = {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"}
    await engine.api.post("/v1/jobs", json=job(uniqueKey="k", uniqueSeconds=1, **later))
    await sql.execute("UPDATE rota.submission_keys SET expires_at = now() - interval '1 second'")
    await (await engine.leading()).sweeper.tick()
    assert (await engine.api.post("/v1/jobs", json=job(uniqueKey="k"))).status_code == 409


async def test_a_schedule_is_not_replaced_and_keeps_its_key(engine, sql):
    schedule = job(uniqueKey="k", scheduleType="cron", cronExpression="0 0 1 1 *")
    first = (await engine.api.post("/v1/jobs", json=schedule)).json()
    answer = await engine.api.post("/v1/jobs", json=job(uniqueKey="k", onDuplicate="replace"))
    assert answer.status_code == 409
    assert first["jobId"] in answer.json()["detail"]
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0


async def test_replace_finds_a_job_that_moves_at_that_moment(engine, sql):
    later = {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"}
    first = (await engine.api.post("/v1/jobs", json=job(uniqueKey="k", **later))).json()
    moving = sql.transaction()
    await moving.start()
    await sql.execute(MOVE)
    replacing = asyncio.create_task(engine.api.post("/v1/jobs", json=job(uniqueKey="k", onDuplicate="replace")))
    await asyncio.sleep(0.2)
    await moving.commit()
    assert (await replacing).status_code == 201
    assert (await engine.run(first["runId"]))["status"] == "cancelled"


# Backpressure and pools


async def test_a_time_that_is_now_is_no_way_around_a_cap(engine):
    await engine.api.put("/v1/pools/default", json={"mostWaiting": 1})
    await engine.api.services.gateway.backlog.tick()
    await engine.submit()
    soon = engine.api.services.now.isoformat()
    answer = await engine.api.post("/v1/jobs", json=job(scheduleType="future", scheduleTime=soon))
    assert answer.status_code == 429


async def test_every_owner_is_counted_however_much_others_have_waiting(engine, sql):
    services = engine.api.services
    await engine.api.post("/v1/jobs/batch", json=[job() for _ in range(40)])
    assert (await engine.api.put("/v1/limits/admin", json={"mostWaiting": 2})).status_code == 200
    await sql.execute(
        "UPDATE rota.live_runs SET owner = 'busy' WHERE ctid IN (SELECT ctid FROM rota.live_runs LIMIT 35)"
    )
    await services.gateway.backlog.tick()
    assert services.gateway.backlog.waiting("default", "busy") == 35
    assert (await engine.api.post("/v1/jobs", json=job())).status_code == 429


async def test_claims_whose_answer_was_lost_do_not_count_for_their_pool_any_more(engine):
    broker = engine.broker()
    await engine.join(broker, pools=("a", "b"))
    for pool in "aabb":
        await engine.submit(pool=pool)
    claim, calls = broker._claims.claim, 0

    async def second_fails(*arguments):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise DatabaseUnavailableError("away")
        return await claim(*arguments)

    broker._claims.claim = second_fails
    with pytest.raises(DatabaseUnavailableError):
        await broker.claim(4)
    assert await broker.reconcile(frozenset()) == 2
    assert set(broker._shares._held.values()) == {0}


async def changed_while_claimed(gates, **fields):
    """A schedule's run that a worker has, whose job was changed meanwhile: its id, its claim and its job's id."""
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, **fields)
    run_id = (await gates.engine.api.post(f"/v1/jobs/{job_id}/run")).json()["runId"]
    (claim,) = await gates.claim()
    assert (await gates.engine.api.put(f"/v1/jobs/{job_id}", json={"name": "other"})).is_success
    return run_id, claim, job_id


async def test_a_run_that_was_recalled_is_not_overtaken(gates):
    recalled, claim, _ = await changed_while_claimed(gates, orderingKey="a")
    later = await gates.engine.submit(orderingKey="a")
    await gates.broker.report([report(claim, Outcome.released)])
    assert await gates.claim() == []
    await gates.scheduler.recaller.tick()
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [recalled]
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [later]


async def test_a_run_that_failed_and_was_recalled_holds_its_key_until_its_job_lets_go(gates):
    _, claim, job_id = await changed_while_claimed(gates, orderingKey="a")
    later = await gates.engine.submit(orderingKey="a")
    await gates.broker.report([report(claim, Outcome.failed, error="it failed")])
    assert await gates.claim() == []
    await gates.engine.api.post(f"/v1/jobs/{job_id}/pause")
    assert await gates.claim() == []
    await gates.scheduler.recaller.tick()
    assert await ids_of(await gates.claim()) == [later], "a paused run holds no key"


async def test_a_run_that_failed_and_was_recalled_has_not_ended(gates, sql):
    _, claim, job_id = await changed_while_claimed(gates, overlap="skip")
    await gates.broker.report([report(claim, Outcome.failed, error="it failed")])
    later = await time_of_schedule(gates, sql, job_id, 0)
    await gates.admit()
    assert (await gates.engine.run(later))["status"] == "skipped"
