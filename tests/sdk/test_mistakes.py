"""Mistakes are told where they are made, and in words."""

from __future__ import annotations

import asyncio

import pytest

import rota
from rota.access.limits.backlog import Backlog
from rota.clock import DatabaseClock
from rota.compose import worker_gateway
from rota.errors import BadInputError, SetupError
from rota.sdk.declared_schedules import check_app
from rota.settings import Settings
from rota.testing import running
from support import patience


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": "mail"}, "there is no option 'queue'; did you mean pool"),
        ({"max_retries": 3}, "there is no option 'max_retries'; did you mean retries"),
        ({"retries": "three"}, "maxRetries: Expected `int`"),
        ({"timeout": "soonish"}, "'soonish' is not a duration"),
        ({"priority": "urgent"}, "priority: must be one of"),
    ],
)
def test_an_option_that_can_not_be_is_refused_when_the_task_is_declared(options, words):
    with pytest.raises(SetupError, match=words):
        rota.App().task(**options)
    if words.startswith("there"):
        task = rota.App().task(name="work")(lambda: None)
        with pytest.raises(BadInputError, match=words):
            task.with_options(**options)


def test_options_that_belong_to_a_key_made_of_arguments_are_taken():
    task = rota.App().task(name="work", concurrency_key=lambda to: to, concurrency_limit=2, unique_key=lambda to: to)
    assert task(lambda to: to).defaults["concurrency_limit"] == 2


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda app: app.cron("61 * * * *"), "bad minute field: '61'"),
        (lambda app: app.cron("@daily", timezone="Europe/Berln"), "Berln"),
        (lambda app: app.every(0.1), "must be between"),
    ],
)
def test_a_schedule_that_can_not_be_is_refused_when_it_is_declared(declare, words):
    app = rota.App("shop")
    task = app.task(name="work")(lambda: None)
    with pytest.raises(SetupError, match=f"The schedule 'work': .*{words}"):
        declare(app)(task)


def test_what_would_keep_a_worker_from_starting_is_found_before_one_is_started():
    app = rota.App()

    @app.every("1h")
    @app.task
    def work(number: int) -> None: ...

    with pytest.raises(SetupError, match="missing a required argument: 'number'"):
        check_app(app)
    nameless = rota.App()
    nameless.every("1h")(nameless.task(name="work")(lambda: None))
    with pytest.raises(SetupError, match="schedules needs a name"):
        check_app(nameless)
    isolated = rota.App()
    isolated.task(name="work", isolation="process")(lambda: None)
    with pytest.raises(SetupError, match="top level of a module"):
        check_app(isolated)


def test_a_task_of_the_program_itself_is_told_where_it_belongs():
    def work() -> None: ...

    work.__module__ = "__main__"
    with pytest.raises(SetupError, match="move it to a module"):
        rota.App().task(work)
    assert rota.App().task(name="work")(work).name == "work"


async def test_what_is_no_connection_no_time_and_no_call_is_said(app):
    @app.task(name="work")
    async def work() -> None: ...

    with pytest.raises(SetupError, match="not None"):
        work.within(None)
    with pytest.raises(SetupError, match="not None"):
        work.cron("@daily").within(None)
    with pytest.raises(BadInputError, match="must be a datetime"):
        work.at("tomorrow")
    with pytest.raises(BadInputError, match="takes calls"):
        await work.submit_many(["a"])
    with pytest.raises(rota.ArgumentsError, match="work: there is no parameter 'colour'"):
        await work.submit(colour="red")


async def test_a_plain_task_may_be_the_first_of_its_worker_to_submit(engine, app, tmp_path):
    @app.task(name="leaf")
    async def leaf() -> int:
        return 7

    @app.task(name="branch", retries=0)
    def branch() -> int:
        return leaf.sync.submit().result(timeout=120)

    run = await branch.submit()
    local = worker_gateway(Settings(home=tmp_path), engine.database, shards=64, clock=DatabaseClock())
    functions = {"leaf": leaf.function, "branch": branch.function}
    app.gateways._instead = None  # from here on as in a worker of its own
    async with engine.running(engine.worker(functions, gateways=local.for_run, beside=local.services)):
        assert (await engine.until(run.id, "success", "failed"))["result"] == 7


async def test_tasks_go_on_submitting_after_a_background_round_of_their_worker_failed(
    engine, app, tmp_path, monkeypatch
):
    failed = asyncio.Event()
    tick = Backlog.tick

    async def fail_once(backlog):
        if not failed.is_set():
            failed.set()
            raise ValueError("a fault of ours")
        return await tick(backlog)

    @app.task(name="leaf")
    async def leaf() -> None: ...

    @app.task(name="branch", retries=0)
    async def branch() -> None:
        async with asyncio.timeout(5 * patience()):
            await leaf.submit()
            await failed.wait()
            await leaf.submit()

    run = await branch.submit()
    local = worker_gateway(Settings(home=tmp_path), engine.database, shards=64, clock=DatabaseClock())
    functions = {"leaf": leaf.function, "branch": branch.function}
    app.gateways._instead = None
    monkeypatch.setattr(Backlog, "tick", fail_once)
    async with engine.running(engine.worker(functions, gateways=local.for_run, beside=local.services)):
        ended = await engine.until(run.id, "success", "failed", within=60)
    assert ended["status"] == "success", ended["error"]


async def test_while_a_kit_is_there_nothing_goes_to_a_server(rota_database_url):
    app = rota.App(url="http://127.0.0.1:9", token="x")  # noqa: S106 - nobody listens there

    @app.task(name="work")
    async def work() -> None: ...

    async with running(database_url=rota_database_url):
        with pytest.raises(SetupError, match="not served by the test's kit"):
            await work.submit()
        with pytest.raises(SetupError, match="not served by the test's kit"):
            await asyncio.to_thread(work.sync.submit)
    with pytest.raises(rota.RotaError, match="no Rota server answers"):
        await work.submit()
    await app.close()
