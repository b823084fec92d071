"""Nights of the pipeline, in a time that the test moves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pipeline
import pytest
from make_orders import make_orders

import rota
from rota.testing import Kit


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of each test's own."""
    monkeypatch.setattr(pipeline, "DATA", tmp_path)
    monkeypatch.setattr("make_orders.DATA", tmp_path)


def total(day: str) -> Any:
    """What was loaded of a day."""
    return json.loads((pipeline.DATA / "totals" / f"{day}.json").read_text())


async def test_each_night_loads_its_own_day_and_tolerates_a_broken_file(rota_kit: Kit) -> None:
    """Two o'clock in Berlin is one o'clock UTC in January."""
    await rota_kit.travel_to(datetime(2027, 1, 30, 12, tzinfo=UTC))
    for day in ("2027-01-31", "2027-02-01"):
        make_orders(day)
    await rota_kit.advance(days=2)
    runs = await rota_kit.workflow_runs(pipeline.nightly)
    assert [(run.status, run.start_time.strftime("%d %H:%M")) for run in runs] == [
        ("success", "31 01:00"),
        ("success", "01 01:00"),
    ]
    assert total("2027-02-01") == {"day": "2027-02-01", "cents": 500, "files": 5, "broken": 1}
    assert {key: node.status for key, node in (runs[0].nodes or {}).items()} == {
        "find_files": "success",
        "clean": "success",
        "load": "success",
        "tell_success": "success",
        "tell_failure": "skipped",
    }


async def test_a_night_without_files_loads_nothing(rota_kit: Kit) -> None:
    """The condition skips the load, and that is no failure."""
    run = await pipeline.nightly.run()
    skipped = {key for key, node in (run.nodes or {}).items() if node.status == "skipped"}
    assert skipped == {"load", "tell_success", "tell_failure"}
    assert await rota_kit.runs(pipeline.load) == []


async def test_too_many_broken_files_fail_the_night_which_goes_on_when_they_are_mended(rota_kit: Kit) -> None:
    """Only the files that failed are cleaned again."""
    day = rota_kit.now.date().isoformat()
    make_orders(day, broken=3)
    run = await pipeline.nightly.start()
    with pytest.raises(rota.WorkflowFailedError, match="clean failed"):
        await run.result()
    assert len(await rota_kit.runs(pipeline.tell)) == 1
    for number in range(3):
        (pipeline.DATA / "orders" / f"{day}-broken-{number}.json").write_text('[{"id": 1, "cents": 50}]')
    await run.resume()
    await run.result()
    assert total(day)["cents"] == 650
    assert len(await rota_kit.runs(pipeline.clean)) == 8 + 3


async def test_a_day_is_done_again_once_someone_has_approved(rota_kit: Kit) -> None:
    """Nothing is written before."""
    make_orders("2027-01-31", broken=0)
    run = await pipeline.again.start(day="2027-01-31")
    await rota_kit.advance(hours=5)
    assert not (pipeline.DATA / "clean").exists()
    await rota_kit.approve(run, "approval", comment="go ahead")
    assert (await run.result()).status == "success"
    assert total("2027-01-31")["cents"] == 500
