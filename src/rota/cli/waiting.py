"""Waiting for a run to end."""

from __future__ import annotations

import time
from typing import Any

import typer

from rota.cli.output import FAILED, console, print_fields, print_json
from rota.client import Client

LOOK_SECONDS = 0.1
ENDED = ("success", "failed", "cancelled", "skipped")


def wait_for_run(client: Client, run_id: str, *, as_json: bool) -> None:
    """Shows the run once it has ended; exit code 1 when it did not succeed."""
    told: Any = None
    while (run := client.call("GET", f"/v1/runs/{run_id}"))["status"] not in ENDED:
        now = (run["status"], run["progress"], run.get("waitingFor"))
        if not as_json and now != told:
            console().print(f"[dim]{' '.join(str(part) for part in now if part)}[/]", soft_wrap=True)
        told = now
        time.sleep(LOOK_SECONDS)
    if as_json:
        print_json(run)
    else:
        shown = ("runId", "status", "attempt", "startTime", "endTime", "result", "error", "reason")
        print_fields({name: run[name] for name in shown if run.get(name) is not None})
    if run["status"] != "success":
        raise typer.Exit(FAILED)
