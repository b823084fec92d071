"""Numbers of the latest runs of a task or job, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.cli.terminal.output import print_json
from rota.cli.terminal.tables import Column, print_fields, print_line, print_table, status, text, time
from rota.cli.terminal.times import show_seconds

_MOST_SHOWN = 20


def show_run_figures(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints rates, durations and the latest runs."""
    if as_json:
        print_json(found)
        return
    took, runs = found["runSeconds"], found["runs"]
    ends = ", ".join(f"{count} {name}" for name, count in sorted(found["statuses"].items()))
    print_fields(
        {
            "runs": f"the latest {len(runs)} that have ended: {ends}" if runs else "none has ended",
            "success rate": show_share(found["successRate"]),
            "retry rate": show_share(found["retryRate"]),
            "durations": "  ".join(f"{name} {_seconds(took[name])}" for name in ("p50", "p95", "p99")),
        }
    )
    print_line("")
    columns = (
        text("RUN", "runId"),
        status(),
        time("STARTED", "startTime"),
        Column(heading="TOOK", show=lambda run: _seconds(run["seconds"])),
        text("ATTEMPTS", "attempts", drop=1),
    )
    print_table(runs[:_MOST_SHOWN], columns, none="No run has ended.")


def show_share(share: float | None) -> str:
    """A share in per cent; a dash for none."""
    return "-" if share is None else f"{share:.1%}"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else show_seconds(seconds, exact=True)
