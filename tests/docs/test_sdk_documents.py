"""The code in the documents of the SDK runs."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from textwrap import indent
from types import ModuleType

import pytest

import rota
from rota.intake.definitions import Caller
from rota.intake.door import IntakeDoor
from rota.sdk.describing import describe_app
from rota.sdk.doors import Doors
from rota.store.notifying import Notifier
from rota.store.runs import Runs
from rota.worker.threads import ThreadDoor

DOCS = Path(__file__).parents[2] / "docs"
IMPORTS = """
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
"""
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page):
    return BLOCK.findall((DOCS / page).read_text())


@pytest.fixture
def shop(monkeypatch):
    """A module in which the code of a document runs."""
    module = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)

    def run(code):
        exec(compile(code, "document", "exec", dont_inherit=True), vars(module))  # noqa: S102 - that is the point

    module.run_code = run
    return module


@pytest.fixture
async def everywhere(engine, monkeypatch):
    """Whatever is submitted goes into this test's database."""

    async def whose():
        return Caller("default", "reader")

    door = IntakeDoor(
        intake=engine.api.services.intake,
        runs=Runs(engine.database),
        blobs=engine.blobs,
        notifier=Notifier(engine.database),
        whose=whose,
    )
    sync_door = ThreadDoor(door, asyncio.get_running_loop())
    monkeypatch.setattr(Doors, "open", lambda _doors: door)
    monkeypatch.setattr(Doors, "open_sync", lambda _doors: sync_door)


async def test_the_task_that_came_from_celery_runs(engine, everywhere, shop, sql):
    code = next(block for block in blocks_of("how-to/from-celery.md") if "import rota" in block)
    shop.run_code(code)
    await asyncio.to_thread(shop.order_placed, 7)
    task = shop.send_invoice
    async with engine.running(engine.worker({task.name: task.function})):
        run_id = await sql.fetchval("SELECT id FROM rota.runs WHERE payload LIKE '%copies%'")
        run = await engine.until(f"run_{run_id.hex}", "success")
    assert run["result"] == "order 7, 2 copies, attempt 1"
    assert await sql.fetchval("SELECT count(*) FROM rota.upcoming_runs") == 1


async def test_the_tasks_of_the_reference_can_be_made_and_submitted(everywhere, shop):
    definitions, face, schedules, within, once, middleware, lifespan = blocks_of("reference/tasks.md")
    shop.run_code(definitions)
    shop.order = shop.Order(7, shop.date(2026, 11, 16))
    await asyncio.to_thread(shop.run_code, face.partition("\n")[0])
    assert shop.run.id.startswith("run_")
    shop.run_code(schedules)
    declared = describe_app(shop.app, ("default",)).schedules
    assert [one.name for one in declared] == ["daily", "often", "shop.nightly"]
    shop.run_code(once)
    shop.run_code(lifespan)
    assert shop.app.has_lifespan
    shop.run_code(IMPORTS + middleware)
    assert isinstance(shop.app.middleware[0], rota.Middleware)
    shop.run_code(f"async def example(connection, order):\n{indent(within, '    ')}")
