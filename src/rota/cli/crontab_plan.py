"""The plan for a crontab: which jobs to make, change, keep, or pause because their line is gone.

A job belongs to a line by its name, which ends with a hash of the crontab's label, the account, the command, and a
number among equal commands. So a new time changes the job, and a new command makes a new job. A unique key stops two
imports at the same time from making a job twice.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from rota.client import Client
from rota.contract.jobs import JobOut
from rota.domain.cron import Cron
from rota.domain.crontab import Entry
from rota.domain.ids import find_job_id
from rota.domain.runner_payloads import SHELL
from rota.domain.timezones import load_zone
from rota.errors import BadInputError

TASK = "shell"
_TAG = "crontab"
GONE_TAG = "crontab-gone"
HOME = "~"
_SHOWN_LENGTH = 80
_HASH_LENGTH = 8
_ZONES = "zoneinfo/"
_HASHED = re.compile(r"(^|[\s,])H($|[\s,/(])", re.IGNORECASE)


@dataclass
class PlannedEntry:
    """A line, its job, and what to do."""

    entry: Entry
    body: dict[str, Any]
    job: JobOut | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def disposition(self) -> Literal["new", "changed", "unchanged"]:
        """What to do with the job."""
        if self.job is None:
            return "new"
        return "changed" if self.changes else "unchanged"

    def next_times(self, now: datetime, count: int) -> list[datetime]:
        """The next fire times. Empty if the expression has an H, and the generated id, which decides, is not known."""
        expression = self.body["cronExpression"]
        seed = find_job_id(self.job.job_id) if self.job else None
        if seed is None and _HASHED.search(expression):
            return []
        schedule = Cron(expression, self.body["timezone"], seed=seed)
        times: list[datetime] = []
        while len(times) < count and (moment := schedule.next_after(times[-1] if times else now)):
            times.append(moment)
        return times


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What applies to all entries."""

    label: str
    timezone: str
    pool: str | None = None
    tags: Sequence[str] = ()

    @property
    def label_tag(self) -> str:
        """The tag of all jobs of this crontab."""
        return f"{_TAG}:{self.label}"


def plan(entries: Sequence[Entry], wanted: Wanted, jobs: Mapping[str, JobOut]) -> list[PlannedEntry]:
    """Plans each entry; `jobs` are the existing ones by name."""
    planned = [PlannedEntry(entry, body) for entry, body in zip(entries, _bodies(entries, wanted), strict=True)]
    for one in planned:
        one.job = jobs.get(one.body["name"])
        if one.job is not None:
            one.changes = _changes(one.job, one.body)
    return planned


def jobs_of(client: Client, wanted: Wanted) -> dict[str, JobOut]:
    """The jobs from earlier imports of this crontab, by name, with their payloads."""
    found = client.jobs(tag=wanted.label_tag, status=("scheduled", "paused"))
    return {job.name: client.job(job.job_id) for job in found if job.task == TASK}


def gone_from(planned: Sequence[PlannedEntry], jobs: Mapping[str, JobOut]) -> list[JobOut]:
    """Jobs whose line is gone from the file and that are not paused for that yet."""
    names = {one.body["name"] for one in planned}
    return [
        job for name, job in jobs.items() if name not in names and not (GONE_TAG in job.tags and job.status == "paused")
    ]


def carry_out(client: Client, one: PlannedEntry) -> None:
    """Makes or changes the job, and reads it again."""
    if one.job is None:
        one.job = client.job(client.call("POST", "/v1/jobs", body=one.body)["jobId"])
        return
    # Remove the tag last: after an interruption the next import still finds it.
    if GONE_TAG in one.job.tags:
        client.resume_job(one.job.job_id)
    if one.changes:
        client.call("PUT", f"/v1/jobs/{one.job.job_id}", body=one.changes)
    one.job = client.job(one.job.job_id)


def pause_gone(client: Client, job: JobOut) -> None:
    """Pauses a job whose line is gone, with a tag, so that it resumes when the line comes back."""
    tags = [tag for tag in job.tags if tag != GONE_TAG]
    client.call("PUT", f"/v1/jobs/{job.job_id}", body={"tags": [*tags, GONE_TAG]})
    client.pause_job(job.job_id)


def can_run(client: Client, pool: str) -> bool:
    """Whether a live worker of this pool runs shell commands."""
    return any(worker.status == "live" and TASK in worker.tasks and pool in worker.pools for worker in client.workers())


def local_zone(environment: Mapping[str, str] = os.environ, link: Path = Path("/etc/localtime")) -> str | None:
    """The time zone of this machine's cron; None if unknown."""
    candidates = [environment.get("TZ", "").removeprefix(":")]
    if link.exists():
        candidates.append(str(link.resolve()))
    for candidate in candidates:
        name = candidate.partition(_ZONES)[2] if _ZONES in candidate else candidate
        try:
            load_zone(name)
        except BadInputError:
            continue
        return name
    return None


def _bodies(entries: Sequence[Entry], wanted: Wanted) -> Iterator[dict[str, Any]]:
    seen: Counter[tuple[str | None, str, str]] = Counter()
    for entry in entries:
        same = (entry.user, entry.command, entry.given)
        identity = "\0".join((wanted.label, entry.user or "", entry.command, entry.given, str(seen[same])))
        seen[same] += 1
        yield _body(entry, sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:_HASH_LENGTH], wanted)


def _body(entry: Entry, digest: str, wanted: Wanted) -> dict[str, Any]:
    """The job as cron would run it: no retries, and missed times are skipped."""
    shown = "".join(letter if letter.isprintable() else " " for letter in entry.command)
    user = [f"user:{entry.user}"] if entry.user else []
    body = {
        "name": f"{shown[:_SHOWN_LENGTH].strip()} #{digest}",
        "scheduleType": "cron",
        "cronExpression": entry.expression,
        "timezone": entry.timezone or wanted.timezone,
        "task": TASK,
        "payload": _payload(entry),
        "maxRetries": 0,
        "misfire": "skip",
        "tags": [_TAG, wanted.label_tag, *user, *wanted.tags],
        "uniqueKey": f"{wanted.label_tag}:{digest}",
        "onDuplicate": "keep",
    }
    return body if wanted.pool is None else body | {"pool": wanted.pool}


def _payload(entry: Entry) -> dict[str, Any]:
    command: dict[str, Any] = {"run": entry.command, "directory": entry.environment.get("HOME") or HOME}
    if entry.shell != SHELL:
        command["shell"] = entry.shell
    if entry.environment:
        command["environment"] = dict(entry.environment)
    if entry.given:
        command["input"] = entry.given
    return {"command": command}


def _changes(job: JobOut, body: Mapping[str, Any]) -> dict[str, Any]:
    """Only fields that come from the crontab: others keep what was set on the job."""
    now = {"cronExpression": job.cron_expression, "timezone": job.timezone, "payload": job.payload, "pool": job.pool}
    changes = {name: body[name] for name, value in now.items() if name in body and body[name] != value}
    tags = [tag for tag in job.tags if tag != GONE_TAG]
    tags += [tag for tag in body["tags"] if tag not in tags]
    return changes if tags == job.tags else changes | {"tags": tags}
