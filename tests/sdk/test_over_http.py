"""An application that submits over HTTP, as programs do that are no workers."""

from __future__ import annotations

import asyncio

import pytest

import rota
from listening import TOKEN


@pytest.fixture
async def shop(server):
    app = rota.App("shop", url=server.url, token=TOKEN)

    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    app.double = double
    yield app
    await app.close()


async def test_runs_are_submitted_awaited_and_cancelled(engine, shop):
    with_worker = engine.running(engine.worker({"double": shop.double.function}))
    async with with_worker:
        assert await (await shop.double.submit(4)).result(timeout=120) == 8
        runs = await shop.double.submit_many(shop.double.call(number) for number in range(5))
        assert [await run.result(timeout=120) for run in runs] == [0, 2, 4, 6, 8]
    waiting = await shop.double.after("1h").submit(5)
    assert await waiting.status() == "scheduled"
    with pytest.raises(TimeoutError, match="it is scheduled"):
        await waiting.result(timeout=0.05)
    await waiting.cancel()
    with pytest.raises(rota.RunFailedError, match="cancelled on request"):
        await waiting.result(timeout=120)


async def test_the_sync_face_speaks_http_too(engine, shop):
    def use():
        run = shop.double.sync.submit(4)
        return run.result(timeout=120), run.status()

    async with engine.running(engine.worker({"double": shop.double.function})):
        assert await asyncio.to_thread(use) == (8, "success")


async def test_what_the_server_refuses_is_raised_in_its_words(shop):
    only = shop.double.with_options(unique_key="one").after("1h")
    await only.submit(1)
    with pytest.raises(rota.RotaError, match="has this uniqueKey already"):
        await only.submit(1)
    with pytest.raises(rota.RotaError, match=r"never fires|not within"):
        await shop.double.cron("61 * * * *").submit(1)


def test_an_app_can_be_used_in_one_event_loop_after_another(request):
    app = rota.App(url="http://127.0.0.1:9", token="x")  # noqa: S106 - nobody listens there

    @app.task
    async def work() -> None: ...

    async def submit():
        try:
            with pytest.raises(rota.RotaError, match="no Rota server answers"):
                await work.submit()
        finally:
            await app.close()

    for _ in range(2):
        asyncio.run(submit())
