"""The reporter: results gathered for a moment and written together.

A slot is free only when the report of its run has been answered, so a worker never runs ahead of what is recorded. A
report whose answer was lost is sent again until it is answered; the broker tells a repeat from a stranger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from rota.broker.protocol import Broker, Report
from rota.domain.run import Outcome
from rota.domain.text import clean_text
from rota.errors import DatabaseUnavailableError
from rota.telemetry import get_logger
from rota.worker.run_log import LogWriter

GATHER_SECONDS = 0.002
# Where reports come thick they are gathered for longer: fewer and larger batches cost everybody less.
MANY = 100
GATHER_MANY_SECONDS = 0.01
MOST_PER_BATCH = 1000
TRY_AGAIN_SECONDS = 0.2
_log = get_logger("reporter")


class Reporter:
    """Writes reports in batches; calls `on_answered` with each batch that is done with."""

    def __init__(self, broker: Broker, logs: LogWriter, on_answered: Callable[[list[Report]], None]) -> None:
        self._broker = broker
        self._logs = logs
        self._on_answered = on_answered
        self._pending: list[Report] = []
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._bare: set[int] = set()
        self.fenced = 0

    def add(self, report: Report) -> None:
        """Queues a report."""
        self._pending.append(report)
        self._idle.clear()
        self._some.set()

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(GATHER_SECONDS)
            if MANY <= len(self._pending) < MOST_PER_BATCH:
                await asyncio.sleep(GATHER_MANY_SECONDS)
            batch, self._pending = self._pending[:MOST_PER_BATCH], self._pending[MOST_PER_BATCH:]
            if not self._pending:
                self._some.clear()
            await self._write(batch)
            if not self._pending:
                self._idle.set()

    async def wait_idle(self) -> None:
        """Returns when everything queued has been answered."""
        await self._idle.wait()

    async def _write(self, batch: list[Report]) -> None:
        while True:
            try:
                # Whoever follows a log stops when the run has ended: all of it must be there by then.
                await self._logs.send_of(report.claim.number for report in batch)
                answer = await self._broker.report(batch)
                break
            except DatabaseUnavailableError as error:
                _log.info("reports not answered; sending them again", reports=len(batch), error=str(error))
            except Exception:  # noqa: BLE001 - what was done must not be forgotten; logged whole
                _log.exception("reports failed; sending them again", reports=len(batch))
            await asyncio.sleep(TRY_AGAIN_SECONDS)
        self.fenced += len(answer.fenced)
        if answer.fenced:
            _log.warning("reports came too late and changed nothing", reports=len(answer.fenced))
        done = batch
        if answer.rejected or self._bare:
            done = [report for report in batch if not self._is_repeated(report, answer.rejected)]
        if done:
            self._on_answered(done)

    def _is_repeated(self, report: Report, rejected: dict[int, str]) -> bool:
        """A report that was refused for its data is told again without it, once."""
        number = report.claim.number
        reason = rejected.get(number)
        if reason is None or number in self._bare:
            if reason:
                _log.error("a report was refused again and is given up", run_id=str(report.claim.run_id), reason=reason)
            self._bare.discard(number)
            return False
        self._bare.add(number)
        self.add(_without_data(report, reason))
        return True


def _without_data(report: Report, reason: str) -> Report:
    """What can't be stored is a failure of the run, told in words that can."""
    error = f"the outcome ({report.outcome}) could not be stored: {clean_text(reason)}"
    outcome = Outcome.failed if report.outcome in (Outcome.success, Outcome.snoozed) else report.outcome
    return msgspec.structs.replace(
        report, outcome=outcome, result=None, error=error, traceback=None, checkpoint=None, snooze_seconds=0.0
    )
