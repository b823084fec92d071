"""Pausing or changing a schedule loses no time that was due, and no run that has ever started."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine import plain, report
from rota.domain.firing import HORIZON
from rota.domain.run import Outcome, Progress
from rota.scheduler import firer
from support import eventually

EACH_SECOND = {"scheduleType": "cron", "cronExpression": "* * * * * *"}
CHANGES = ["pause", "cron"]


async def runs_of(sql, job_id):
    return await sql.fetch("SELECT * FROM rota.runs WHERE job_id = $1 ORDER BY nominal_at", plain(job_id))


async def change(engine, job_id, kind):
    """Pauses the job, or gives it a schedule that has none of the times it had."""
    answer = await (
        engine.api.post(f"/v1/jobs/{job_id}/pause")
        if kind == "pause"
        else engine.api.put(f"/v1/jobs/{job_id}", json={"cronExpression": "0 0 29 2 *"})
    )
    assert answer.status_code == 200, answer.text


async def schedulers_were_down(sql, for_seconds):
    """As if nothing had fired for so long: the times since then have no runs."""
    await sql.execute(
        """UPDATE rota.jobs SET fired_through = date_trunc('second', now()) - $1::interval,
                                next_fire_at = date_trunc('second', now()) - $1::interval + interval '1 second'""",
        timedelta(seconds=for_seconds),
    )


@pytest.fixture
async def claimed(engine, sql):
    """A scheduler, a broker, and a schedule's run that has been claimed and is due."""
    job_id = await engine.recurring(**EACH_SECOND)
    scheduler = await engine.leading()
    broker = engine.broker()
    await engine.join(broker)

    async def claims():
        await scheduler.leases.tick()
        await scheduler.firer.tick()
        await scheduler.promoter.tick()
        return await broker.claim(1)

    (claim,) = await eventually(claims)
    await eventually(lambda: claim.ready <= datetime.now(UTC).timestamp())
    return job_id, scheduler, broker, claim


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_run_that_snoozes_after_its_job_changed_goes_on_with_its_checkpoint(engine, sql, claimed, kind):
    job_id, scheduler, broker, claim = claimed
    await change(engine, job_id, kind)
    await broker.report([report(claim, Outcome.snoozed, snooze_seconds=60.0, checkpoint='{"done":7}')])
    await scheduler.recaller.tick()
    run = await engine.run(f"run_{claim.run_id.hex}")
    assert run["status"] == ("blocked" if kind == "pause" else "scheduled")
    assert await sql.fetchval("SELECT checkpoint FROM rota.runs WHERE id = $1", claim.run_id) == '{"done":7}'


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("outcome", [Outcome.interrupted, Outcome.released])
async def test_a_run_that_has_started_is_kept_even_if_the_clock_went_back_before_its_time(
    engine, sql, claimed, kind, outcome
):
    job_id, scheduler, broker, claim = claimed
    if outcome is Outcome.released:
        await broker.update([Progress(claim, datetime.now(UTC).timestamp(), 0.5, None, checkpoint='{"done":7}')])
    await change(engine, job_id, kind)
    await broker.report([report(claim, outcome, error="drained" if outcome is Outcome.interrupted else None)])
    await sql.execute("UPDATE rota.held_runs SET nominal_at = now() + interval '1 h', run_at = now() + interval '1 h'")
    await scheduler.recaller.tick()
    assert claim.run_id in {run["id"] for run in await runs_of(sql, job_id)}


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_jittered_run_whose_nominal_time_has_passed_is_kept_when_it_comes_back(engine, sql, claimed, kind):
    job_id, scheduler, broker, claim = claimed
    await change(engine, job_id, kind)
    await broker.report([report(claim, Outcome.released)])
    await sql.execute("UPDATE rota.held_runs SET run_at = now() + interval '1 minute' WHERE gate = 'recall'")
    await scheduler.recaller.tick()
    assert claim.run_id in {run["id"] for run in await runs_of(sql, job_id)}


@pytest.mark.parametrize("kind", CHANGES)
async def test_times_that_were_due_before_a_change_have_their_runs_after_it(engine, sql, kind):
    job_id = await engine.recurring(**EACH_SECOND)
    await schedulers_were_down(sql, 20)
    mark = await sql.fetchval("SELECT fired_through FROM rota.jobs")
    await change(engine, job_id, kind)
    changed = await sql.fetchval("SELECT updated_at FROM rota.jobs")
    runs = await runs_of(sql, job_id)
    times = [run["nominal_at"] for run in runs]
    assert times == [mark + timedelta(seconds=number) for number in range(1, len(times) + 1)]
    assert abs(times[-1] - changed) <= timedelta(seconds=1), "up to the moment of the change, and no further"
    assert {run["status"] for run in runs} == {"blocked" if kind == "pause" else "scheduled"}
    if kind == "pause":
        await engine.api.post(f"/v1/jobs/{job_id}/resume")
    scheduler = await engine.leading()
    await scheduler.promoter.tick()
    held = {run["status"] for run in await runs_of(sql, job_id) if run["nominal_at"] <= changed}
    assert held == {"queued"}


@pytest.mark.parametrize("kind", CHANGES)
async def test_times_missed_before_a_change_are_judged_and_recorded(engine, sql, kind):
    job_id = await engine.recurring(**EACH_SECOND)
    # Long enough for a day without a partition: the record of a skipped run makes it.
    await schedulers_were_down(sql, 40 * 24 * 3600)
    await change(engine, job_id, kind)
    runs = await runs_of(sql, job_id)
    skipped = [run for run in runs if run["status"] == "skipped"]
    assert len(skipped) == 100, "as many as are recorded of any outage"
    assert {run["reason"] for run in skipped} == {"missed: a later time of the schedule was due as well"}
    assert len(runs) == 101, "the latest runs, by the default rule"


async def test_a_missed_day_without_a_partition_is_made_for_the_record(engine, sql):
    job_id = await engine.recurring(scheduleType="cron", cronExpression="0 0 * * *")
    await sql.execute(
        """UPDATE rota.jobs SET fired_through = date_trunc('day', now()) - interval '60 days',
                                next_fire_at = date_trunc('day', now()) - interval '59 days'"""
    )
    await change(engine, job_id, "pause")
    assert len(await runs_of(sql, job_id)) == 60


async def test_a_schedule_that_cannot_be_read_can_be_paused_and_changed(engine, sql):
    job_id = await engine.recurring(**EACH_SECOND)
    await schedulers_were_down(sql, 20)
    await sql.execute("UPDATE rota.jobs SET timezone = 'Atlantis/Poseidonis'")
    await change(engine, job_id, "pause")
    answer = await engine.api.put(f"/v1/jobs/{job_id}", json={"timezone": "UTC"})
    assert answer.status_code == 200, answer.text


def daily(moment):
    return f"{moment.second} {moment.minute} {moment.hour} * * *"


async def test_a_late_run_does_not_yield_to_a_time_that_passed_before_the_schedule_had_it(engine, sql):
    now = await sql.fetchval("SELECT date_trunc('second', now())")
    due, later = now - timedelta(seconds=100), now - timedelta(seconds=30)
    job_id = await engine.recurring(scheduleType="cron", cronExpression=daily(due), timezone="UTC")
    await sql.execute("UPDATE rota.jobs SET fired_through = $1, next_fire_at = $2", due - timedelta(days=1), due)
    answer = await engine.api.put(f"/v1/jobs/{job_id}", json={"cronExpression": daily(later)})
    assert answer.status_code == 200, answer.text
    scheduler = await engine.leading()
    await scheduler.misfires.tick()
    (run,) = await runs_of(sql, job_id)
    assert (run["nominal_at"], run["status"]) == (due, "queued")


async def test_a_schedule_moved_to_an_earlier_time_has_it_although_the_later_one_was_made_ahead(
    engine, sql, monkeypatch
):
    now = await sql.fetchval("SELECT date_trunc('second', now())")
    earlier, later = now + timedelta(seconds=8), now + timedelta(seconds=9)
    monkeypatch.setattr(firer, "REFILL", HORIZON)
    job_id = await engine.recurring(scheduleType="cron", cronExpression=daily(later), timezone="UTC")
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    assert [run["nominal_at"] for run in await runs_of(sql, job_id)] == [later]
    await engine.api.put(f"/v1/jobs/{job_id}", json={"cronExpression": daily(earlier)})
    await scheduler.leases.tick()
    await scheduler.firer.tick()
    assert [run["nominal_at"] for run in await runs_of(sql, job_id)] == [earlier]
