"""The reporter: writes a lone report at once; where they come in quick succession, it gathers them for a moment.

A slot is free only when the report of its run has been answered, so a worker never runs ahead of what is recorded. A
report whose answer was lost is sent again until it is answered; the broker recognises repeats.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

import msgspec

from rota.broker.protocol import Broker
from rota.domain.run import Outcome, Report
from rota.domain.text import clean_text
from rota.service import Service
from rota.telemetry import get_logger
from rota.worker.run_log import LogWriter

# A report that comes as long as this after the one before is alone: to gather would only make it late.
_GATHER_SECONDS = 0.002
# Under load reports are gathered for longer: fewer and larger batches cost less.
_MANY = 100
_GATHER_MANY_SECONDS = 0.01
_MOST_PER_BATCH = 1000
_log = get_logger("reporter")


class Reporter(Service):
    """Writes reports in batches; calls `on_answered` with those that are done."""

    interval_seconds = None

    def __init__(self, broker: Broker, logs: LogWriter, on_answered: Callable[[list[Report]], None]) -> None:
        super().__init__()
        self._broker = broker
        self._logs = logs
        self._on_answered = on_answered
        self._pending: list[Report] = []
        self._added_at = -math.inf
        self._alone = False
        self._batch: list[Report] = []  # sent, not yet answered
        self._idle = asyncio.Event()
        self._idle.set()
        self._bare: set[int] = set()  # claims whose report is sent again without its data
        self.fenced = 0

    def add(self, report: Report) -> None:
        now = time.monotonic()
        self._alone = not self._pending and now - self._added_at > _GATHER_SECONDS
        self._added_at = now
        self._pending.append(report)
        self._idle.clear()
        self.wake()

    async def wait_idle(self) -> None:
        """Returns when everything queued has been answered."""
        await self._idle.wait()

    async def tick(self) -> int:
        """Writes one batch; an unanswered batch is sent again unchanged."""
        if not (self._batch or self._pending):
            self._idle.set()
            return 0
        batch = self._batch or await self._gather()
        # Readers that follow a log stop when its run ends: all of the log must be there by then.
        await self._logs.send_of(report.claim.number for report in batch)
        answer = await self._broker.report(batch)
        self._batch = []
        self.fenced += len(answer.fenced)
        if answer.fenced:
            _log.warning("late reports were fenced and changed nothing", reports=len(answer.fenced))
        done = batch
        if answer.rejected or self._bare:
            done = [report for report in batch if not self._is_repeated(report, answer.rejected)]
        if done:
            self._on_answered(done)
        self.wake()  # for reports that came meanwhile, or to become idle
        return len(batch)

    async def _gather(self) -> list[Report]:
        if not self._alone:
            await asyncio.sleep(_GATHER_SECONDS)
        if _MANY <= len(self._pending) < _MOST_PER_BATCH:
            await asyncio.sleep(_GATHER_MANY_SECONDS)
        self._batch, self._pending = self._pending[:_MOST_PER_BATCH], self._pending[_MOST_PER_BATCH:]
        return self._batch

    def _is_repeated(self, report: Report, rejected: dict[int, str]) -> bool:
        """Whether a rejected report is sent again, once, without its data."""
        number = report.claim.number
        reason = rejected.get(number)
        if reason is None or number in self._bare:
            if reason:
                _log.error(
                    "a report was rejected twice and is given up", run_id=str(report.claim.run_id), reason=reason
                )
            self._bare.discard(number)
            return False
        self._bare.add(number)
        self.add(_without_data(report, reason))
        return True


def _without_data(report: Report, reason: str) -> Report:
    """A result that can't be stored makes the attempt fail, with an error that can."""
    error = f"the outcome ({report.outcome}) could not be stored: {clean_text(reason)}"
    outcome = Outcome.failed if report.outcome in (Outcome.success, Outcome.snoozed) else report.outcome
    return msgspec.structs.replace(
        report, outcome=outcome, result=None, error=error, traceback=None, checkpoint=None, snooze_seconds=0.0
    )
