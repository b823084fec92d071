"""Waiting for a run to end, and for a server that says: not now."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import typer

from rota.cli.terminal.output import FAILED, print_json, say
from rota.cli.terminal.tables import print_fields
from rota.cli.terminal.times import show_seconds
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.domain.run import ENDED_STATUSES

LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 30.0  # a server that is restarted comes back within this
RATE_LIMITED = 429
_NOT_NOW = (RATE_LIMITED, 503)
_FORBIDDEN = 403


def wait_for_run(client: Client, run_id: str, *, as_json: bool) -> None:
    """Shows the run once it has ended; exit code 1 when it did not succeed."""
    try:
        run = _wait(client, run_id)
    except KeyboardInterrupt:
        say(f"Not waiting any longer; the run goes on. Look at it: rota run {run_id}")
        raise typer.Exit(FAILED) from None
    if as_json:
        print_json(run)
    else:
        shown = ("runId", "status", "attempt", "startTime", "endTime", "result", "error", "reason")
        print_fields({name: run[name] for name in shown if run.get(name) is not None})
    if run["status"] != "success":
        raise typer.Exit(FAILED)


def wait_for_submitted(client: Client, run_id: str, *, as_json: bool) -> None:
    """The same for a run that was submitted a moment ago: a key that may submit may not be allowed to look."""
    try:
        wait_for_run(client, run_id, as_json=as_json)
    except AnswerError as error:
        if error.status != _FORBIDDEN:
            raise
        say(f"{run_id} was submitted, but can't be waited for: {error}")
        raise typer.Exit(FAILED) from None


def ask_until_taken(ask: Callable[[], Any], *, statuses: Collection[int]) -> Any:
    """The answer, once the server does not say with one of these statuses that it can't be had now.

    For whoever is ready to wait: what is asked must be safe to ask again after such an answer.
    """
    while True:
        try:
            return ask()
        except AnswerError as error:
            if error.status not in statuses:
                raise
            pause = error.retry_after_seconds or LOOK_SECONDS
            say(f"{error}: trying again in {show_seconds(pause)}", "dim")
            time.sleep(pause)


def _wait(client: Client, run_id: str) -> dict[str, Any]:
    told: Any = None
    while (run := _look(client, run_id, LOOK_SECONDS if told else 0))["status"] not in ENDED_STATUSES:
        now = (run["status"], run["progress"], run.get("waitingFor"), _last_error(run))
        if now != told:
            say(": ".join(str(part) for part in now if part), "dim")
        told = now
    return run


def _last_error(run: Mapping[str, Any]) -> str | None:
    """Why the attempt before failed, while the next is waited for."""
    attempts = run.get("attempts") or []
    error = attempts[-1].get("error") if attempts and run["status"] == "retrying" else None
    return f"the last attempt failed: {error}" if error else None


def _look(client: Client, run_id: str, seconds: float) -> dict[str, Any]:
    """The run once it has ended, or as it is after so long; a server that is away for a moment is waited for."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            run: dict[str, Any] = client.call("GET", f"/v1/runs/{run_id}", query={"waitSeconds": seconds})
        except (ServerUnreachableError, AnswerError) as error:
            if isinstance(error, AnswerError) and error.status not in _NOT_NOW:
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(getattr(error, "retry_after_seconds", None) or LOOK_SECONDS)
            seconds = 0  # it may have too many who wait
        else:
            return run
