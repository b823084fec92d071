"""Runs and submissions as a test sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from rota.domain.ids import show_run
from rota.domain.job import Priority, show_job_of


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `attempt` counts its attempts; `started` is the start of the last."""

    run_id: str
    job_id: str
    task: str
    status: str
    attempt: int
    nominal_time: datetime
    due: datetime
    started: datetime | None
    finished: datetime | None
    arguments: dict[str, Any]
    result: Any = None
    error: str | None = None
    traceback: str | None = None
    reason: str | None = None


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted job. `at` is None for one that runs at once; a schedule has `cron` or `every_seconds`."""

    job_id: str
    task: str
    name: str
    arguments: dict[str, Any]
    at: datetime | None
    cron: str | None
    every_seconds: float | None
    timezone: str | None
    namespace: str
    owner: str
    pool: str
    priority: str
    tags: list[str]
    options: dict[str, Any]
    policies: dict[str, Any]
    submitted: datetime

    def __str__(self) -> str:
        return f"{self.task}({show_arguments(self.arguments)}){self._when()}"

    def _when(self) -> str:
        if self.cron is not None:
            return f" on {self.cron!r} in {self.timezone}"
        if self.every_seconds is not None:
            return f" every {self.every_seconds:g} s"
        return f" at {self.at.isoformat()}" if self.at else ""


def run_of(row: Any, payload: str | None, result: str | None) -> RunRecord:
    """A run from its row; payload and result can come from object storage."""
    return RunRecord(
        run_id=show_run(row["id"]),
        job_id=show_job_of(row["job_id"], row["options"]),
        task=row["task"],
        status=row["status"],
        attempt=row["attempt"],
        nominal_time=row["nominal_at"],
        due=row["run_at"],
        started=row["started_at"],
        finished=row["finished_at"],
        arguments=_decoded(payload) or {},
        result=_decoded(result),
        error=row["error"],
        traceback=row["traceback"],
        reason=row["reason"],
    )


def submission_of(row: Any, payload: str | None) -> Submission:
    """A submission from its row."""
    return Submission(
        job_id=show_job_of(row["job_id"], row["options"]),
        task=row["task"],
        name=row["name"],
        arguments=_decoded(payload) or {},
        at=row["at"],
        cron=row["cron"],
        every_seconds=row["every_seconds"],
        timezone=row["timezone"],
        namespace=row["namespace"],
        owner=row["owner"],
        pool=row["pool"],
        priority=Priority(row["priority"]).name,
        tags=list(row["tags"]),
        options=_decoded(row["options"]) or {},
        policies=_decoded(row["policies"]) or {},
        submitted=row["created_at"],
    )


def show_arguments(arguments: dict[str, Any]) -> str:
    """Arguments as in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
