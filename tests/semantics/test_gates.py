"""Gates: who passes, who waits, for what, and who goes next."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from engine import plain, report
from gatekeeping import ids_of
from rota.domain.run import Outcome
from support import eventually, job


async def test_a_plain_run_meets_no_gate(gates, sql):
    run_id = await gates.engine.submit()
    assert (await gates.engine.run(run_id))["status"] == "queued"
    assert await sql.fetchval("SELECT count(*) FROM rota.held_runs") == 0
    (claim,) = await gates.broker.claim(10)
    await gates.broker.report([report(claim)])
    assert await sql.fetchval("SELECT count(*) FROM rota.departures") == 0


async def test_the_answer_to_a_submission_says_where_the_run_is(gates):
    for fields, status in (({}, "queued"), ({"orderingKey": "a"}, "blocked")):
        answer = (await gates.engine.api.post("/v1/jobs", json=job(**fields))).json()
        assert answer["status"] == status == (await gates.engine.run(answer["runId"]))["status"]


# Order


async def test_runs_of_one_ordering_key_go_one_after_the_other_in_their_order(gates):
    runs = [await gates.engine.submit(orderingKey="a") for _ in range(4)]
    for expected in runs:
        (claim,) = await gates.claim()
        assert await ids_of([claim]) == [expected]
        assert await gates.claim() == []
        await gates.broker.report([report(claim)])


async def test_other_keys_do_not_wait(gates):
    for key in ("a", "a", "b", "b", "c"):
        await gates.engine.submit(orderingKey=key)
    assert len(await gates.claim()) == 3


async def test_who_waits_behind_another_is_told_behind_whom(gates):
    first = await gates.engine.submit(orderingKey="a")
    second = await gates.engine.submit(orderingKey="a")
    assert await gates.waiting_for(second) == (
        "blocked",
        "came to its gates a moment ago; the scheduler is looking at it",
    )
    await gates.admit()
    assert await gates.waiting_for(second) == ("blocked", f"behind {first} of ordering key 'a'")


async def test_a_run_that_waits_to_be_tried_again_holds_its_key(gates, sql):
    first = await gates.engine.submit(orderingKey="a", retry={"baseSeconds": 60})
    second = await gates.engine.submit(orderingKey="a")
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    assert await gates.claim() == []
    assert (await gates.engine.run(first))["status"] == "retrying"
    assert (await gates.waiting_for(second))[1] == f"behind {first} of ordering key 'a'"
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now()")
    await gates.scheduler.promoter.tick()
    (again,) = await gates.claim()
    assert (await ids_of([again]), again.attempt) == ([first], 1)
    await gates.broker.report([report(again)])
    assert await ids_of(await gates.claim()) == [second]


async def test_a_run_that_lets_go_is_passed_while_it_waits_to_be_tried_again_and_then_goes_first(gates, sql):
    first = await gates.engine.submit(orderingKey="a", orderingOnFailure="release", retry={"baseSeconds": 60})
    second = await gates.engine.submit(orderingKey="a")
    third = await gates.engine.submit(orderingKey="a")
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    (passing,) = await gates.claim()
    assert await ids_of([passing]) == [second]
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now()")
    await gates.scheduler.promoter.tick()
    assert await gates.claim() == []
    await gates.broker.report([report(passing)])
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [first]
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [third]


@pytest.mark.parametrize("how", ["cancel", "pause", "other key"])
async def test_whoever_leaves_the_line_lets_the_next_one_go(gates, how):
    blocker = await gates.engine.submit(concurrencyKey="k", concurrencyLimit=1, name="blocker")
    assert await ids_of(await gates.claim()) == [blocker]
    first = await gates.engine.submit(orderingKey="a", concurrencyKey="k", concurrencyLimit=1)
    second = await gates.engine.submit(orderingKey="a")
    assert await gates.claim() == []
    job_id = first.replace("run_", "job_")
    if how == "cancel":
        await gates.engine.api.post(f"/v1/runs/{first}/cancel")
    elif how == "pause":
        await gates.engine.api.post(f"/v1/jobs/{job_id}/pause")
    else:
        await gates.engine.api.put(f"/v1/jobs/{job_id}", json={"orderingKey": "b"})
    assert await ids_of(await gates.claim()) == [second]


async def test_a_claimed_run_that_is_cancelled_holds_its_key_until_it_has_ended(gates):
    first = await gates.engine.submit(orderingKey="a")
    second = await gates.engine.submit(orderingKey="a")
    (claim,) = await gates.claim()
    await gates.engine.api.post(f"/v1/runs/{first}/cancel")
    assert await gates.claim() == []
    await gates.broker.report([report(claim, Outcome.cancelled)])
    assert await ids_of(await gates.claim()) == [second]


async def test_a_run_that_is_given_back_keeps_its_turn(gates):
    first = await gates.engine.submit(orderingKey="a")
    await gates.engine.submit(orderingKey="a")
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.released)])
    assert await ids_of(await gates.claim()) == [first]


async def test_the_database_itself_refuses_two_live_runs_of_one_key(gates, sql):
    await gates.engine.submit(orderingKey="a")
    await gates.engine.submit(orderingKey="a")
    await gates.admit()
    with pytest.raises(Exception, match="live_runs_in_order"):
        await sql.execute(
            """INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                                           options, cause, shard, nominal_at, run_at, created_at, ready_at, policies,
                                           lane)
               SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, options, cause,
                      shard, nominal_at, run_at, created_at, now(), policies,
                      rota.lane_of(namespace, pool, task, priority) FROM rota.held_runs"""
        )


async def test_a_future_run_blocks_nobody(gates):
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    await gates.engine.submit(orderingKey="a", scheduleType="future", scheduleTime=soon)
    second = await gates.engine.submit(orderingKey="a")
    assert await ids_of(await gates.claim()) == [second]


async def test_a_future_run_comes_to_its_gates_when_it_is_due(gates):
    first = await gates.engine.submit(orderingKey="a")
    when = (datetime.now(UTC) + timedelta(milliseconds=1400)).isoformat()
    second = await gates.engine.submit(orderingKey="a", scheduleType="future", scheduleTime=when)
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [first]
    await gates.broker.report([report(claim)])

    async def promoted():
        await gates.scheduler.promoter.tick()
        return (await gates.engine.run(second))["status"] in ("scheduled", "blocked") and await gates.claim()

    (claim,) = await eventually(promoted)
    assert await ids_of([claim]) == [second]
    assert claim.ready >= datetime.fromisoformat(when).timestamp()


# Limits


async def test_no_more_runs_of_a_key_are_live_than_its_limit(gates):
    for _ in range(5):
        await gates.engine.submit(concurrencyKey="k", concurrencyLimit=2)
    claims = await gates.claim()
    assert len(claims) == 2
    await gates.broker.report([report(claims[0])])
    assert len(await gates.claim()) == 1


async def test_a_limit_without_a_key_is_per_task_for_one_shots_and_per_job_for_schedules(gates):
    await gates.engine.submit(concurrencyLimit=1)
    await gates.engine.submit(concurrencyLimit=1)
    jobs = [
        await gates.engine.recurring(scheduleType="cron", cronExpression="0 0 1 1 *", concurrencyLimit=1)
        for _ in range(2)
    ]
    for job_id in jobs * 2:
        await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    assert len(await gates.claim()) == 3


async def test_who_waits_for_a_limit_is_told_who_uses_it_up(gates):
    first = await gates.engine.submit(concurrencyKey="k", concurrencyLimit=1)
    second = await gates.engine.submit(concurrencyKey="k", concurrencyLimit=1)
    await gates.admit()
    assert (await gates.waiting_for(second))[1] == f"limit 1/1 of key 'k' reached by {first}"


async def test_a_raised_limit_takes_effect_for_what_waits(gates):
    job_id = await gates.engine.recurring(scheduleType="cron", cronExpression="0 0 1 1 *", concurrencyLimit=1)
    for _ in range(3):
        await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    assert len(await gates.claim()) == 1
    await gates.engine.api.put(f"/v1/jobs/{job_id}", json={"concurrencyLimit": 3})
    assert len(await gates.claim()) == 2


async def test_policies_that_are_taken_away_let_everything_go(gates):
    job_id = await gates.engine.recurring(scheduleType="cron", cronExpression="0 0 1 1 *", orderingKey="a")
    for _ in range(3):
        await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    assert len(await gates.claim()) == 1
    await gates.engine.api.put(f"/v1/jobs/{job_id}", json={"orderingKey": None})
    assert len(await gates.claim()) == 2


async def test_policies_that_are_added_bind_what_is_ready_and_not_claimed(gates):
    job_id = await gates.engine.recurring(scheduleType="cron", cronExpression="0 0 1 1 *")
    for _ in range(3):
        await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    await gates.engine.api.put(f"/v1/jobs/{job_id}", json={"concurrencyLimit": 2})
    assert len(await gates.claim()) == 2


async def test_a_run_takes_nothing_from_a_gate_while_it_waits_at_another(gates):
    """The head of a full ordering key must not use up the limit that others share."""
    first = await gates.engine.submit(orderingKey="a", concurrencyKey="k", concurrencyLimit=2)
    await gates.engine.submit(orderingKey="a", concurrencyKey="k", concurrencyLimit=2)
    third = await gates.engine.submit(orderingKey="b", concurrencyKey="k", concurrencyLimit=2)
    assert sorted(await ids_of(await gates.claim())) == sorted([first, third])


async def test_many_who_can_not_pass_do_not_hide_one_who_can(gates):
    """More runs than a look takes wait at a limit for their ordering key; another one behind them may go."""
    holder = await gates.engine.submit(orderingKey="a")
    blocker = await gates.engine.submit(concurrencyKey="k", concurrencyLimit=1)
    claims = await gates.claim()
    assert sorted(await ids_of(claims)) == sorted([holder, blocker])
    crowd = [job(orderingKey="a", concurrencyKey="k", concurrencyLimit=1) for _ in range(150)]
    await gates.engine.api.post("/v1/jobs/batch", json=crowd)
    last = await gates.engine.submit(concurrencyKey="k", concurrencyLimit=1)
    await gates.admit()
    (mine,) = [claim for claim in claims if f"run_{claim.run_id.hex}" == blocker]
    await gates.broker.report([report(mine)])
    assert await ids_of(await gates.claim()) == [last]


# Rates


async def test_a_rate_limit_lets_its_burst_through_and_then_one_for_each_token(gates, sql):
    for _ in range(5):
        await gates.engine.submit(rateLimit={"limit": 2, "perSeconds": 3600, "key": "r"})
    assert len(await gates.claim()) == 2
    assert await gates.claim() == []
    await sql.execute(
        "UPDATE rota.gates SET counted_at = counted_at - interval '30 minutes', wakes_at = now() WHERE kind = 'rate'"
    )
    assert len(await gates.claim()) == 1
    await sql.execute(
        "UPDATE rota.gates SET counted_at = counted_at - interval '1 day', wakes_at = now() WHERE kind = 'rate'"
    )
    assert len(await gates.claim()) == 2


async def test_who_waits_for_a_token_is_told_until_when(gates):
    await gates.engine.submit(rateLimit={"limit": 1, "perSeconds": 3600})
    second = await gates.engine.submit(rateLimit={"limit": 1, "perSeconds": 3600})
    await gates.admit()
    status, why = await gates.waiting_for(second)
    assert status == "blocked"
    assert why.startswith("rate limit of 1 per 3600 s for task 'rota.echo': the next token comes at 20")


async def test_a_token_that_comes_wakes_who_waits_for_it(engine):
    began = datetime.now(UTC)
    async with engine.running(engine.scheduler(), engine.worker()):
        runs = [await engine.submit(rateLimit={"limit": 1, "perSeconds": 0.3, "key": "r"}) for _ in range(4)]
        ended = [await engine.until(run_id, "success") for run_id in runs]
    starts = sorted(datetime.fromisoformat(run["startTime"]) for run in ended)
    # A start may come later than its token, but never before it.
    for number, start in enumerate(starts):
        assert start - began >= timedelta(seconds=number * 0.3)


async def test_a_retry_takes_a_token_as_every_start_does(gates, sql):
    await gates.engine.submit(rateLimit={"limit": 1, "perSeconds": 3600, "key": "r"}, retry={"baseSeconds": 0})
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    assert await gates.claim() == []


async def test_a_bucket_that_is_full_again_is_forgotten(gates, sql):
    await gates.engine.submit(rateLimit={"limit": 1, "perSeconds": 0.01, "key": "r"})
    await gates.admit()
    assert await sql.fetchval("SELECT count(*) FROM rota.gates") == 1
    await asyncio.sleep(0.05)
    await gates.scheduler.sweeper.tick()
    assert await sql.fetchval("SELECT count(*) FROM rota.gates") == 0


# Breakers

BREAKER = {"breaker": {"failures": 2, "cooldownSeconds": 3600}, "maxRetries": 0}


async def fail(gates, count):
    for _ in range(count):
        await gates.engine.submit(**BREAKER)
        (claim,) = await gates.claim()
        await gates.broker.report([report(claim, Outcome.failed, error="e")])
    await gates.admit()


async def test_a_breaker_opens_after_so_many_failures_in_a_row(gates):
    await fail(gates, 2)
    run_id = await gates.engine.submit(**BREAKER)
    assert await gates.claim() == []
    status, why = await gates.waiting_for(run_id)
    assert status == "blocked"
    assert why.startswith("the breaker of task 'rota.echo' is open until 20")
    shown = (await gates.engine.api.get(f"/v1/jobs/{run_id.replace('run_', 'job_')}")).json()["breakerState"]
    assert (shown["state"], shown["failures"]) == ("open", 2)


async def test_a_success_in_between_starts_the_count_anew(gates):
    await fail(gates, 1)
    await gates.engine.submit(**BREAKER)
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim)])
    await fail(gates, 1)
    await gates.engine.submit(**BREAKER)
    assert len(await gates.claim()) == 1


@pytest.mark.parametrize(("outcome", "state"), [(Outcome.success, "closed"), (Outcome.failed, "open")])
async def test_after_the_cool_down_one_run_tries_and_decides(gates, sql, outcome, state):
    await fail(gates, 2)
    runs = [await gates.engine.submit(**BREAKER) for _ in range(3)]
    assert await gates.claim() == []
    await sql.execute("UPDATE rota.gates SET until = now(), wakes_at = now()")
    (probe,) = await gates.claim()
    assert await ids_of([probe]) == [runs[0]]
    assert (await gates.waiting_for(runs[1]))[1] == (
        f"the breaker of task 'rota.echo' is half-open: {runs[0]} tries first"
    )
    await gates.broker.report([report(probe, outcome, error=None if outcome is Outcome.success else "e")])
    assert len(await gates.claim()) == (2 if state == "closed" else 0)
    events = [event["event"] for event in (await gates.engine.api.get("/v1/events?kind=breaker.")).json()["items"]]
    expected = ["breaker.closed", "breaker.opened"] if state == "closed" else ["breaker.opened", "breaker.opened"]
    assert events == expected
    assert await sql.fetchval("SELECT state FROM rota.gates") == state


async def test_a_probe_that_says_nothing_lets_another_one_try(gates, sql):
    await fail(gates, 2)
    runs = [await gates.engine.submit(**BREAKER) for _ in range(2)]
    await gates.admit()
    await sql.execute("UPDATE rota.gates SET until = now(), wakes_at = now()")
    (probe,) = await gates.claim()
    await gates.engine.api.post(f"/v1/runs/{runs[0]}/cancel")
    await gates.broker.report([report(probe, Outcome.cancelled)])
    assert await ids_of(await gates.claim()) == [runs[1]]


async def test_breakers_of_schedules_are_apart(gates):
    breaker = {"breaker": {"failures": 1, "cooldownSeconds": 60}, "maxRetries": 0}
    sick, well = [
        await gates.engine.recurring(scheduleType="cron", cronExpression="0 0 1 1 *", **breaker) for _ in range(2)
    ]
    await gates.engine.api.post(f"/v1/jobs/{sick}/run")
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    for job_id in (sick, well):
        await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    claims = await gates.claim()
    assert [claim.job_id for claim in claims] == [plain(well)]


async def test_a_breaker_with_a_key_holds_up_nobody_else(gates):
    def of(host):
        return {"breaker": {"failures": 1, "cooldownSeconds": 3600, "key": host}, "maxRetries": 0}

    await gates.engine.submit(**of("sick.example"))
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    sick, well = [await gates.engine.submit(**of(host)) for host in ("sick.example", "well.example")]
    assert await ids_of(await gates.claim()) == [well]
    assert (await gates.waiting_for(sick))[1].startswith("the breaker of key 'sick.example' is open until 20")
    shown = (await gates.engine.api.get(f"/v1/jobs/{sick.replace('run_', 'job_')}")).json()
    assert shown["breaker"] == of("sick.example")["breaker"]
    assert shown["breakerState"]["state"] == "open"


# Overlap


async def scheduled(gates, sql, overlap, times):
    """A job whose schedule made runs for these many moments just now, promoted one after the other."""
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, overlap=overlap)
    for number in range(times):
        await sql.execute(
            "UPDATE rota.jobs SET next_fire_at = now() - $1 * interval '1 second' + interval '1 ms' * $2,"
            " fired_through = now() - interval '1 day', anchor_at = now() - interval '30 minutes'",
            times - number,
            number,
        )
        await gates.scheduler.firer.tick()
        await gates.scheduler.promoter.tick()
        await gates.admit()
    rows = await sql.fetch(
        "SELECT id, status, reason FROM rota.runs WHERE job_id = $1 ORDER BY nominal_at", plain(job_id)
    )
    return job_id, rows


async def test_overlap_skip_records_what_it_skipped_and_why(gates, sql):
    _, rows = await scheduled(gates, sql, "skip", 3)
    assert [row["status"] for row in rows] == ["queued", "skipped", "skipped"]
    assert rows[1]["reason"] == f"overlap: run_{rows[0]['id'].hex}, an earlier run of the job, had not ended"


async def test_overlap_queue_lets_one_wait(gates, sql):
    _, rows = await scheduled(gates, sql, "queue", 3)
    assert [row["status"] for row in rows] == ["queued", "blocked", "skipped"]
    waiting = f"run_{rows[1]['id'].hex}"
    assert rows[2]["reason"] == f"overlap: {waiting} of the job was waiting already"
    assert (await gates.waiting_for(waiting))[1] == (
        f"run_{rows[0]['id'].hex}, an earlier run of its job, has not ended"
    )
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [waiting]


async def test_overlap_replace_cancels_the_old_run_and_takes_its_place(gates, sql):
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, overlap="replace")
    await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    (old,) = await gates.claim()
    await sql.execute("UPDATE rota.jobs SET next_fire_at = now(), fired_through = now() - interval '1 day'")
    await gates.scheduler.firer.tick()
    await gates.scheduler.promoter.tick()
    assert await gates.claim() == []
    asked, _ = await gates.engine.claims.signals(gates.broker._id)
    assert asked == [(old.number, True)]
    await gates.broker.report([report(old, Outcome.cancelled)])
    (new,) = await gates.claim()
    assert new.run_id != old.run_id


async def test_the_overlap_guard_can_not_be_left_behind(gates, sql):
    """Whatever becomes of the run that stands in the way, the guard goes with it: it is that run."""
    _, rows = await scheduled(gates, sql, "queue", 2)
    await gates.engine.api.post(f"/v1/runs/run_{rows[0]['id'].hex}/cancel")
    assert await ids_of(await gates.claim()) == [f"run_{rows[1]['id'].hex}"]


async def test_run_now_and_retries_are_not_judged_by_overlap(gates):
    job_id = await gates.engine.recurring(scheduleType="interval", everySeconds=3600, overlap="skip")
    for _ in range(2):
        await gates.engine.api.post(f"/v1/jobs/{job_id}/run")
    assert len(await gates.claim()) == 2
