"""The calendar of jobs: start, end, jitter, H and the rule for clock changes, from submission to the run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from engine import plain
from support import eventually, job, patience


def moment(**ahead):
    return datetime.now(UTC).replace(microsecond=0) + timedelta(**ahead)


async def shown(engine, job_id):
    return (await engine.api.get(f"/v1/jobs/{job_id}")).json()


async def test_a_schedule_fires_from_its_start_to_its_end_and_is_then_completed(engine, sql):
    start, end = moment(hours=1), moment(hours=3)
    fields = {"startTime": start.isoformat(), "endTime": end.isoformat()}
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600, **fields)
    job_shown = await shown(engine, job_id)
    assert [datetime.fromisoformat(time) for time in job_shown["nextFireTimes"]] == [
        start,
        start + timedelta(hours=1),
        end,
    ]
    await sql.execute(
        "UPDATE rota.jobs SET start_at = now() - interval '3 hours', end_at = now() - interval '1 hour',"
        " next_fire_at = now() - interval '1 hour', fired_through = now() - interval '2 hours'"
    )
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    assert (await shown(engine, job_id))["status"] == "completed"


async def test_jitter_moves_the_start_of_a_run_and_not_its_nominal_time(engine, sql):
    job_id = await engine.recurring(scheduleType="interval", everySeconds=3600, jitterSeconds=600)
    await sql.execute("UPDATE rota.jobs SET next_fire_at = now() + interval '5 seconds', fired_through = now()")
    scheduler = await engine.leading()
    await scheduler.firer.tick()
    row = await sql.fetchrow("SELECT nominal_at, run_at FROM rota.upcoming_runs WHERE job_id = $1", plain(job_id))
    assert timedelta() < row["run_at"] - row["nominal_at"] < timedelta(seconds=600)


async def test_h_stands_for_another_time_in_another_job_and_always_for_the_same_in_one(engine):
    jobs = [await engine.recurring(scheduleType="cron", cronExpression="H H * * *") for _ in range(20)]
    first = [(await shown(engine, job_id))["nextFireTimes"][0] for job_id in jobs]
    assert len({time[11:16] for time in first}) > 10
    assert [(await shown(engine, job_id))["nextFireTimes"][0] for job_id in jobs] == first


async def test_the_rule_for_clock_changes_is_the_jobs_own(engine):
    fields = {"scheduleType": "cron", "cronExpression": "30 2 * * *", "timezone": "Europe/Berlin"}
    preview = {"cronExpression": "30 2 * * *", "timezone": "Europe/Berlin", "after": "2030-03-30T12:00:00Z", "count": 1}
    times = {}
    for dst in ("shift", "skip", "strict"):
        job_id = await engine.recurring(**fields, dst=dst)
        assert (await shown(engine, job_id))["dst"] == dst
        times[dst] = (await engine.api.post("/v1/schedules/preview", json=preview | {"dst": dst})).json()["fireTimes"]
    assert times["shift"] == ["2030-03-31T01:00:00Z"], "right after the gap"
    assert times["skip"] == times["strict"] == ["2030-04-01T00:30:00Z"]


async def test_fields_of_the_calendar_are_changed_and_taken_away(engine):
    job_id = await engine.recurring(
        scheduleType="cron",
        cronExpression="0 9 * * *",
        jitterSeconds=60,
        endTime=moment(days=30).isoformat(),
        dst="skip",
    )
    changed = (
        await engine.api.put(
            f"/v1/jobs/{job_id}",
            json={"jitterSeconds": None, "endTime": None, "dst": None, "misfire": {"policy": "all", "cap": 7}},
        )
    ).json()
    assert not {"jitterSeconds", "endTime", "dst"} & changed.keys()
    assert changed["misfire"] == {"policy": "all", "windowSeconds": 3600.0, "cap": 7}


async def test_an_end_that_leaves_nothing_to_fire_is_refused_and_does_not_end_the_job(engine):
    job_id = await engine.recurring(scheduleType="cron", cronExpression="0 0 1 1 *")
    answer = await engine.api.put(f"/v1/jobs/{job_id}", json={"endTime": moment(seconds=30).isoformat()})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "endTime")
    assert (await shown(engine, job_id))["status"] == "scheduled"


async def test_a_cron_schedule_becomes_an_interval_and_leaves_its_rule_behind(engine):
    job_id = await engine.recurring(scheduleType="cron", cronExpression="0 9 * * *", dst="skip")
    changed = (await engine.api.put(f"/v1/jobs/{job_id}", json={"everySeconds": 60})).json()
    assert (changed["scheduleType"], changed["everySeconds"], "dst" in changed) == ("interval", 60.0, False)


async def test_a_schedule_whose_end_comes_before_it_first_fires_is_refused(engine):
    answer = await engine.api.post(
        "/v1/jobs",
        json=job(scheduleType="cron", cronExpression="0 0 1 1 *", endTime=moment(seconds=30).isoformat()),
    )
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "endTime")


async def test_an_interval_with_a_start_is_counted_from_it(engine, sql):
    start = moment(seconds=round(2 * patience()))
    job_id = await engine.recurring(scheduleType="interval", everySeconds=1, startTime=start.isoformat())
    async with engine.running(engine.scheduler(), engine.worker()):

        async def ran():
            rows = await sql.fetch(
                "SELECT nominal_at FROM rota.finished_runs WHERE job_id = $1 ORDER BY 1", plain(job_id)
            )
            return [row["nominal_at"] for row in rows] if len(rows) >= 2 else None

        times = await eventually(ran)
    assert times[:2] == [start, start + timedelta(seconds=1)]
