"""Declared schedules where it gets narrow: past their end, touched while undeclared, unreadable, nameless, large."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from test_declared import Fleet

import rota
from rota.compose import describe_app
from rota.errors import SetupError
from support import eventually


def shop(cron=None, *, version=None, name="shop", namespace="default", what="all", serving=("default",), **calendar):
    """An application with a task and, with a cron expression, one schedule of it."""
    app = rota.App(name, version=version, namespace=namespace)

    @app.task(name="tidy")
    async def tidy(what: str = "all") -> None: ...

    if cron:
        app.cron(cron, name="nightly", arguments={"what": what}, **calendar)(tidy)
    return describe_app(app, serving)


@pytest.fixture
async def fleet(engine):
    """Workers that exist only as their brokers, and a scheduler that is ticked."""
    return Fleet(engine, await engine.leading())


@pytest.fixture
def deploy(fleet):
    """Starts a worker of each of these, one after the other; gives back the schedule as it is after the last."""

    async def one_after_the_other(*apps):
        for app in apps:
            await fleet.start(app)
            await fleet.reconcile()
        return (await fleet.jobs()).get("nightly")

    return one_after_the_other


async def test_a_schedule_whose_end_has_passed_does_not_keep_workers_from_starting(deploy):
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert (await deploy(shop("0 2 * * *", end=yesterday)))["status"] == "completed"
    tomorrow = yesterday + timedelta(days=2)
    going_on = await deploy(shop("0 2 * * *", end=tomorrow, version="2"))
    assert going_on["status"] == "scheduled"
    assert (await deploy(shop("0 2 * * *", end=yesterday, version="3")))["status"] == "completed"


# Touched while undeclared


@pytest.fixture
async def undeclared(deploy):
    """A schedule that was paused since the version in force declares it no more."""
    job = await deploy(shop("0 2 * * *", version="1"), shop(version="2"))
    assert (job["status"], "no worker declares it" in job["note"]) == ("paused", True)
    return f"/v1/jobs/{job['jobId']}"


async def test_what_was_cancelled_while_undeclared_stays_cancelled_when_it_is_declared_again(
    engine, deploy, undeclared
):
    answer = await engine.api.delete(undeclared)
    assert answer.is_success, answer.text
    assert (await deploy(shop("0 2 * * *", version="3")))["status"] == "cancelled"


async def test_what_was_resumed_and_paused_by_hand_while_undeclared_stays_paused(engine, deploy, undeclared):
    for verb in ("resume", "pause"):
        answer = await engine.api.post(f"{undeclared}/{verb}")
        assert answer.is_success, answer.text
    assert (await deploy(shop("0 2 * * *", version="3")))["status"] == "paused"


async def test_the_note_of_a_pause_is_gone_after_a_resume(engine, undeclared):
    await engine.api.post(f"{undeclared}/resume")
    resumed = (await engine.api.get(undeclared)).json()
    assert (resumed["status"], resumed.get("note")) == ("scheduled", None)


async def test_the_event_of_a_schedule_that_was_renamed_by_hand_has_its_real_id(fleet, deploy, engine):
    job = await deploy(shop("0 2 * * *", version="1"))
    await fleet.change(job, name="renamed")
    await deploy(shop(version="2"))
    events = (await engine.api.get("/v1/events")).json()["items"]
    (undeclared,) = [event for event in events if event["event"] == "schedule.undeclared"]
    assert undeclared["subject"] == job["jobId"]


# Refused, and unreadable


async def test_an_application_that_can_not_be_reconciled_does_not_hold_up_others(fleet, engine, sql):
    await fleet.start(shop("0 2 * * *", name="a broken one"))
    await fleet.start(shop("0 2 * * *", name="zoo"))
    await sql.execute(
        "UPDATE rota.app_versions SET schedules = jsonb_set(schedules, '{0,timetable,timezone}', '\"Mars/Base\"') "
        "WHERE app = 'a broken one'"
    )
    assert await fleet.reconcile() == 1
    items = (await engine.api.get("/v1/jobs")).json()["items"]
    assert [job["declaredBy"].split()[0] for job in items] == ["zoo"]
    # It is tried again, and is there as soon as it can be read.
    await sql.execute(
        "UPDATE rota.app_versions SET schedules = jsonb_set(schedules, '{0,timetable,timezone}', '\"UTC\"')"
    )
    assert await fleet.reconcile() >= 1
    assert len((await engine.api.get("/v1/jobs")).json()["items"]) == 2


def test_schedules_of_an_application_without_a_name_are_refused():
    with pytest.raises(SetupError, match=r'declares schedules needs a name: rota\.App\("shop"\)'):
        shop("0 2 * * *", name=None)
    assert shop(name=None).schedules == ()


def test_a_worker_that_does_not_serve_the_namespace_of_its_schedules_refuses_to_start():
    with pytest.raises(SetupError, match=r"belong to namespace 'team', which this worker does not serve"):
        shop("0 2 * * *", namespace="team", serving=("default", "other"))
    assert shop("0 2 * * *", namespace="team", serving=("other", "team")).namespace == "team"
    assert shop(namespace="team", serving=("other",)).schedules == ()


# Versions that are numbers


@pytest.mark.parametrize(
    ("first", "second", "in_force"),
    [
        ("1.9", "1.10", "1.10"),
        ("1.10", "1.9", "1.10"),
        ("2.0", "1.0", "2.0"),
        ("v2026.11.3", "v2026.9.30", "v2026.11.3"),
        ("a1b2c3", "0f0e0d", "0f0e0d"),
    ],
)
async def test_versions_that_are_numbers_are_ordered_as_such_and_others_as_they_came(deploy, first, second, in_force):
    job = await deploy(shop("0 1 * * *", version=first), shop("0 2 * * *", version=second))
    assert job["declaredBy"] == f"shop {in_force}"
    assert job["cronExpression"] == ("0 1 * * *" if in_force == first else "0 2 * * *")


# Large payloads


@pytest.mark.parametrize("size", [3 * 1024, 60 * 1024])
async def test_large_arguments_are_made_changed_fired_and_read_by_a_run(fleet, engine, deploy, size):
    async def shown():
        job_id = (await fleet.jobs())["nightly"]["jobId"]
        return (await engine.api.get(f"/v1/jobs/{job_id}")).json()["payload"]

    every_second = "* * * * * *"
    await deploy(shop(every_second, version="1", what="a" * size))
    assert await shown() == {"what": "a" * size}
    await deploy(shop(every_second, version="2", what="b" * size))
    assert await shown() == {"what": "b" * size}
    await deploy(shop(version="3"), shop(every_second, version="4", what="b" * size))
    assert await shown() == {"what": "b" * size}

    async def tidy(what: str) -> list:
        return [len(what), what[0]]

    async def read():
        runs = (await engine.api.get("/v1/runs", params={"status": "success"})).json()["items"]
        return runs and runs[0]["runId"]

    async with engine.running(engine.worker({"tidy": tidy}), fleet.scheduler):
        run = await engine.run(await eventually(read))
    assert run["result"] == [size, "b"]
