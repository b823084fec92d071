"""The application in one process with its jobs: HTTP without a socket, and Rota's test kit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient
from orders.api import api, open_client
from orders.tasks import confirm

from rota.testing import Kit, RunRecord


class RunsOfKit:
    """Looks runs up in the test's kit, where there is no server to ask."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def run(self, run_id: str) -> RunRecord:
        """As the client's."""
        return next(run for run in await self._kit.runs() if run.run_id == run_id)


@pytest.fixture(autouse=True)
def _database(rota_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests and tasks use the kit's database."""
    monkeypatch.setenv("DATABASE_URL", rota_database_url)
    monkeypatch.setenv("ROTA_TOKEN", "unused")


@pytest.fixture
async def http(_database: None, rota_kit: Kit, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """The API, with one chair in stock."""
    monkeypatch.setitem(api.dependency_overrides, open_client, lambda: RunsOfKit(rota_kit))
    async with api.router.lifespan_context(api), AsyncClient(transport=ASGITransport(api), base_url="http://t") as http:
        await http.put("/stock/chair?count=1")
        yield http


async def test_an_order_is_confirmed(http: AsyncClient, rota_kit: Kit) -> None:
    """Its confirmation is there as soon as it is, and runs when it is told to."""
    order = await place(http, "chair")
    before = (await http.get(f"/orders/{order['order']}")).json()
    assert (before["confirmed"], before["status"]) == (False, "queued")
    await rota_kit.run_until_idle(raise_errors=True)
    after = (await http.get(f"/orders/{order['order']}")).json()
    assert after == {"item": "chair", "confirmed": True, "status": "success", "result": "chair for ada@example.com"}


async def test_an_order_that_is_refused_leaves_nothing(http: AsyncClient, rota_kit: Kit) -> None:
    """The confirmation was submitted before it turned out that there is no table."""
    assert await place(http, "table", status=409) == {"detail": "there is no table left"}
    assert (await http.get("/orders/1")).status_code == 404
    await rota_kit.assert_not_submitted(confirm)


async def place(http: AsyncClient, item: str, *, status: int = 201) -> Any:
    """Orders something."""
    answer = await http.post("/orders", json={"email": "ada@example.com", "item": item})
    assert answer.status_code == status, answer.text
    return answer.json()
