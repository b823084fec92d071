"""The command `rota watch`: follows a job or a run."""

from __future__ import annotations

import time as clock
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import typer
from rich.text import Text

from rota.cli.terminal.live_view import Lines, ViewEnded, is_live, show_live, try_again
from rota.cli.terminal.output import FAILED, say, server
from rota.cli.terminal.tables import Column, clean, one_line, print_line, status, table_lines, text, time
from rota.cli.terminal.targets import find_job, is_run
from rota.cli.terminal.times import show_age, show_length, show_seconds, show_time
from rota.client import Client
from rota.domain.run import ENDED_STATUSES

_INTERVAL_SECONDS = 1.0
_MOST_RUNS = 50
_BAR_WIDTH = 20
_OVER = ("completed", "cancelled")


def watch(name: str = typer.Argument(metavar="JOB", help="A job (its id or name) or a run (run_…).")) -> None:
    """Watch a job or a run.

    A run, or a job that runs once, is watched until it ends: the exit code is 0 if it succeeded, else 1. A schedule is
    shown with its latest runs until q or Ctrl-C. Without a terminal a line is printed for each change.
    """
    with server(watch) as client:
        view = _view(client, name)
        try:
            if is_live():
                show_live(view.draw, seconds=_INTERVAL_SECONDS, whole_screen=False)
            else:
                _print_changes(view)
        except KeyboardInterrupt:
            say("Stopped watching; it continues.")
        if not view.went_well:
            raise typer.Exit(FAILED)


class _View(ABC):
    """A run or a schedule, as of the last poll."""

    over = False
    went_well = True  # a schedule has no end that could be bad

    def __init__(self, client: Client) -> None:
        self._client = client

    @abstractmethod
    def poll(self) -> list[dict[str, Any]]:
        """Fetches the runs, latest first, and sets `over`."""

    @abstractmethod
    def header(self) -> Lines:
        """The lines above the runs."""

    def draw(self, width: int, height: int) -> Lines:
        """The lines to show; raises ViewEnded with the last ones."""
        runs = self.poll()
        lines = [*self.header(), *(self._table(runs, width) if runs else [Text("No run yet.", "dim")])]
        if self.over:
            raise ViewEnded(lines[: height - 1])
        return lines

    def _table(self, runs: list[dict[str, Any]], width: int) -> Lines:
        columns = (
            text("RUN", "runId"),
            status(),
            time("PLANNED", "scheduledTime", drop=2),
            Column(heading="TOOK", show=_took),
            text("ATTEMPT", "attempt", drop=3),
            Column(heading="PROGRESS", show=_progress, drop=1),
            Column(heading="", show=_remark, least=10, drop=4),
        )
        return table_lines(runs, columns, width)


class _RunView(_View):
    """One run."""

    def __init__(self, client: Client, run_id: str) -> None:
        super().__init__(client)
        self._run_id = run_id
        self.went_well = False
        self._run: dict[str, Any] = {}

    def poll(self) -> list[dict[str, Any]]:
        """The run."""
        self._run = self._client.call("GET", f"/v1/runs/{self._run_id}")
        self.over = self._run["status"] in ENDED_STATUSES
        self.went_well = self._run["status"] == "success"
        return [self._run]

    def header(self) -> Lines:
        """Its name and task, and why it waits."""
        run = self._run
        lines = [Text.assemble((clean(run["name"]), "bold"), f"  {clean(run['task'])}  {run['jobId']}")]
        if reason := run.get("waitingFor"):
            lines.append(Text(f"waits: {one_line(reason)}", "yellow"))
        if problem := run.get("error"):
            lines.append(Text(f"error: {one_line(problem)}", "red"))
        return [*lines, Text("")]


class _ScheduleView(_View):
    """A schedule and its latest runs."""

    def __init__(self, client: Client, job_id: str) -> None:
        super().__init__(client)
        self._job_id = job_id
        self._job: dict[str, Any] = {}

    def poll(self) -> list[dict[str, Any]]:
        """The job and its runs."""
        self._job = self._client.call("GET", f"/v1/jobs/{self._job_id}")
        page = self._client.call("GET", f"/v1/jobs/{self._job_id}/runs", query={"limit": _MOST_RUNS})
        runs: list[dict[str, Any]] = page["items"]
        self.over = self._job["status"] in _OVER and all(run["status"] in ENDED_STATUSES for run in runs)
        return runs

    def header(self) -> Lines:
        """Its name, its schedule, and when it fires next."""
        job = self._job
        when = job.get("cronExpression") or f"every {job.get('everySeconds') or 0:g} s"
        zone = f" {job['timezone']}" if job.get("cronExpression") else ""
        coming = [moment for moment in job.get("nextFireTimes") or [] if moment][:3]
        lines = [
            Text.assemble(
                (clean(job["name"]), "bold"), f"  {clean(job['task'])}  {clean(when)}{zone}  {clean(job['status'])}"
            ),
            Text("next: " + (", ".join(f"{show_time(moment)}" for moment in coming) or "never")),
        ]
        if coming:
            seconds = (datetime.fromisoformat(coming[0]) - datetime.now(UTC)).total_seconds()
            lines[1].append(f" (in {show_seconds(seconds)})", "dim")
        return [*lines, Text("")]


def _view(client: Client, target: str) -> _View:
    if is_run(target):
        return _RunView(client, target.strip())
    found = client.call("GET", f"/v1/jobs/{find_job(client, target, 'JOB')}")
    if found["scheduleType"] in ("cron", "interval"):
        return _ScheduleView(client, found["jobId"])
    return _RunView(client, found["runId"])


def _print_changes(view: _View) -> None:
    told: dict[str, Any] = {}
    while True:
        for run in reversed(try_again(view.poll, say)):
            now = (run["status"], run.get("progress"), run.get("attempt"), run.get("waitingFor"))
            if told.get(run["runId"]) != now:
                print_line(_line(run))
                told[run["runId"]] = now
        if view.over:
            return
        clock.sleep(_INTERVAL_SECONDS)


def _line(run: Mapping[str, Any]) -> str:
    moment, name, progress = datetime.now(UTC).strftime("%H:%M:%SZ"), clean(run["name"]), run.get("progress")
    parts = [moment, run["runId"], name, run["status"], _took(run), progress, _remark(run)]
    return "  ".join(part for part in parts if part)


def _took(run: Mapping[str, Any]) -> str:
    if run.get("startTime") and not run.get("endTime") and run["status"] == "running":
        return show_age(run["startTime"]).removesuffix(" ago")
    return show_length(run.get("startTime"), run.get("endTime"))


def _progress(run: Mapping[str, Any]) -> str:
    """A bar for a running run that reports its progress."""
    told = run.get("progress")
    if not told or run["status"] != "running":
        return told or ""
    done = round(_BAR_WIDTH * min(100.0, float(told.rstrip("%"))) / 100)
    return f"[{'#' * done}{'.' * (_BAR_WIDTH - done)}] {told}"


def _remark(run: Mapping[str, Any]) -> str:
    said = (run.get(name) for name in ("waitingFor", "progressMessage", "error", "reason"))
    return one_line(next(filter(None, said), None))
