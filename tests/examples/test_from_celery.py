"""The shop before and after: Celery and Rota run for real, and what they did is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from stage import EXAMPLES, end

from support import eventually

HERE = EXAMPLES / "from_celery"
INVOICE, REMINDER = "ada: 1190 cents", "reminded after 7 days"
ENOUGH = 2


async def outcome(stage, side, folder: Path):
    """What ordering printed, and the kinds of lines in the outbox, once the schedule has come round more than once."""
    printed = stage.run("-m", f"{side}.order", directory=HERE, SHOP_FOLDER=str(folder))

    def lines():
        outbox = folder / "outbox"
        found = outbox.read_text().splitlines() if outbox.exists() else []
        return found if INVOICE in found and found.count(REMINDER) >= ENOUGH else None

    found = await eventually(lines, within=60)
    return printed, set(found), found.count(INVOICE)


@pytest.fixture
def celery(stage, tmp_path):
    folder = tmp_path / "celery"
    command = ("-m", "celery", "-A", "before.shop", "worker", "-B", "--pool", "solo", "--loglevel", "warning")
    worker = stage.start(*command, directory=HERE, SHOP_FOLDER=str(folder))
    yield folder
    end(worker)


async def test_the_shop_does_the_same_before_and_after(stage, celery, tmp_path):
    folder = tmp_path / "rota"
    with stage.worker("after.shop:app", directory=HERE, SHOP_FOLDER=str(folder)):
        after = await outcome(stage, "after", folder)
        before = await outcome(stage, "before", celery)
    assert before == after == ("[50, 100, 150]\n", {INVOICE, REMINDER}, 1)
