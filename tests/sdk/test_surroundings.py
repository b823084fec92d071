"""Middleware and lifespan: what an application puts around its submissions and runs, wherever they happen."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager

import pytest
import surrounded

import rota
from rota.clock import DatabaseClock
from rota.compose import worker_gateway
from rota.errors import SetupError
from rota.gateway.thread import ThreadGateway
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.worker.runners.function import FunctionRunner
from rota.worker.runners.registry import Runners


class Recorder(rota.Middleware):
    """Notes what it sees."""

    def __init__(self, name, seen):
        self.name = name
        self.seen = seen

    @contextmanager
    def submitting(self, call):
        self.seen.append(f"{self.name} before submitting {call.task.name} {call.arguments}")
        call.headers[self.name] = f"via {self.name}"
        yield
        self.seen.append(f"{self.name} after submitting")

    @asynccontextmanager
    async def running(self, context):
        self.seen.append(f"{self.name} before {context.task} {sorted(context.headers.items())}")
        try:
            yield
        except ValueError as error:
            self.seen.append(f"{self.name} saw {error}")
            raise
        self.seen.append(f"{self.name} after")


async def test_middleware_goes_around_submissions_and_runs_the_first_outermost(engine, app):
    seen = []
    app.add_middleware(Recorder("one", seen))
    app.add_middleware(Recorder("two", seen))

    @app.task(name="work")
    async def work(number: int) -> int:
        seen.append("work")
        return number

    runner = FunctionRunner({"work": work.function}, threads=1, around=app.middleware)
    async with engine.running(engine.worker(runners={"work": runner})):
        assert await (await work.submit(7)).result(timeout=120) == 7
    headers = "[('one', 'via one'), ('two', 'via two')]"
    assert seen == [
        "one before submitting work {'number': 7}",
        "two before submitting work {'number': 7}",
        "two after submitting",
        "one after submitting",
        f"one before work {headers}",
        f"two before work {headers}",
        "work",
        "two after",
        "one after",
    ]


async def test_middleware_sees_what_a_task_raises(engine, app):
    seen = []
    app.add_middleware(Recorder("one", seen))

    @app.task(name="fail", retries=0)
    def fail() -> None:
        raise ValueError("no")

    runner = FunctionRunner({"fail": fail.function}, threads=1, around=app.middleware)
    async with engine.running(engine.worker(runners={"fail": runner})):
        run = await fail.submit()
        with pytest.raises(rota.RunFailedError, match="ValueError: no"):
            await run.result(timeout=120)
    assert seen[-1] == "one saw no"


async def test_what_middleware_raises_before_a_submission_prevents_it(app, sql):
    class Refusing(rota.Middleware):
        @contextmanager
        def submitting(self, call):
            raise PermissionError(f"not {call.task.name}")
            yield

    app.add_middleware(Refusing())

    @app.task(name="work")
    async def work() -> None: ...

    with pytest.raises(PermissionError, match="not work"):
        await work.submit()
    assert await sql.fetchval("SELECT count(*) FROM rota.runs") == 0


@pytest.fixture
async def isolated(engine, gateway, tmp_path):
    """A worker wired as in production, for an application whose tasks run in processes of their own."""
    settings = Settings(home=tmp_path, processes=2, threads=2)
    runners = Runners(settings, surrounded.app)
    local = worker_gateway(settings, engine.database, shards=64, clock=DatabaseClock())
    worker = engine.worker(runners=runners.by_task, gateways=local.for_run)
    with surrounded.app.using(gateway, ThreadGateway(gateway, asyncio.get_running_loop())):
        async with surrounded.app.living(), ServiceGroup(local.services), engine.running(worker):
            yield
    await runners.close()


async def test_context_variables_and_what_a_lifespan_opens_are_there_in_every_process(isolated):
    token = surrounded.tenant.set("acme")
    try:
        for task in (surrounded.whose, surrounded.whose_sync):
            for _ in range(2):
                assert await (await task.submit()).result(timeout=60) == ("acme", 1)
    finally:
        surrounded.tenant.reset(token)


async def test_an_isolated_task_submits_others_through_its_worker(isolated, engine):
    for task, expected in ((surrounded.parent, 2), (surrounded.parent_sync, 3)):
        run_id, result = await (await task.submit()).result(timeout=60)
        assert result == expected
        run = await engine.run(run_id)
        assert (run["task"], run["owner"]) == ("child", "tester")


async def test_a_refusal_reaches_an_isolated_task_in_its_words(isolated):
    await surrounded.child.with_options(unique_key="taken").after("1h").submit(1)
    with pytest.raises(rota.RunFailedError, match="has this uniqueKey already"):
        await (await surrounded.refused.submit()).result(timeout=60)


async def test_a_lifespan_is_open_while_a_worker_lives():
    app = rota.App()
    seen = []

    @app.lifespan
    async def life():
        seen.append("open")
        yield
        seen.append("closed")

    async with app.living():
        assert seen == ["open"]
    assert seen == ["open", "closed"]
    with pytest.raises(SetupError, match="one `yield`"):

        @app.lifespan
        async def no_life(): ...


async def test_a_task_with_a_context_can_be_called_like_a_function():
    app = rota.App()

    @app.task(name="work")
    async def work(context: rota.Context, number: int) -> tuple[str, int]:
        context.progress(0.5)
        return context.task, number

    assert await work(3) == ("work", 3)
