"""What a person sees of failures in a worker's log: a line for each run that failed for good.

Attempts that are repeated are not failures yet; they are told only where that is asked for. When thousands fail, lines
would bury everything else: after the first few of each stretch of time, the others are counted.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rota.domain.ids import show_run
from rota.domain.run import Disposition, Outcome, Report
from rota.service import Service
from rota.telemetry import get_logger
from rota.worker.executor import is_ours

MOST_LINES = 10  # in one stretch
STRETCH_SECONDS = 10.0
_MOST_NAMED = 5
_FAILED = (Outcome.failed, Outcome.final, Outcome.timed_out)
_STOPPED = (Outcome.interrupted, Outcome.cut_off)  # a failure if the run may not be repeated
_LONGEST_LINE = 500
_PLACE = re.compile(r'^[ |]*File "([^"]+)", line (\d+)', re.MULTILINE)
_log = get_logger("worker")


class FailureLog(Service):
    """Logs failures; a round ends a stretch of time, and tells how many were only counted."""

    interval_seconds = STRETCH_SECONDS
    jitter = 0

    def __init__(self, *, every_attempt: bool = False, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_attempt = every_attempt
        self._monotonic = monotonic
        self._since: float | None = None
        self._lines = 0
        self._counted: Counter[str] = Counter()

    @property
    def pause_seconds(self) -> float | None:
        """Until the stretch is over."""
        return None if self._since is None else self.interval_seconds

    def note(self, report: Report) -> None:
        """Logs or counts an attempt that ended, if it is a failure."""
        if report.outcome not in _FAILED and report.outcome not in _STOPPED:
            return
        is_last = report.verdict().disposition is Disposition.bury
        if not is_last and (not self._every_attempt or report.outcome in _STOPPED):
            return
        if self._since is None:
            self._since = self._monotonic()
            self.wake()
        if self._lines < MOST_LINES:
            self._lines += 1
            _tell(report, is_last=is_last)
        else:
            self._counted[report.claim.task] += 1

    async def tick(self) -> int:
        """Ends the stretch if it is over."""
        if self._since is None or self._monotonic() - self._since < self.interval_seconds:
            return 0
        return self._sum_up()

    async def close(self) -> None:
        """Tells what was only counted so far."""
        self._sum_up()

    def _sum_up(self) -> int:
        counted, self._counted = self._counted, Counter()
        self._since, self._lines = None, 0
        if counted:
            named = [f"{task} ({count})" for task, count in counted.most_common(_MOST_NAMED)]
            more = ", …" if len(counted) > _MOST_NAMED else ""
            _log.warning(
                f"{counted.total()} more failed", tasks=", ".join(named) + more, within_seconds=STRETCH_SECONDS
            )
        return counted.total()


def _tell(report: Report, *, is_last: bool) -> None:
    """One line: the task, its error and, if known, the line of code."""
    claim = report.claim
    _log.warning(
        f"{claim.task} failed{' for good' if is_last else ''}: {_first_line(report.error)}{_place(report.traceback)}",
        attempt=claim.attempt + 1,
        run_id=show_run(claim.run_id),
    )


def _first_line(error: str | None) -> str:
    return next(iter((error or "").strip().splitlines()), "no message")[:_LONGEST_LINE]


def _place(trace: str | None) -> str:
    """The last line in the traceback that is not Rota's own."""
    found = [place for place in _PLACE.findall(trace or "") if not is_ours(place[0])]
    return f" ({Path(found[-1][0]).name}, line {found[-1][1]})" if found else ""
