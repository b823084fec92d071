"""What the signature of a task asks of its arguments."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import rota
from rota.errors import SetupError
from rota.task.arguments import ArgumentsError

if TYPE_CHECKING:
    from somewhere import OnlyForCheckers


@pytest.mark.parametrize(
    ("key", "arguments", "keywords", "made"),
    [
        (lambda order, copies: f"{order} x {copies}", (7, 2), {}, "7 x 2"),
        (lambda order, copies: f"{order} x {copies}", (7,), {"copies": 3}, "7 x 3"),
        (lambda order, copies: f"{order} x {copies}", (), {"order": 7}, "7 x 1"),
        (lambda order: f"order {order}", (7, 2, "now"), {}, "order 7"),
        (lambda note: f"note {note}", (7,), {}, "note none"),
        (lambda order, **others: f"{order} {sorted(others)}", (7, 2), {}, "7 ['copies', 'note']"),
        (lambda **everything: str(sorted(everything)), (7,), {}, "['copies', 'note', 'order']"),
        (lambda copies, order, elsewhere="here": f"{copies} {order} {elsewhere}", (7, 2), {}, "2 7 here"),
    ],
)
async def test_a_key_is_made_of_those_arguments_it_asks_for(app, sql, key, arguments, keywords, made):
    @app.task(name="confirm", ordering_key=key)
    async def confirm(order: int, copies: int = 1, note: str = "none") -> None: ...

    await confirm.submit(*arguments, **keywords)
    assert await sql.fetchval("SELECT policies ->> 'order' FROM rota.runs") == made


@dataclass
class Address:
    street: str


async def tidy(address: Address, whatever: OnlyForCheckers, number: int) -> list:
    return [type(address).__name__, whatever, number]


async def test_an_annotation_for_type_checkers_only_leaves_the_others_as_they_are(app, engine):
    task = app.task(name="tidy")(tidy)
    with pytest.raises(ArgumentsError, match="Expected `int`, got `str` - for `number`"):
        await task.submit(Address("here"), "anything", "one")
    run = await task.submit(Address("here"), {"any": "thing"}, 1)
    async with engine.running(engine.worker({"tidy": tidy})):
        assert await run.result(timeout=120) == ["Address", {"any": "thing"}, 1]


@pytest.mark.parametrize("name", [None, "partial"])
def test_a_partial_is_refused_in_words(name):
    app = rota.App()
    with pytest.raises(SetupError, match=r"Only a named function can be a task; wrap functools\.partial\(.*\) in one"):
        app.task(name=name)(functools.partial(tidy, number=3))


async def test_the_rest_of_the_arguments_is_checked(app, engine):
    @app.task(name="count")
    async def count(first: int, **rest: int) -> int:
        return first + sum(rest.values())

    with pytest.raises(ArgumentsError, match="Expected `int`, got `str`"):
        await count.submit(1, second="two")
    async with engine.running(engine.worker({"count": count.function})):
        assert await (await count.submit(1, second=2, third=3)).result(timeout=120) == 6
        run = await engine.until(await engine.submit(task="count", payload={"first": 1, "second": "two"}), "failed")
    assert (run["attempt"], "Expected `int`, got `str`" in run["error"]) == (1, True)


SOURCE = """
@dataclass
class Part:
    {length}: int = 0

{kind} measure({size}: int, part: Part) -> list[int]:
    return [{size}, part.{length}]
"""


@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_parameters_and_fields_have_names_in_any_script(engine, kind):
    # Names that nothing in this process has written as JSON yet, as in a worker's own process.
    size, length = f"größe_{len(kind)}", f"länge_{len(kind)}"
    names = {"dataclass": dataclass}
    exec(SOURCE.format(kind=kind, size=size, length=length), names)  # noqa: S102 - the text above
    async with engine.running(engine.worker({"measure": names["measure"]})):
        run_id = await engine.submit(task="measure", payload={size: 3, "part": {length: 4}})
        run = await engine.until(run_id, "success", "failed")
    assert (run["status"], run["result"]) == ("success", [3, 4])


async def test_the_key_of_a_rate_or_a_breaker_is_made_of_the_arguments(app, sql):
    @app.task(
        name="call",
        rate_limit=rota.RateLimit(limit=3, per_seconds=60, key=lambda customer: f"customer {customer}"),
        breaker=rota.Breaker(failures=2, key=lambda host, **_: host),
    )
    async def call(customer: int, host: str = "here") -> None: ...

    await call.submit(7)
    await call.submit_many([call.call(8, host="there")])
    rows = await sql.fetch("SELECT policies ->> 'rate' AS rate, policies ->> 'breaker' AS breaker FROM rota.runs")
    assert sorted(map(tuple, rows)) == [("key:customer 7", "key:here"), ("key:customer 8", "key:there")]
    with pytest.raises(SetupError, match="limit"):
        app.task(name="other", rate_limit=rota.RateLimit(limit=0, key=lambda customer: customer))
