"""The Django example: migrated, served and worked on by real processes, of which the server is killed."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from stage import EXAMPLES, answers, end

from support import eventually, free_port

HERE = EXAMPLES / "django_shop"
COUNT_RUNS = "SELECT count(*) FROM rota.runs WHERE task = 'shop.tasks.confirm'"


@pytest.fixture
async def shop(stage):
    """The project under Django's own server, with chairs in stock."""
    stage.run("manage.py", "migrate", "--verbosity", "0", directory=HERE)
    stage.run("manage.py", "stock", "chair", "1000", directory=HERE)
    stage.run("manage.py", "stock", "table", "0", directory=HERE)
    port = free_port()
    server = stage.start("manage.py", "runserver", "--noreload", str(port), directory=HERE)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
        http.server = server
        yield http
    end(server)


async def order(http, item):
    return await http.post("/orders/", json={"email": "ada@example.com", "item": item})


async def confirmed(http, number):
    return (await http.get(f"/orders/{number}/")).json()["confirmed"]


async def test_orders_and_their_confirmations_are_written_together_when_the_server_is_killed(stage, shop, sql):
    await answers(f"{shop.base_url}/orders/1/", status=404)
    with stage.worker("shop.worker:app", directory=HERE):
        number = (await order(shop, "chair")).json()["order"]
        await eventually(lambda: confirmed(shop, number))
        assert (await order(shop, "table")).status_code == 409
        assert await sql.fetchval(COUNT_RUNS) == 1
        orders = [asyncio.create_task(order(shop, "chair" if number % 3 else "table")) for number in range(60)]
        await asyncio.wait(orders[:10])
        shop.server.kill()
        await asyncio.gather(*orders, return_exceptions=True)
        shop.server.wait()
        items = await sql.fetch("SELECT item_id FROM shop_order")
        assert {row["item_id"] for row in items} == {"chair"}, "a table was ordered, and none is there"
        assert await sql.fetchval(COUNT_RUNS) == len(items)
        await eventually(lambda: sql.fetchval("SELECT bool_and(confirmed) FROM shop_order"))
