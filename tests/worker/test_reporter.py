"""The reporter: a lone report goes at once, and what comes while one is written goes with the next."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from engine import report
from rota.broker.protocol import ReportReceipt
from rota.domain.run import Claim
from rota.service import ServiceGroup
from rota.worker import reporter as reporter_module
from rota.worker.reporter import Reporter
from rota.worker.run_log import LogWriter
from support import eventually


class GatedBroker:
    """Takes reports, and answers while its gate is open."""

    def __init__(self):
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def report(self, reports):
        self.batches.append([one.claim.number for one in reports])
        await self.gate.wait()
        return ReportReceipt()


@pytest.fixture
def broker():
    return GatedBroker()


@pytest.fixture
async def reporting(broker):
    """A reporter that runs: reporting(1, 2) gives it the reports of these claims."""
    reporter = Reporter(broker, LogWriter(broker), lambda _done: None)

    def add(*numbers):
        for number in numbers:
            reporter.add(report(claim(number)))

    add.until_idle = reporter.wait_idle
    async with ServiceGroup([reporter]):
        yield add


def claim(number):
    return Claim("default", uuid4(), uuid4(), number, "t", 0, None, None, "{}", None, 0.0, 0.0, 0, 0)


async def test_a_lone_report_is_not_kept_to_gather_others(broker, reporting, monkeypatch):
    monkeypatch.setattr(reporter_module, "_GATHER_SECONDS", 3600.0)
    reporting(1)
    await eventually(lambda: broker.batches == [[1]])


async def test_what_comes_while_a_report_is_written_goes_with_the_next(broker, reporting):
    broker.gate.clear()
    reporting(1)
    await eventually(lambda: broker.batches == [[1]])
    reporting(2, 3)
    reporting(4)
    broker.gate.set()
    await reporting.until_idle()
    assert broker.batches == [[1], [2, 3, 4]]


async def test_reports_that_come_together_go_together(broker, reporting):
    reporting(1, 2, 3)
    await reporting.until_idle()
    assert broker.batches == [[1, 2, 3]]


async def test_the_second_in_quick_succession_is_gathered_with_those_that_follow(broker, reporting, monkeypatch):
    monkeypatch.setattr(reporter_module, "_GATHER_SECONDS", 2.0)
    reporting(1)
    await eventually(lambda: broker.batches == [[1]])
    reporting(2)
    for _ in range(20):
        await asyncio.sleep(0)
    reporting(3)
    await reporting.until_idle()
    assert broker.batches == [[1], [2, 3]]
