"""Calls that are right: type checkers must find nothing here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import rota

app = rota.App("shop", version="1")


@app.lifespan
async def opened() -> AsyncIterator[None]:
    yield


class Tracing(rota.Middleware):
    @contextmanager
    def submitting(self, call: rota.Call[Any]) -> Iterator[None]:
        call.headers["trace"] = "1"
        yield

    @asynccontextmanager
    async def running(self, context: rota.Context) -> AsyncIterator[None]:
        context.logger.info("running")
        yield


@app.task
async def send(to: str, copies: int = 1) -> bool:
    return copies > 0 and bool(to)


@app.task(retries=3, timeout=60, pool="heavy", ordering_key=lambda path, **_: str(path))
def resize(path: str, *, width: int) -> int:
    return width


@app.task(
    retry_on=(ConnectionError, TimeoutError),
    final_on=ValueError,
    rate_limit=rota.RateLimit(limit=10, key=lambda customer: f"customer {customer}"),
    breaker=rota.Breaker(key="mail"),
)
async def bill(customer: int) -> None: ...


@app.cron("0 0 2 * * *", timezone="Europe/Berlin", misfire="skip")
@app.task(name="tidy", transactional=True)
async def tidy(context: rota.Context, older_than: timedelta) -> None:
    await context.connection.execute("SELECT 1")


async def submit() -> None:
    run = await send.submit("ada", copies=2)
    assert_type(await run.result(timeout=timedelta(seconds=5)), bool)
    assert_type(await send("ada"), bool)
    assert_type(resize("a.png", width=3), int)
    later = await resize.at(datetime.now(UTC)).submit("a.png", width=100)
    assert_type(await later.result(), int)
    assert_type(await (await send.after("5m").with_options(priority="high").submit(to="ada")).result(), bool)
    job = await send.cron("@daily", overlap="skip").submit("ada")
    assert_type(job, rota.Job)
    assert_type((await send.every(timedelta(minutes=5), jitter=3).submit("ada")).id, str)
    runs = await send.submit_many(send.call(name) for name in ("a", "b"))
    assert_type(await runs[0].result(), bool)
    assert_type(await (await tidy.submit(timedelta(days=30))).result(), None)
    assert_type(await tidy(older_than=timedelta(days=1)), None)


def submit_sync() -> None:
    assert_type(send.sync.submit("ada").result(timeout=5), bool)
    assert_type(resize.sync.with_options(tags=["x"]).after(5).submit("a", width=1).result(), int)
    assert_type(send.with_options(tags=["x"]).sync.submit("a").result(), bool)
    assert_type(send.after(5).sync.submit("a").result(), bool)
    assert_type(send.every(5).sync.submit("a").id, str)
    assert_type(send.sync.submit_many([send.call("a")])[0].result(), bool)


def ask(client: rota.Client) -> None:
    for job in client.jobs(owner="me"):
        assert_type(job.name, str)
    assert_type(client.submit("x", task="send", payload={"to": "ada"}, priority="low").job_id, str)


async def ask_async(client: rota.AsyncClient) -> None:
    async for run in client.runs(status="failed"):
        assert_type(run.attempt, int)


@app.task
def extract(day: str) -> dict[str, list[str]]:
    return {"files": [day]}


@app.task
async def load(rows: dict[str, list[str]], *, mode: str = "full") -> int:
    return len(rows) + len(mode)


with app.workflow("nightly", cron="0 2 * * *", timezone="Europe/Berlin", inputs={"mode": str}, deadline="2h") as flow:
    rows = extract.node(day=flow.nominal_date)
    assert_type(rows, rota.Node[dict[str, list[str]]])
    assert_type(rows.result, dict[str, list[str]])
    loaded = load.node(rows, mode=flow.input("mode")).after(flow.wait(signal="go", timeout="1h"))
    assert_type(loaded.result, int)
    load.node(rows.result).when((rows["count"] > 0) & ~(flow.input("mode") == "dry"))
    resized = resize.map(rows["files"], max_concurrency=5, path=rota.item, width=rota.item["width"])
    resized.after(loaded, [rows], trigger="all_ended").with_options(key="all", allow_failure=True)
    load.with_options(retries=5).node(rows)


async def start() -> None:
    run = await flow.start(mode="full")
    assert_type(run, rota.WorkflowRun)
    assert_type((await run.result(timeout="5m")).culprit, str | None)
    assert_type(await run.status(), str)
    await run.cancel()


def start_sync() -> None:
    run = flow.sync.start(mode="full")
    assert_type(run.result().name, str)
    run.resume(["load"], generation=1)
