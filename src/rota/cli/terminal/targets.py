"""What a command is about: a job or a run, named by an id or by a name that only one job has.

An id wins over a name. Among jobs of the same name, the one that has not ended is meant; if that is not one job either,
the command lists them and does nothing. A name is turned into an id once: what is submitted under the same name a
moment later is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rota.cli.terminal.times import show_interval
from rota.client import AnswerError, Client
from rota.errors import BadInputError

_GENERATED = re.compile(r"(job|run)_[0-9a-f]{32}")
_POSSIBLE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_NOT_FOUND = 404
_MOST_NAMED = 10
_OPEN = "scheduled,paused,blocked,queued,running,retrying"
_EVER = "1970-01-01T00:00:00Z"


def find_job(client: Client, given: str, field: str) -> str:
    """The id of a job, given by its id or its name; raises BadInputError for none, or several of the same name."""
    given = given.strip()
    match = _GENERATED.fullmatch(given)
    if match and match[1] == "run":
        raise BadInputError(f"{given} is a run; give a job: its id or its name", field=field)
    if match or (_POSSIBLE_ID.fullmatch(given) and _has_id(client, given)):
        return given
    named = _jobs_named(client, given)
    if not named:
        raise BadInputError(
            f"no job has the id or the name {given[:80]!r} (jobs that run once: in the last 24 hours); "
            "`rota jobs` shows them",
            field=field,
        )
    if len(named) > 1:
        raise BadInputError(_choice_words(given, named), field=field)
    found: str = named[0]["jobId"]
    return found


def find_run(client: Client, given: str, field: str) -> str:
    """The id of a run, given by its id, or the latest run of a job that is given by its id or name."""
    if is_run(given):
        return given.strip()
    run_id: str | None = client.call("GET", f"/v1/jobs/{find_job(client, given, field)}/status")["runId"]
    if run_id is None:
        raise BadInputError("the job has not run yet", field=field)
    return run_id


def is_run(given: str) -> bool:
    """Whether it is the id of a run, not of a job."""
    match = _GENERATED.fullmatch(given.strip())
    return match is not None and match[1] == "run"


def _has_id(client: Client, given: str) -> bool:
    """Whether a job has this id; one that we may not ask about has it for all we know."""
    if given in (".", ".."):
        return False
    try:
        client.call("GET", f"/v1/jobs/{given}/status")
    except AnswerError as error:
        return error.status != _NOT_FOUND
    return True


def _jobs_named(client: Client, name: str) -> list[dict[str, Any]]:
    """The jobs of this name that have not ended, or else those that have."""
    query = {"name": name, "limit": _MOST_NAMED + 1}
    found: list[dict[str, Any]] = client.call("GET", "/v1/jobs", query=query | {"status": _OPEN, "startTime": _EVER})[
        "items"
    ]
    return found or client.call("GET", "/v1/jobs", query=query)["items"]


def _choice_words(name: str, jobs: list[dict[str, Any]]) -> str:
    lines = [f"  {job['jobId']}  {job['status']}  {_when(job)}" for job in jobs[:_MOST_NAMED]]
    more = ["  …"] if len(jobs) > _MOST_NAMED else []
    return "\n".join(["several jobs have the name " + repr(name[:80]) + "; give the id of one:", *lines, *more])


def _when(job: Mapping[str, Any]) -> str:
    match job["scheduleType"]:
        case "cron":
            return f"{job['cronExpression']} {job['timezone']}"
        case "interval":
            return f"every {show_interval(job['everySeconds'])}"
        case _:
            return f"at {job['scheduleTime']}"
