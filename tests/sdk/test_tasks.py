"""Tasks: called as before, submitted with their own arguments, their results as their own types."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID, uuid4

import msgspec
import pydantic
import pytest

import rota
from rota.errors import BadInputError, SetupError
from rota.task.arguments import ArgumentsError


class Colour(Enum):
    red = "red"


@dataclass
class Address:
    street: str
    since: date


class Order(msgspec.Struct):
    id: UUID
    total: Decimal
    placed: datetime


class Person(pydantic.BaseModel):
    name: str
    born: date


@pytest.fixture
async def serving(engine, app):
    """Runs the tasks of the application; they must be made before it is used."""

    async def serve(**options):
        worker = engine.worker({name: task.function for name, task in app.tasks.items()}, **options)
        return engine.running(worker)

    return serve


async def test_a_task_is_called_as_before(app):
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    @app.task(name="half")
    def half(number: int) -> float:
        """Halves."""
        return number / 2

    assert await double(4) == 8
    assert half(4) == 2
    assert half.__doc__ == "Halves."
    assert half.__name__ == "half"


async def test_a_submission_comes_back_with_what_the_task_returned(app, serving):
    @app.task
    async def place(order: Order, address: Address, colour: Colour, person: Person, *, gift: bool = False) -> Order:
        assert isinstance(address, Address)
        assert isinstance(person, Person)
        assert colour is Colour.red
        assert gift
        return msgspec.structs.replace(order, total=order.total * 2)

    order = Order(uuid4(), Decimal("9.90"), datetime.now(UTC))
    async with await serving():
        run = await place.submit(
            order,
            Address("Main Street", date(2020, 1, 1)),
            colour=Colour.red,
            person=Person(name="Ada", born="1815-12-10"),
            gift=True,
        )
        assert await run.result(timeout=120) == Order(order.id, Decimal("19.80"), order.placed)
        assert await run.status() == "success"


async def test_the_sync_face_has_the_same_names(app, serving):
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with await serving():
        run = await asyncio.to_thread(double.sync.submit, 4)
        assert await asyncio.to_thread(run.result, timeout=120) == 8
        many = await asyncio.to_thread(double.sync.submit_many, [double.call(n) for n in range(3)])
        assert [await asyncio.to_thread(run.result, 30) for run in many] == [0, 2, 4]


async def test_a_failure_comes_back_as_an_error_with_its_words(app, serving):
    @app.task(retries=0)
    async def fail() -> None:
        raise ValueError("no such thing")

    async with await serving():
        run = await fail.submit()
        with pytest.raises(rota.RunFailedError, match="ValueError: no such thing") as caught:
            await run.result(timeout="30s")
    assert (caught.value.status, caught.value.run_id) == ("failed", run.id)
    assert "no such thing" in caught.value.traceback


async def test_whoever_waits_for_too_long_is_told_how_it_stands(app):
    @app.task
    async def nobody_runs_me() -> None: ...

    run = await nobody_runs_me.submit()
    with pytest.raises(TimeoutError, match="it is queued"):
        await run.result(timeout=timedelta(seconds=0.05))
    await run.cancel()
    with pytest.raises(rota.RunFailedError, match="cancelled"):
        await run.result()


@pytest.mark.parametrize(
    ("arguments", "keywords", "words"),
    [
        (("one",), {}, "Expected `int`, got `str` - for `number`"),
        ((), {}, "missing a required argument: 'number'"),
        ((1,), {"colour": "red"}, "there is no parameter 'colour'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((object(),), {}, "object is not a supported type"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_before_anything_is_submitted(app, sql, arguments, keywords, words):
    @app.task
    async def double(number: int, times: int = 2) -> int:
        return times * number

    with pytest.raises(ArgumentsError, match=words):
        await double.submit(*arguments, **keywords)
    assert await sql.fetchval("SELECT count(*) FROM rota.runs") == 0


async def test_a_payload_that_does_not_fit_fails_for_good_and_says_why(app, engine, serving):
    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    async with await serving():
        for payload, words in (
            ({"number": "4"}, "Expected `int`, got `str` - for `number`"),
            ({}, "there is no value for the parameter `number`"),
            ({"number": 4, "factor": 3}, "there is no parameter 'factor'"),
        ):
            run = await engine.until(await engine.submit(task="double", payload=payload), "failed")
            assert words in run["error"]
            assert run["attempt"] == 1


async def test_times_and_schedules_are_said_in_a_chain(app, engine, sql):
    @app.task(pool="mail", retries=7, timeout="90s", ordering_key=lambda to: f"to {to}")
    async def send(to: str) -> None: ...

    soon = datetime.now(UTC) + timedelta(hours=1)
    at = await engine.run((await send.at(soon).submit("a")).id)
    after = await engine.run((await send.after("2h").submit("b")).id)
    urgent = send.with_options(priority="critical", tags=["now"], name="urgent mail", ordering_key="other")
    now = await engine.run((await urgent.submit(to="c")).id)
    assert datetime.fromisoformat(at["scheduledTime"]) == soon
    assert datetime.fromisoformat(after["scheduledTime"]) > soon + timedelta(minutes=59)
    assert (at["name"], at["pool"], at["maxRetries"], at["timeoutSeconds"]) == (send.name, "mail", 7, 90.0)
    assert (now["name"], now["priority"], now["tags"], now["maxRetries"]) == ("urgent mail", "critical", ["now"], 7)
    keys = await sql.fetch("SELECT payload, policies ->> 'order' AS key FROM rota.runs")
    assert {row["payload"]: row["key"] for row in keys} == {
        '{"to":"a"}': "to a",
        '{"to":"b"}': "to b",
        '{"to":"c"}': "other",
    }
    every = await send.every("15m", jitter=5).submit("d")
    cron = await send.cron("0 0 2 * * *", timezone="Europe/Berlin", overlap="skip").submit(to="e")
    shown = [(await engine.api.get(f"/v1/jobs/{job.id}")).json() for job in (every, cron)]
    assert (shown[0]["everySeconds"], shown[0]["jitterSeconds"]) == (900.0, 5.0)
    assert (shown[1]["cronExpression"], shown[1]["timezone"]) == ("0 0 2 * * *", "Europe/Berlin")
    assert (shown[1]["overlap"], shown[1]["payload"]) == ("skip", {"to": "e"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": "soon"}, "'soon' is not a duration"),
        ({"priority": "urgent"}, "priority: must be one of critical, high, normal, low"),
        ({"retries": -1}, "maxRetries: must be >= 0"),
        ({"rate_limit": "many"}, "'many' is not a rate"),
        ({"pool": "no pool"}, "pool: may hold letters"),
    ],
)
async def test_an_option_that_can_not_be_is_refused_with_its_name(app, options, words):
    @app.task
    async def work() -> None: ...

    with pytest.raises(BadInputError, match=words):
        await work.with_options(**options).submit()


async def test_a_time_without_a_zone_is_refused(app):
    @app.task
    async def work() -> None: ...

    with pytest.raises(BadInputError, match="has no time zone"):
        work.at(datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused


async def test_many_go_together_and_those_that_are_not_accepted_are_named(app, sql):
    @app.task
    async def work(number: int) -> int:
        return number

    runs = await work.submit_many(work.call(number) for number in range(100))
    assert len({run.id for run in runs}) == 100
    only = work.with_options(unique_key="one")
    with pytest.raises(rota.NotAcceptedError, match=r"1 of 3 were not accepted; the first: job_.* has this") as caught:
        await work.submit_many([work.call(1), only.call(2), only.call(3)])
    assert [isinstance(result, rota.Run) for result in caught.value.results] == [True, True, False]
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 102


async def test_a_repeat_with_the_same_key_is_the_same_run(app):
    @app.task
    async def work(number: int) -> int:
        return number

    once = work.with_options(idempotency_key="once").after(60)
    first, second = await once.submit(1), await once.submit(1)
    assert first.id == second.id


async def test_a_task_submits_others_from_wherever_it_runs(app, engine, serving):
    @app.task(name="child")
    async def child(number: int) -> int:
        return number + 1

    @app.task
    async def asynchronous() -> int:
        return await (await child.submit(1)).result(timeout=120)

    @app.task
    def threaded() -> int:
        return child.sync.submit(2).result(timeout=120)

    @app.task(retries=0)
    async def wrong() -> None:
        child.sync.submit(3)

    async with await serving():
        assert await (await asynchronous.submit()).result(timeout=120) == 2
        assert await (await threaded.submit()).result(timeout=120) == 3
        with pytest.raises(rota.RunFailedError, match=r"leave out `\.sync`"):
            await (await wrong.submit()).result(timeout=120)


def test_what_can_not_be_a_task_is_refused_at_once():
    app = rota.App()
    with pytest.raises(SetupError, match="has a parameter without a name"):

        @app.task
        def spread(*numbers: int) -> None: ...

    with pytest.raises(SetupError, match="reserved"):
        app.task(name="http")(lambda: None)
    app.task(name="a")(lambda: None)
    with pytest.raises(SetupError, match="Two tasks"):
        app.task(name="a")(lambda: None)
    with pytest.raises(SetupError, match="can't be transactional"):
        app.task(transactional=True, isolation="process")(lambda: None)


async def test_options_and_times_come_before_or_after_sync(app, sql):
    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    await asyncio.to_thread(double.with_options(priority="high").sync.submit, 1)
    await asyncio.to_thread(double.after("1h").sync.with_options(tags=["x"]).submit, 2)
    await asyncio.to_thread(double.cron("@daily").with_options(priority="low").sync.submit, 3)
    found = await sql.fetch("SELECT payload, priority, tags, run_at > now() AS later FROM rota.runs ORDER BY payload")
    assert [tuple(row) for row in found] == [('{"number":1}', 1, [], False), ('{"number":2}', 0, ["x"], True)]
    assert [tuple(row) for row in await sql.fetch("SELECT payload, cron_expression, priority FROM rota.jobs")] == [
        ('{"number":3}', "@daily", -1)
    ]
