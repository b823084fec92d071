"""Schedules declared in code: made, changed and paused with the version of the application that is in force."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

import rota
from rota.errors import SetupError
from rota.gateway import declared_workflows
from rota.sdk.declared_schedules import describe_app
from rota.store.declare import DeclaredJobs


def application(*schedules, version=None, name="shop"):
    """An application with a task and, by name, these cron expressions (or numbers of seconds)."""
    app = rota.App(name, version=version)

    @app.task(name="tidy", retries=5)
    async def tidy(what: str = "all") -> None: ...

    for number, schedule in enumerate(schedules):
        called = f"schedule {number}"
        declare = app.cron if isinstance(schedule, str) else app.every
        declare(schedule, name=called, arguments={"what": called})(tidy)
    return describe_app(app, ("default",))


@pytest.fixture
async def fleet(engine):
    """Workers that exist only as their brokers, and a scheduler that is ticked."""
    return Fleet(engine, await engine.leading())


class Fleet:
    def __init__(self, engine, scheduler):
        self.engine = engine
        self.scheduler = scheduler

    async def start(self, app):
        broker = self.engine.broker()
        await self.engine.join(broker, application=app)
        return broker

    async def reconcile(self):
        return await self.scheduler.reconciler.tick()

    async def jobs(self):
        items = (await self.engine.api.get("/v1/jobs")).json()["items"]
        return {job["name"]: job for job in items}

    async def change(self, job, **fields):
        answer = await self.engine.api.put(f"/v1/jobs/{job['jobId']}", json=fields)
        assert answer.status_code == 200, answer.text

    async def lose_all_workers(self, sql, ago):
        await sql.execute(
            "UPDATE rota.workers SET gone_at = now() - $1::text::interval, gone_why = 'lost' WHERE gone_at IS NULL",
            ago,
        )


async def test_a_workers_start_makes_its_schedules_jobs(fleet):
    await fleet.start(application("0 2 * * *", 900, version="1"))
    assert await fleet.reconcile() == 1
    jobs = await fleet.jobs()
    nightly, often = jobs["schedule 0"], jobs["schedule 1"]
    assert (nightly["cronExpression"], nightly["task"], nightly["maxRetries"]) == ("0 2 * * *", "tidy", 5)
    assert (often["everySeconds"], often["status"], often["declaredBy"]) == (900.0, "scheduled", "shop 1")
    assert await fleet.reconcile() == 0


async def test_declared_schedules_are_listed_by_when_they_were_made(fleet, sql):
    await fleet.engine.recurring(name="before", scheduleType="cron", cronExpression="@daily")
    await fleet.start(application("0 2 * * *", 900, version="1"))
    await fleet.reconcile()
    await sql.execute("UPDATE rota.jobs SET created_at = created_at + interval '1 minute' WHERE name = 'schedule 0'")
    await fleet.engine.submit(name="after", scheduleType="future", delaySeconds=3600)
    expected = ["after", "schedule 0", "schedule 1", "before"]
    assert list(await fleet.jobs()) == expected
    walked, cursor = [], {}
    while cursor is not None:
        page = (await fleet.engine.api.get("/v1/jobs", params={"limit": 1, **cursor})).json()
        walked += [job["name"] for job in page["items"]]
        cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else None
    assert walked == expected
    soon = (await sql.fetchval("SELECT now() + interval '30 seconds'")).isoformat()
    later = (await fleet.engine.api.get("/v1/jobs", params={"startTime": soon})).json()["items"]
    assert [job["name"] for job in later] == ["after", "schedule 0"]


async def test_declared_schedules_fire(fleet, sql):
    await fleet.start(application(1))
    await fleet.reconcile()
    assert await fleet.scheduler.firer.tick() >= 1
    assert await sql.fetchval("SELECT payload FROM rota.runs LIMIT 1") == '{"what":"schedule 0"}'


async def test_a_new_version_changes_what_it_declares_otherwise(fleet):
    await fleet.start(application("0 2 * * *", 900, version="1"))
    await fleet.reconcile()
    before = await fleet.jobs()
    await fleet.start(application("30 3 * * *", 900, "@weekly", version="2"))
    await fleet.reconcile()
    after = await fleet.jobs()
    assert after["schedule 0"]["cronExpression"] == "30 3 * * *"
    assert after["schedule 0"]["jobId"] == before["schedule 0"]["jobId"]
    assert after["schedule 1"]["version"] == before["schedule 1"]["version"]
    assert after["schedule 2"]["status"] == "scheduled"


async def test_a_schedule_that_is_no_longer_declared_keeps_the_times_that_were_due(fleet, sql):
    await fleet.start(application(1, version="1"))
    await fleet.reconcile()
    # As if all schedulers had been down for 20 seconds.
    await sql.execute(
        """UPDATE rota.jobs SET fired_through = date_trunc('second', now()) - interval '20 seconds',
                                next_fire_at = date_trunc('second', now()) - interval '19 seconds'"""
    )
    await fleet.start(application(version="2"))
    await fleet.reconcile()
    assert await sql.fetchval("SELECT state FROM rota.jobs") == "paused"
    assert await sql.fetchval("SELECT count(*) FROM rota.held_runs WHERE gate = 'pause'") >= 20


async def test_a_declared_schedule_that_cannot_be_read_does_not_hold_up_the_others(fleet):
    await fleet.start(application("0 2 * * *", "0 3 * * *", version="1"))
    await fleet.reconcile()
    after = application("0 4 * * *", "0 5 * * *", "0 6 * * *", version="2")
    bad, *good = after.schedules
    timetable = msgspec.structs.replace(bad.timetable, timezone="Atlantis/Poseidonis")
    bad = msgspec.structs.replace(bad, timetable=timetable)
    await fleet.start(msgspec.structs.replace(after, schedules=(bad, *good)))
    assert await fleet.reconcile() == 0, "it is tried again"
    jobs = {name: (job["cronExpression"], job["status"]) for name, job in (await fleet.jobs()).items()}
    assert jobs == {
        "schedule 0": ("0 2 * * *", "scheduled"),
        "schedule 1": ("0 5 * * *", "scheduled"),
        "schedule 2": ("0 6 * * *", "scheduled"),
    }


async def test_a_declared_schedule_leaves_out_the_days_of_a_calendar_once_that_is_there(fleet):
    app = rota.App("shop", version="1")

    @app.cron("0 2 * * *", exclude_calendars=["holidays"], on_excluded_day="next")
    @app.task
    def tidy() -> None: ...

    await fleet.start(describe_app(app, ("default",)))
    assert await fleet.reconcile() == 0
    assert await fleet.jobs() == {}
    api = fleet.engine.api
    before = (await api.post("/v1/schedules/preview", json={"cronExpression": "0 2 * * *", "count": 3})).json()
    first, second, third = before["fireTimes"]
    await api.put("/v1/calendars/holidays", json={"days": [first[:10]]})
    # The scheduler tries again after a while; this one has not tried yet.
    other = DeclaredJobs(
        fleet.engine.database, patience=timedelta(minutes=1), apply_workflows=declared_workflows.apply_workflows
    )
    assert await other.reconcile("default", "shop")
    (made,) = (await fleet.jobs()).values()

    async def coming():
        return (await api.get(f"/v1/jobs/{made['jobId']}")).json()["nextFireTimes"][:2]

    assert await coming() == [second, third]
    await api.put("/v1/calendars/holidays", json={"days": [second[:10]]})
    assert await coming() == [first, third]
    await fleet.reconcile()
    assert await coming() == [first, third]


async def test_an_old_worker_that_starts_late_changes_nothing(fleet):
    old, new = application("0 2 * * *", version="1"), application("30 3 * * *", version="2")
    await fleet.start(old)
    await fleet.reconcile()
    await fleet.start(new)
    await fleet.reconcile()
    await fleet.start(old)
    assert await fleet.reconcile() == 0
    assert (await fleet.jobs())["schedule 0"]["cronExpression"] == "30 3 * * *"


async def test_a_rollback_is_in_force_when_the_last_worker_of_the_new_version_has_stopped(fleet):
    old, new = application("0 2 * * *", version="1"), application("30 3 * * *", "@weekly", version="2")
    first = await fleet.start(old)
    await fleet.reconcile()
    second = await fleet.start(new)
    await fleet.reconcile()
    await first.leave()
    await fleet.start(old)
    assert await fleet.reconcile() == 0
    await second.leave()
    assert await fleet.reconcile() == 1
    jobs = await fleet.jobs()
    assert jobs["schedule 0"]["cronExpression"] == "0 2 * * *"
    assert (jobs["schedule 1"]["status"], jobs["schedule 1"]["note"]) == (
        "paused",
        "paused: no worker declares it any more (it was last declared by version 2 of shop)",
    )


async def test_what_is_no_longer_declared_is_paused_with_a_note_and_goes_on_when_it_is_again(fleet):
    first = await fleet.start(application("0 2 * * *", 900, version="1"))
    await fleet.reconcile()
    second = await fleet.start(application("0 2 * * *", version="2"))
    await fleet.reconcile()
    await first.leave()
    paused = (await fleet.jobs())["schedule 1"]
    assert (paused["status"], "note" in paused) == ("paused", True)
    events = (await fleet.engine.api.get("/v1/events?kind=schedule.")).json()["items"]
    assert [event["event"] for event in events] == ["schedule.undeclared", "schedule.declared", "schedule.declared"]
    await fleet.start(application("0 2 * * *", 900, version="3"))
    await second.leave()
    await fleet.reconcile()
    again = (await fleet.jobs())["schedule 1"]
    assert (again["status"], "note" in again) == ("scheduled", False)


async def test_what_a_person_paused_or_changed_stays_until_the_code_says_something_new(fleet):
    await fleet.start(application("0 2 * * *", 900, version="1"))
    await fleet.reconcile()
    jobs = await fleet.jobs()
    await fleet.change(jobs["schedule 0"], cronExpression="0 4 * * *")
    await fleet.engine.api.post(f"/v1/jobs/{jobs['schedule 1']['jobId']}/pause")
    await fleet.start(application("0 2 * * *", 900, "@weekly", version="2"))
    await fleet.reconcile()
    jobs = await fleet.jobs()
    assert jobs["schedule 0"]["cronExpression"] == "0 4 * * *"
    assert jobs["schedule 1"]["status"] == "paused"
    await fleet.start(application("0 5 * * *", 600, version="3"))
    await fleet.reconcile()
    jobs = await fleet.jobs()
    assert jobs["schedule 0"]["cronExpression"] == "0 5 * * *"
    assert (jobs["schedule 1"]["status"], jobs["schedule 1"]["everySeconds"]) == ("paused", 600.0)


async def test_what_a_person_cancelled_comes_back_only_when_the_code_says_something_new(fleet):
    await fleet.start(application(900, version="1"))
    await fleet.reconcile()
    job = (await fleet.jobs())["schedule 0"]
    await fleet.engine.api.delete(f"/v1/jobs/{job['jobId']}")
    await fleet.start(application(900, "@weekly", version="2"))
    await fleet.reconcile()
    assert (await fleet.jobs())["schedule 0"]["status"] == "cancelled"
    await fleet.start(application(600, "@weekly", version="3"))
    await fleet.reconcile()
    assert (await fleet.jobs())["schedule 0"]["status"] == "scheduled"


async def test_a_crash_of_all_workers_is_no_decision(fleet, sql):
    await fleet.start(application(900, version="1"))
    await fleet.reconcile()
    await fleet.start(application(600, version="2"))
    await fleet.reconcile()
    await fleet.lose_all_workers(sql, "9 minutes")
    await fleet.start(application(900, version="1"))
    assert await fleet.reconcile() == 0
    assert (await fleet.jobs())["schedule 0"]["everySeconds"] == 600.0


async def test_a_version_that_was_lost_does_not_come_back_when_its_successor_stops(fleet, sql):
    await fleet.start(application(900, version="1"))
    await fleet.reconcile()
    await fleet.lose_all_workers(sql, "1 minute")
    successor = await fleet.start(application(600, version="2"))
    await fleet.reconcile()
    await successor.leave()
    assert await fleet.reconcile() == 0
    assert (await fleet.jobs())["schedule 0"]["everySeconds"] == 600.0


async def test_schedules_go_on_while_an_application_is_away_for_a_moment_and_pause_after_long(fleet, sql):
    broker = await fleet.start(application(900, version="1"))
    await fleet.reconcile()
    await broker.leave()
    assert await fleet.reconcile() == 0
    await sql.execute("UPDATE rota.workers SET gone_at = now() - interval '11 minutes'")
    assert await fleet.reconcile() == 1
    assert (await fleet.jobs())["schedule 0"]["status"] == "paused"
    assert await fleet.reconcile() == 0
    await sql.execute("DELETE FROM rota.workers")
    assert await fleet.reconcile() == 0
    await fleet.start(application(900, version="1"))
    assert await fleet.reconcile() == 1
    assert (await fleet.jobs())["schedule 0"]["status"] == "scheduled"


async def test_two_schedulers_reconcile_once(fleet, engine):
    other = engine.scheduler()
    await fleet.start(application("0 2 * * *", 900, version="1"))
    pending = await fleet.scheduler.reconciler._declaring.pending()
    assert pending == await other.reconciler._declaring.pending()
    assert await fleet.reconcile() == 1
    assert await other.reconciler._declaring.reconcile(pending[0].namespace, pending[0].app) is None


async def test_applications_don_t_touch_each_others_schedules(fleet):
    await fleet.start(application(900, name="shop"))
    await fleet.start(application("@daily", 600, name="billing"))
    await fleet.reconcile()
    items = (await fleet.engine.api.get("/v1/jobs")).json()["items"]
    assert sorted(job["declaredBy"].split()[0] for job in items) == ["billing", "billing", "shop"]
    assert {job["status"] for job in items} == {"scheduled"}


def test_without_a_version_what_is_declared_is_its_own_version():
    assert application(900).version == application(900).version
    assert application(900).version != application(600).version
    assert application(900, version="7").version == "7"


def test_a_schedule_that_can_not_be_is_refused_when_the_worker_starts():
    with pytest.raises(SetupError, match="The schedule 'schedule 0': bad minute field: '61'"):
        application("61 * * * *")
    app = rota.App()

    @app.cron("@daily", arguments={"what": 7})
    @app.task
    async def tidy(what: str) -> None: ...

    with pytest.raises(SetupError, match="Expected `str`, got `int` - for `what`"):
        describe_app(app, ("default",))
    with pytest.raises(SetupError, match="Two schedules"):
        app.cron("@weekly")(tidy)
    with pytest.raises(SetupError, match=r"above @app\.task"):
        app.cron("@weekly")(lambda: None)


def test_a_declared_schedule_depends_on_no_other():
    app = rota.App("shop")

    @app.cron("@daily", dependency_window="1h")
    @app.task(name="tidy")
    async def tidy() -> None: ...

    with pytest.raises(SetupError, match="can't be declared in code"):
        describe_app(app, ("default",))
