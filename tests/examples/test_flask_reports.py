"""The Flask example: a report is watched, loses its worker, and is downloaded."""

from __future__ import annotations

import httpx
import pytest
from stage import EXAMPLES, answers, end

from support import eventually, free_port

HERE = EXAMPLES / "flask_reports"
ROWS = 400


@pytest.fixture(scope="module")
def site(whole_stage):
    """The address of the site, under Flask's own server."""
    port = free_port()
    server = whole_stage.start("-m", "flask", "--app", "web:web", "run", "--port", str(port), directory=HERE)
    yield f"http://127.0.0.1:{port}"
    end(server)


@pytest.fixture
async def pages(stage, site):
    """A visitor."""
    await answers(site)
    async with httpx.AsyncClient(base_url=site, timeout=60) as http:
        yield http


async def test_a_report_is_watched_and_downloaded_though_its_worker_is_killed(stage, pages):
    form = {"month": "2026-11", "rows": str(ROWS)}
    report = (await pages.post("/reports", data=form)).headers["Location"]
    again = (await pages.post("/reports", data=form)).headers["Location"]
    assert again == report, "a second one was made while the first waits"
    assert f"{report}/state" in (await pages.get(report)).text

    async def seen(*wanted):
        state = (await pages.get(f"{report}/state")).json()
        return state["status"] in wanted and (state["progress"] or "0%") != "0%" and state

    with stage.worker("reports:app", directory=HERE) as worker:
        assert "row" in (await eventually(lambda: seen("running")))["message"]
        assert (await pages.get(f"{report}/download")).status_code == 404
        worker.kill()
        worker.wait()
    with stage.worker("reports:app", directory=HERE):
        await eventually(lambda: seen("success"), within=60)
    answer = await pages.get(f"{report}/download")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="2026-11.csv"'
    assert len(answer.text.splitlines()) == ROWS + 1


async def test_what_is_not_a_report_is_not_shown(pages):
    assert (await pages.get("/reports/run_01a1e50f6d07711d92f685a848804f39")).status_code == 200
    assert (await pages.get("/reports/run_01a1e50f6d07711d92f685a848804f39/state")).status_code == 404
    assert (await pages.post("/reports", data={"month": "soon"})).status_code == 400
