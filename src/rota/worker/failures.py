"""A line in the worker's own log for each attempt that fails: for whoever writes tasks and watches them."""

from __future__ import annotations

import re
from pathlib import Path

from rota.broker.protocol import Report
from rota.domain.ids import show_run
from rota.telemetry import get_logger

LONGEST = 500
_PLACE = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
_OURS = Path(__file__).parents[1]
_log = get_logger("worker")


def tell_failure(report: Report) -> None:
    """Says what failed with which error, and where in the code if that is known."""
    claim = report.claim
    _log.warning(
        f"{claim.task} failed: {_first_line(report.error)}{_place(report.traceback)}",
        attempt=claim.attempt + 1,
        run_id=show_run(claim.run_id),
    )


def _first_line(error: str | None) -> str:
    lines = (error or "").strip().splitlines()
    return lines[0][:LONGEST] if lines else "no message"


def _place(trace: str | None) -> str:
    """The last line of code that the traceback names, unless it is ours."""
    found = [place for place in _PLACE.findall(trace or "") if not Path(place[0]).is_relative_to(_OURS)]
    return f" ({Path(found[-1][0]).name}, line {found[-1][1]})" if found else ""
