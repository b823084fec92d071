"""Two applications in one `rota up`: both are served, each with its schedules, and a failure is told."""

from __future__ import annotations

import pytest

from support import wait_until

SHOP = """
import rota

app = rota.App("shop")


@app.every("1h")
@app.task
def tidy() -> str:
    return "tidy"


@app.task
def sell() -> None:
    raise LookupError("no stock")
"""
MAIL = """
import rota

app = rota.App("mail")


@app.cron("0 3 * * *")
@app.task
async def send() -> str:
    return "sent"
"""


@pytest.fixture
def running(newcomer, tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "mail.py").write_text(MAIL)
    applications = ("--app", "shop:app", "--app", "mail:app")
    with newcomer.running("up", "--workers", "1", *applications, cwd=tmp_path) as background:
        yield newcomer, background
        assert background.stop() == 0, background.said


def test_both_are_served_with_their_schedules_and_a_run_that_fails_for_good_is_told_once(running):
    who, background = running

    def result_of(task, *options):
        return who("submit", task, "--task", task, "--wait", "--json", *options).json

    assert result_of("shop.tidy")["result"] == "tidy"
    assert result_of("mail.send")["result"] == "sent"
    declared = wait_until(lambda: len(found := who.ask("/v1/jobs?status=scheduled")["items"]) == 2 and found)
    assert {job["name"] for job in declared} == {"shop.tidy", "mail.send"}
    assert result_of("shop.sell", "--retries", "1", "--set", '{"retry": {"baseSeconds": 0.01}}')["status"] == "failed"
    wait_until(lambda: "failed for good" in background.said)
    assert background.said.count("shop.sell failed") == 1
    assert "shop.sell failed for good: LookupError: no stock (shop.py, line 15)" in background.said
