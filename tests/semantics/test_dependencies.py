"""Dependencies between jobs: which run waits for which, what an end of the other means, and what is refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from engine import plain, report
from gatekeeping import ids_of
from rota.domain.dependencies import time_needed
from rota.domain.run import Outcome
from rota.store.read.timetables import timetable_of
from serving import clients_of
from support import eventually, job


def daily_at(moment):
    """A schedule that fires every day at this time, to the second."""
    return f"{moment.second} {moment.minute} {moment.hour} * * *"


def seconds_ago(seconds):
    return (datetime.now(UTC) - timedelta(seconds=seconds)).replace(microsecond=0)


class Schedules:
    """Schedules that are fired by hand."""

    def __init__(self, gates, sql):
        self.gates, self.sql, self.api = gates, sql, gates.engine.api

    async def make(self, name, cron, **fields):
        body = {"jobId": name, "name": name, "task": "rota.echo", "cronExpression": cron, "scheduleType": "cron"}
        answer = await self.api.post("/v1/jobs", json=body | fields)
        assert answer.status_code == 201, answer.text
        return name

    async def fire(self, name, moment):
        """Makes the run of this time, which has passed; returns its id."""
        await self.sql.execute(
            "UPDATE rota.jobs AS j SET next_fire_at = $2, fired_through = $2::timestamptz - interval '1 hour'"
            " FROM rota.chosen_ids AS c WHERE c.chosen_id = $1 AND j.id = c.job_id",
            name,
            moment,
        )
        await self.gates.scheduler.firer.tick()
        await self.gates.scheduler.promoter.tick()
        return await self.run_of(name)

    async def run_of(self, name):
        return (await self.api.get(f"/v1/jobs/{name}/runs")).json()["items"][0]["runId"]

    async def look(self):
        """The complete look of admission, and what it called."""
        await self.gates.scheduler.gate_inspector.tick()
        await self.gates.admit()

    async def state(self, run_id):
        run = await self.gates.engine.run(run_id)
        return run["status"], run.get("waitingFor") or run.get("reason")


@pytest.fixture
def schedules(gates, sql):
    return Schedules(gates, sql)


@pytest.fixture
async def nightly(schedules):
    """Two schedules of the same times, the second after the first, fired for a time a few seconds ago."""
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    second = await schedules.fire("report", moment)
    first = await schedules.fire("ingestion", moment)
    return moment, first, second


# Schedules


async def test_a_run_waits_for_the_other_schedules_run_of_the_same_time(gates, schedules, nightly):
    moment, first, second = nightly
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [first]
    shown = moment.isoformat().replace("+00:00", "Z")
    assert await schedules.state(second) == (
        "blocked",
        f"depends on another job: ingestion for {shown} ({first}) is running",
    )
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [second]


@pytest.mark.parametrize(("outcome", "word"), [("final", "failed"), ("cancelled", "was cancelled")])
async def test_a_run_is_skipped_when_the_other_one_did_not_succeed(gates, schedules, nightly, outcome, word):
    moment, first, second = nightly
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome(outcome), error="e")])
    assert await gates.claim() == []
    shown = moment.isoformat().replace("+00:00", "Z")
    assert await schedules.state(second) == ("skipped", f"dependency: ingestion for {shown} ({first}) {word}")


async def test_a_run_is_skipped_when_the_other_one_was_skipped(gates, schedules):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment), expiresSeconds=1)
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    first = await schedules.fire("ingestion", moment)
    second = await schedules.fire("report", moment)
    await gates.admit()
    await gates.scheduler.expirer.tick()
    await gates.admit()
    assert (await schedules.state(second))[1].endswith(f"({first}) was skipped")


async def test_a_run_that_is_cancelled_before_its_time_is_noted(gates, schedules, sql):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment), jitterSeconds=3600)
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    first, second = await schedules.fire("ingestion", moment), await schedules.fire("report", moment)
    await gates.admit()
    assert (await schedules.state(second))[1].endswith(f"({first}) is scheduled")
    await gates.engine.api.post(f"/v1/runs/{first}/cancel")
    await gates.admit()
    assert (await schedules.state(second))[0] == "skipped"


async def test_a_run_waits_for_one_that_is_not_made_yet(gates, schedules, sql):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    await sql.execute("UPDATE rota.jobs SET fired_through = now() - interval '1 hour', next_fire_at = $1", moment)
    await sql.execute("UPDATE rota.jobs SET next_fire_at = now() + interval '1 day' WHERE name = 'ingestion'")
    await sql.execute("UPDATE rota.jobs SET next_fire_at = $1, shard = 99 WHERE name = 'ingestion'", moment)
    second = await schedules.fire("report", moment)
    await gates.admit()
    assert (await schedules.state(second))[1].startswith("depends on another job: ingestion has not made its run for ")
    await sql.execute("UPDATE rota.jobs SET shard = 3 WHERE name = 'ingestion'")
    first = await schedules.fire("ingestion", moment)
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [first]
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [second]


async def test_a_time_that_the_other_one_has_fired_without_a_run_is_never_waited_for(gates, schedules, sql):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    second = await schedules.fire("report", moment)
    await gates.admit()
    assert (await schedules.state(second))[0] == "skipped"
    assert "ingestion made no run for" in (await schedules.state(second))[1]


async def test_with_a_window_the_latest_time_in_it_counts(gates, schedules):
    moment = seconds_ago(5)
    await schedules.make("ingestion", f"{(moment - timedelta(seconds=20)).second} * * * * *")
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"], dependencyWindowSeconds=59)
    first = await schedules.fire("ingestion", moment - timedelta(seconds=20))
    second = await schedules.fire("report", moment)
    claims = await gates.claim()
    assert first in await ids_of(claims)
    assert second not in await ids_of(claims)
    await gates.broker.report([report(claim) for claim in claims])
    assert second in await ids_of(await gates.claim())


async def test_a_run_waits_while_the_other_schedule_is_paused_and_is_skipped_when_its_time_has_passed_then(
    gates, schedules, sql
):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    await sql.execute("UPDATE rota.jobs SET fired_through = now() - interval '1 hour' WHERE name = 'ingestion'")
    await gates.engine.api.post("/v1/jobs/ingestion/pause")
    second = await schedules.fire("report", moment)
    await gates.admit()
    assert "ingestion, which is paused, has not made its run for" in (await schedules.state(second))[1]
    await gates.engine.api.post("/v1/jobs/ingestion/resume")
    await schedules.look()
    assert (await schedules.state(second))[0] == "skipped"
    assert "that time passed while it was paused or changed" in (await schedules.state(second))[1]


async def test_a_run_that_waits_for_a_paused_schedule_expires(gates, schedules, sql):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"], expiresSeconds=60)
    await sql.execute("UPDATE rota.jobs SET fired_through = now() - interval '1 hour' WHERE name = 'ingestion'")
    await gates.engine.api.post("/v1/jobs/ingestion/pause")
    second = await schedules.fire("report", moment)
    await gates.admit()
    assert (await schedules.state(second))[0] == "blocked"
    await sql.execute("UPDATE rota.held_runs SET expires_at = now() - interval '1 second'")
    await gates.scheduler.expirer.tick()
    assert (await schedules.state(second))[0] == "skipped"


async def test_the_calendar_at_the_moment_of_the_decision_counts(gates, schedules, sql):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    await sql.execute("UPDATE rota.jobs SET fired_through = now() - interval '1 hour' WHERE name = 'ingestion'")
    await gates.engine.api.post("/v1/jobs/ingestion/pause")
    second = await schedules.fire("report", moment)
    await gates.admit()
    assert (await schedules.state(second))[0] == "blocked"
    other = daily_at(moment + timedelta(hours=3))
    await gates.engine.api.put("/v1/jobs/ingestion", json={"cronExpression": other})
    await schedules.look()
    assert "ingestion has no time that counts for" in (await schedules.state(second))[1]


async def test_the_newest_retry_of_the_others_run_counts(gates, schedules):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    first = await schedules.fire("ingestion", moment)
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.final, error="e")])
    again = (await gates.engine.api.post(f"/v1/runs/{first}/retry")).json()["runId"]
    second = await schedules.fire("report", moment)
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [again]
    assert (await schedules.state(second))[1].endswith(f"({again}) is running")
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [second]


async def test_runs_that_people_start_wait_for_nothing_and_are_not_waited_for(gates, schedules, nightly):
    _, _, second = nightly
    (claim,) = await gates.claim()
    by_hand = (await gates.engine.api.post("/v1/jobs/report/run")).json()["runId"]
    assert await ids_of(await gates.claim()) == [by_hand]
    other = (await gates.engine.api.post("/v1/jobs/ingestion/run")).json()["runId"]
    (manual,) = await gates.claim()
    assert await ids_of([manual]) == [other]
    await gates.broker.report([report(manual)])
    await gates.admit()
    assert (await schedules.state(second))[0] == "blocked"
    await gates.broker.report([report(claim, Outcome.final, error="e")])
    await gates.admit()
    assert (await schedules.state(second))[0] == "skipped"
    again = (await gates.engine.api.post(f"/v1/runs/{second}/retry")).json()["runId"]
    assert await ids_of(await gates.claim()) == [again]


async def test_a_retry_after_a_failed_attempt_does_not_wait_again(gates, schedules, nightly, sql):
    _, _, second = nightly
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim)])
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.failed, error="e")])
    await sql.execute("DELETE FROM rota.finished_runs")  # what it waited for is gone
    await sql.execute("UPDATE rota.upcoming_runs SET run_at = now()")
    await gates.scheduler.promoter.tick()
    assert await ids_of(await gates.claim()) == [second]


async def test_many_wait_for_one_run_and_all_go_when_it_has_succeeded(gates, schedules):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    names = [f"report{number}" for number in range(130)]
    for name in names:
        await schedules.make(name, daily_at(moment), dependencies=["ingestion"])
    await schedules.sql.execute(
        "UPDATE rota.jobs SET next_fire_at = $1, fired_through = $1::timestamptz - interval '1 hour'", moment
    )
    for _ in range(5):
        await gates.scheduler.firer.tick()
        await gates.scheduler.promoter.tick()
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim)])
    assert len(await gates.claim(200)) == 130


async def test_a_run_that_waits_for_another_is_in_no_line_of_their_common_ordering_key(gates, schedules):
    moment = seconds_ago(5)
    firsts, seconds = set(), set()
    for key in "abcdef":  # which of two comes first in line is a matter of chance
        await schedules.make(f"ingestion-{key}", daily_at(moment), orderingKey=key)
        await schedules.make(f"report-{key}", daily_at(moment), orderingKey=key, dependencies=[f"ingestion-{key}"])
        seconds.add(await schedules.fire(f"report-{key}", moment))
        firsts.add(await schedules.fire(f"ingestion-{key}", moment))
    claims = await gates.claim()
    assert set(await ids_of(claims)) == firsts
    await gates.broker.report([report(claim) for claim in claims])
    assert set(await ids_of(await gates.claim())) == seconds


async def test_the_other_policies_apply_after_the_dependencies(gates, schedules, sql):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), concurrencyLimit=1, dependencies=["ingestion"])
    second = await schedules.fire("report", moment)
    first = await schedules.fire("ingestion", moment)
    by_hand = (await gates.engine.api.post("/v1/jobs/report/run")).json()["runId"]
    claims = {run: claim for claim in await gates.claim() for run in await ids_of([claim])}
    assert set(claims) == {first, by_hand}
    await gates.broker.report([report(claims[first])])
    assert await gates.claim() == []
    assert (await schedules.state(second))[1].startswith("limit 1/1 of ")
    await gates.broker.report([report(claims[by_hand])])
    assert await ids_of(await gates.claim()) == [second]


async def test_a_dependency_that_is_added_while_the_other_one_runs_is_noted(gates, schedules):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment))
    first = await schedules.fire("ingestion", moment)
    (claim,) = await gates.claim()
    answer = await gates.engine.api.put("/v1/jobs/report", json={"dependencies": ["ingestion"]})
    assert answer.json()["dependencies"] == ["ingestion"]
    second = await schedules.fire("report", moment)
    assert await gates.claim() == []
    assert (await schedules.state(second))[1].endswith(f"({first}) is running")
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [second]


async def test_a_waiting_run_goes_when_its_dependencies_are_taken_away(gates, schedules, nightly):
    _, _, second = nightly
    await gates.claim()
    answer = await gates.engine.api.put("/v1/jobs/report", json={"dependencies": None})
    assert "dependencies" not in answer.json()
    assert await ids_of(await gates.claim()) == [second]
    assert (await gates.engine.api.delete("/v1/jobs/ingestion")).status_code == 200


async def test_what_was_not_noted_is_found_by_the_complete_look(gates, schedules, nightly, sql):
    _, _, second = nightly
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim)])
    await sql.execute("DELETE FROM rota.departures")
    assert await gates.claim() == []
    await schedules.look()
    assert await ids_of(await gates.claim()) == [second]


async def test_the_mark_outlasts_changes_of_the_job(gates, schedules, sql):
    moment = seconds_ago(5)
    await schedules.make("ingestion", daily_at(moment))
    await schedules.make("report", daily_at(moment), dependencies=["ingestion"])
    await gates.engine.api.put("/v1/jobs/ingestion", json={"maxRetries": 7, "concurrencyLimit": 3})
    await gates.engine.api.put("/v1/jobs/ingestion", json={"concurrencyLimit": None})
    assert await sql.fetchval("SELECT policies FROM rota.jobs WHERE name = 'ingestion'") == '{"awaited": true}'


async def test_an_older_scheduler_passes_over_runs_that_depend_on_others(gates, nightly, sql):
    gate = await sql.fetchval("SELECT gate FROM rota.held_runs WHERE name = 'report'")
    assert gate == "dependent"  # such a scheduler looks at 'new' alone


async def test_another_scheduler_goes_on_between_the_steps(gates, schedules, nightly):
    _, _, second = nightly
    (claim,) = await gates.claim()
    await gates.scheduler.leases.close()
    gates.scheduler = await gates.engine.leading()
    await gates.broker.report([report(claim)])
    assert await ids_of(await gates.claim()) == [second]


async def test_repeated_hours_of_a_clock_change_are_two_times_each_of_its_own(schedules):
    moment = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 in Berlin, for the first time
    zone = {"timezone": "Europe/Berlin"}
    every_half = await schedules.make("ingestion", "30 * * * *", **zone)
    row = await schedules.sql.fetchrow("SELECT * FROM rota.jobs WHERE name = $1", every_half)
    schedule = timetable_of(row).schedule(row["id"])
    for time in (moment, moment + timedelta(hours=1)):
        assert time_needed(schedule, time, None) == time
        assert time_needed(schedule, time + timedelta(minutes=10), 3600) == time


# Jobs that run once


async def test_a_job_waits_for_jobs_that_run_once(gates, schedules):
    first = await gates.engine.submit(jobId="load")
    other = await gates.engine.submit()
    answer = await gates.engine.api.post(
        "/v1/jobs", json=job(dependencies=["load", other.replace("run_", "job_")], name="last")
    )
    assert answer.json()["status"] == "blocked"
    last = answer.json()["runId"]
    claims = await gates.claim()
    assert sorted(await ids_of(claims)) == sorted([first, other])
    await gates.broker.report([report(claims[0])])
    assert await gates.claim() == []
    assert (await schedules.state(last))[1].endswith("is running")
    await gates.broker.report([report(claims[1])])
    assert await ids_of(await gates.claim()) == [last]
    assert await schedules.sql.fetchval("SELECT count(*) FROM rota.dependencies") == 0


async def test_a_job_is_skipped_when_one_that_it_needs_has_failed(gates, schedules):
    first = await gates.engine.submit(jobId="load")
    last = await gates.engine.submit(dependencies=["load"])
    (claim,) = await gates.claim()
    await gates.broker.report([report(claim, Outcome.final, error="e")])
    await gates.admit()
    assert await schedules.state(last) == ("skipped", f"dependency: load ({first}) failed")


async def test_what_has_ended_is_decided_when_the_job_is_submitted(gates):
    await gates.engine.submit(jobId="good")
    await gates.engine.submit(jobId="bad")
    for claim in await gates.claim():
        name = (await gates.engine.run(f"run_{claim.run_id.hex}"))["jobId"]
        await gates.broker.report([report(claim, Outcome.success if name == "good" else Outcome.final)])
    last = await gates.engine.submit(dependencies=["good"])
    assert await ids_of(await gates.claim()) == [last]
    answer = await gates.engine.api.post("/v1/jobs", json=job(dependencies=["bad"]))
    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"field": "dependencies[0]", "message": "bad is failed: it can't be waited for"}]


async def test_dependents_that_were_cancelled_are_swept(gates, sql):
    await gates.engine.submit(jobId="load")
    last = await gates.engine.submit(dependencies=["load"])
    waits = await gates.engine.submit(dependencies=["load"])
    await gates.engine.api.post(f"/v1/runs/{last}/cancel")
    await sql.execute("UPDATE rota.dependencies SET look_at = now() - interval '1 second'")
    await gates.scheduler.sweeper.tick()
    assert await sql.fetchval("SELECT array_agg(job_id) FROM rota.dependencies") == [plain(waits)]


# Refusals


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"dependencies": ["nobody"]}, "dependencies[0]", "there is no job 'nobody'"),
        ({"dependencies": ["once"]}, "dependencies[0]", "once runs once; a schedule waits for schedules"),
        ({"dependencies": ["gone"]}, "dependencies[0]", "gone is cancelled: it can't be waited for"),
        ({"dependencyWindowSeconds": 60}, "dependencyWindowSeconds", "needs dependencies"),
        ({"dependencies": ["noon"]}, "dependencies", "noon never runs at the same time as this one"),
        ({"dependencies": ["noon"], "dependencyWindowSeconds": 60}, "dependencies", "noon never runs in the window"),
        ({"dependencies": [str(n) for n in range(101)]}, "dependencies", "must have at most 100 items"),
    ],
)
async def test_what_can_never_be_met_is_refused_and_nothing_is_created(schedules, fields, field, words):
    await schedules.make("noon", "0 12 * * *")
    await schedules.make("gone", "0 0 * * *")
    await schedules.api.delete("/v1/jobs/gone")
    await schedules.gates.engine.submit(jobId="once")
    body = {"jobId": "report", "name": "report", "task": "rota.echo", "schedule": "0 0 * * *"}
    answer = await schedules.api.post("/v1/jobs", json=body | fields)
    assert answer.status_code == 400, answer.text
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    assert words in error["message"]
    assert (await schedules.api.get("/v1/jobs/report")).status_code == 404


async def test_a_job_that_runs_once_waits_for_no_schedule_and_has_no_window(schedules):
    await schedules.make("noon", "0 12 * * *")
    answer = await schedules.api.post("/v1/jobs", json=job(dependencies=["noon"]))
    assert "noon is a schedule" in answer.text
    answer = await schedules.api.post("/v1/jobs", json=job(dependencies=["noon"], dependencyWindowSeconds=5))
    assert "is for schedules; this job runs once" in answer.text


async def test_times_in_another_zone_are_other_times(schedules):
    await schedules.make("ingestion", "0 2 * * *")
    body = {"name": "report", "task": "rota.echo", "scheduleType": "cron", "dependencies": ["ingestion"]}
    berlin = body | {"cronExpression": "0 2 * * *", "timezone": "Europe/Berlin"}
    assert (await schedules.api.post("/v1/jobs", json=berlin)).status_code == 400
    answer = await schedules.api.post("/v1/jobs", json=berlin | {"dependencyWindowSeconds": 86400})
    assert answer.status_code == 201


async def test_jobs_of_others_are_as_if_they_were_not_there(api, gates, schedules, database):
    await schedules.make("ingestion", "0 0 * * *")
    async with clients_of(api) as make:
        alice = await make("submitter", owner="alice")
        body = {"name": "report", "task": "rota.echo", "schedule": "0 0 * * *", "dependencies": ["ingestion"]}
        answer = await alice.post("/v1/jobs", json=body)
        assert answer.status_code == 400
        assert "there is no job 'ingestion'" in answer.text
        elsewhere = await api.post("/v1/jobs", json=body, headers={"Rota-Namespace": "elsewhere"})
        assert "there is no job 'ingestion'" in elsewhere.text


async def test_a_schedule_is_meant_by_its_name_if_only_one_has_it(schedules):
    first = await schedules.api.post("/v1/jobs", json=job(name="load", scheduleType="cron", cronExpression="0 0 * * *"))
    body = {"name": "report", "task": "rota.echo", "schedule": "0 0 * * *", "dependencies": ["load"]}
    made = (await schedules.api.post("/v1/jobs", json=body)).json()
    shown = (await schedules.api.get(f"/v1/jobs/{made['jobId']}")).json()
    assert shown["dependencies"] == [first.json()["jobId"]]
    await schedules.api.post("/v1/jobs", json=job(name="load", scheduleType="cron", cronExpression="0 0 * * *"))
    assert "several schedules have the name" in (await schedules.api.post("/v1/jobs", json=body)).text


async def test_a_set_of_jobs_has_no_dependencies(schedules):
    await schedules.gates.engine.submit(jobId="once")
    body = {"job": job(dependencies=["once"]), "payloads": [{}, {}]}
    answer = await schedules.api.post("/v1/jobs/batch", json=body)
    assert answer.status_code == 400
    assert "a set is for jobs without them" in answer.text


async def test_a_job_that_runs_once_can_only_lose_its_dependencies(gates, schedules):
    await gates.engine.submit(jobId="load")
    last = await gates.engine.submit(dependencies=["load"], jobId="last")
    answer = await schedules.api.put("/v1/jobs/last", json={"dependencies": ["load"]})
    assert "a job that runs once gets them when it is submitted" in answer.text
    assert len(await gates.claim()) == 1
    await schedules.api.put("/v1/jobs/last", json={"dependencies": []})
    assert await ids_of(await gates.claim()) == [last]
    assert await schedules.sql.fetchval("SELECT count(*) FROM rota.dependencies") == 0


async def test_a_changed_schedule_or_window_must_still_be_met(schedules):
    await schedules.make("ingestion", "0 0 * * *")
    await schedules.make("report", "0 0 * * *", dependencies=["ingestion"])
    moved = await schedules.api.put("/v1/jobs/report", json={"cronExpression": "30 6 * * *"})
    assert "ingestion never runs at the same time as this one" in moved.text
    windowed = {"cronExpression": "30 6 * * *", "dependencyWindowSeconds": 43200}
    assert (await schedules.api.put("/v1/jobs/report", json=windowed)).json()["dependencyWindowSeconds"] == 43200
    narrow = await schedules.api.put("/v1/jobs/report", json={"dependencyWindowSeconds": 60})
    assert "ingestion never runs in the window" in narrow.text
    renamed = await schedules.api.put("/v1/jobs/report", json={"name": "other"})
    assert renamed.json()["dependencies"] == ["ingestion"]


async def test_a_cycle_is_refused(schedules):
    await schedules.make("a", "0 0 * * *")
    await schedules.make("b", "0 0 * * *", dependencies=["a"])
    await schedules.make("c", "0 0 * * *", dependencies=["b"])
    answer = await schedules.api.put("/v1/jobs/a", json={"dependencies": ["c"]})
    assert answer.status_code == 400
    assert "c would make a cycle: that one depends on this job already" in answer.text
    itself = await schedules.api.put("/v1/jobs/a", json={"dependencies": ["a"]})
    assert "a job can't depend on itself" in itself.text
    assert "dependencies" not in (await schedules.api.get("/v1/jobs/a")).json()


async def test_of_two_requests_that_make_a_cycle_together_one_is_refused(schedules):
    for turn in range(5):
        names = [await schedules.make(f"{side}{turn}", "0 0 * * *") for side in "ab"]
        answers = await asyncio.gather(
            *(
                schedules.api.put(f"/v1/jobs/{own}", json={"dependencies": [other]})
                for own, other in (names, reversed(names))
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 400]


async def test_a_repeat_of_a_request_gets_its_first_answer_whatever_became_of_the_other_job(schedules):
    await schedules.make("ingestion", "0 0 * * *")
    body = {"name": "report", "task": "rota.echo", "schedule": "0 0 * * *", "dependencies": ["ingestion"]}
    first = await schedules.api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"})
    await schedules.api.delete("/v1/jobs/ingestion?force=true")
    again = await schedules.api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k"})
    assert again.json()["jobId"] == first.json()["jobId"]


# Cancelling


async def test_a_job_that_others_depend_on_is_cancelled_only_by_force(gates, schedules, nightly):
    _, _, second = nightly
    await gates.admit()
    answer = await gates.engine.api.delete("/v1/jobs/ingestion")
    assert answer.status_code == 409
    assert "other jobs depend on it: report" in answer.json()["detail"]
    assert (await gates.engine.api.delete("/v1/jobs/ingestion?force=true")).json()["status"] == "cancelled"
    await gates.admit()
    assert (await schedules.state(second))[0] == "skipped"
    later = await schedules.fire("report", seconds_ago(5))
    await gates.admit()
    assert (await schedules.state(later))[0] == "skipped"


async def test_a_job_that_runs_once_and_is_needed_is_cancelled_only_by_force(gates, schedules):
    await gates.engine.submit(jobId="load")
    last = await gates.engine.submit(dependencies=["load"], jobId="last")
    assert (await gates.engine.api.delete("/v1/jobs/load")).status_code == 409
    await gates.engine.api.delete("/v1/jobs/last")
    assert (await gates.engine.run(last))["status"] == "cancelled"
    assert (await gates.engine.api.delete("/v1/jobs/load")).status_code == 200


# As people write it


async def test_the_job_of_a_design_document_works_as_it_is_posted(gates, schedules):
    moment = seconds_ago(5)
    await schedules.make("data_ingestion", "0 0 * * *")
    body = {
        "job_id": "daily_report",
        "schedule": "0 0 * * *",
        "command": "python3 /opt/report.py",
        "dependencies": ["data_ingestion"],
        "max_retries": 3,
        "timeout": 3600,
    }
    answer = await gates.engine.api.post("/v1/jobs", json=body)
    assert (answer.status_code, answer.json()["jobId"]) == (201, "daily_report")
    shown = (await gates.engine.api.get("/v1/jobs/daily_report")).json()
    assert shown["dependencies"] == ["data_ingestion"]
    assert (shown["maxRetries"], shown["timeoutSeconds"], shown["task"]) == (3, 3600, "shell")
    for name in ("data_ingestion", "daily_report"):
        await gates.engine.api.put(f"/v1/jobs/{name}", json={"cronExpression": daily_at(moment)})
    await gates.engine.join(gates.engine.broker(), "shell")
    second, first = await schedules.fire("daily_report", moment), await schedules.fire("data_ingestion", moment)
    (claim,) = await gates.claim()
    assert await ids_of([claim]) == [first]
    await gates.broker.report([report(claim)])
    await gates.admit()
    assert (await gates.engine.run(second))["status"] == "queued"


# With everything running


async def test_schedules_of_every_second_run_one_after_the_other(engine, sql):
    ended: list[str] = []

    async def load(**_):
        await asyncio.sleep(0.05)

    async def use(**_):
        ended.append("use")

    worker = engine.worker({"load": load, "use": use})
    first = await engine.recurring(name="load", task="load", scheduleType="cron", cronExpression="* * * * * *")
    second = await engine.recurring(
        name="use", task="use", scheduleType="cron", cronExpression="*/2 * * * * *", dependencies=["load"]
    )
    async with engine.running(engine.scheduler(), worker):
        await eventually(lambda: len(ended) >= 3)
    rows = await sql.fetch(
        "SELECT u.started_at, l.finished_at FROM rota.finished_runs AS u JOIN rota.finished_runs AS l"
        " ON l.job_id = $1 AND l.nominal_at = u.nominal_at WHERE u.job_id = $2 AND u.status = 'success'",
        plain(first),
        plain(second),
    )
    assert len(rows) >= 3
    assert all(row["started_at"] >= row["finished_at"] for row in rows)
