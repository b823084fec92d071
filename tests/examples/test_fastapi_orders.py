"""The FastAPI example: its own tests, and the whole of it in processes of which one is killed."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from stage import EXAMPLES, answers, end

from support import eventually, free_port

HERE = EXAMPLES / "fastapi_orders"
COUNT_RUNS = "SELECT count(*) FROM rota.runs WHERE task = 'orders.tasks.confirm'"


@pytest.fixture
async def shop(stage, sql):
    """The application under uvicorn, with chairs in stock."""
    port = free_port()
    command = ("-m", "uvicorn", "orders.api:api", "--port", str(port), "--log-level", "warning")
    server = stage.start(*command, directory=HERE)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
        await answers(f"http://127.0.0.1:{port}/openapi.json")
        assert (await http.put("/stock/chair?count=1000")).is_success
        http.server = server
        yield http
    end(server)


async def order(http, item):
    return await http.post("/orders", json={"email": "ada@example.com", "item": item})


async def watch_one(shop):
    """Orders a chair and follows its confirmation."""
    number = (await order(shop, "chair")).json()["order"]

    async def confirmed():
        found = (await shop.get(f"/orders/{number}")).json()
        return found if found["confirmed"] and found["status"] == "success" else None

    return await eventually(confirmed)


async def test_every_order_has_its_confirmation_when_the_server_is_killed(stage, shop, sql):
    with stage.worker("orders.tasks:app", directory=HERE):
        assert (await watch_one(shop))["result"] == "chair for ada@example.com"
        assert (await shop.get("/orders/4711")).status_code == 404
        orders = [asyncio.create_task(order(shop, "chair" if number % 3 else "table")) for number in range(60)]
        await asyncio.wait(orders[:20])
        shop.server.kill()
        answered = await asyncio.gather(*orders, return_exceptions=True)
        shop.server.wait()
        told = {answer.json()["order"] for answer in answered if getattr(answer, "status_code", 0) == 201}
        rows = await sql.fetch("SELECT id, item, run_id FROM orders")
        assert {row["item"] for row in rows} == {"chair"}, "a table was ordered, and none is there"
        assert told <= {row["id"] for row in rows}
        assert await sql.fetchval(COUNT_RUNS) == len(rows)
        await eventually(lambda: sql.fetchval("SELECT bool_and(confirmed) FROM orders"))
