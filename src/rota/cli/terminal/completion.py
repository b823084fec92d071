"""Shell completion from the server: names of tasks and pools, ids of jobs and runs.

The user waits at the tab key, so the server gets little time, and errors are not shown. Other users chose the names:
only words without a meaning to the shell are offered.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from rota.client import Client
from rota.contract.fields import JobStatusName, RunStatusName
from rota.errors import RotaError
from rota.settings import Settings

SECONDS = 0.7
_MOST = 50
_Choice = tuple[str, str]

_SPECIAL = re.compile(r"[^A-Za-z0-9_.@%+=,/-]")


def complete_task(incomplete: str) -> list[_Choice]:
    """Tasks that live workers run."""
    workers = _items("/v1/workers")
    tasks = sorted({task for worker in workers if worker["status"] == "live" for task in worker["tasks"]})
    return [(task, "") for task in tasks if task.startswith(incomplete) and _is_plain(task)]


def complete_pool(incomplete: str) -> list[_Choice]:
    """Pools that workers serve or that have settings."""
    pools = [pool for pool in _items("/v1/pools") if pool["pool"].startswith(incomplete)]
    return [(pool["pool"], pool["status"]) for pool in pools if _is_plain(pool["pool"])]


def complete_job(incomplete: str) -> list[_Choice]:
    """Ids of the latest jobs, with their names."""
    return _matching("/v1/jobs", "jobId", incomplete)


def complete_run(incomplete: str) -> list[_Choice]:
    """Ids of the latest runs, with their names."""
    return _matching("/v1/runs", "runId", incomplete)


def complete_job_or_run(incomplete: str) -> list[_Choice]:
    """Ids of jobs and runs."""
    if incomplete.startswith("job_"):
        return complete_job(incomplete)
    return complete_run(incomplete) + ([] if incomplete.startswith("run_") else complete_job(incomplete))


def complete_job_name(incomplete: str) -> list[_Choice]:
    """Names of the latest jobs."""
    names = {job["name"] for job in _items("/v1/jobs", limit=_MOST)}
    return [(name, "") for name in sorted(names) if name.startswith(incomplete) and _is_plain(name)]


def complete_workflow(incomplete: str) -> list[_Choice]:
    """Names of workflows."""
    names = [one["name"] for one in _items("/v1/workflows", limit=_MOST)]
    return [(name, "") for name in names if name.startswith(incomplete) and _is_plain(name)]


def complete_workflow_run(incomplete: str) -> list[_Choice]:
    """Ids of the latest workflow runs, with the names of their workflows."""
    return _matching("/v1/workflow-runs", "workflowRunId", incomplete)


def complete_workflow_or_run(incomplete: str) -> list[_Choice]:
    """Names of workflows, and ids of runs."""
    if incomplete.startswith("wfr_"):
        return complete_workflow_run(incomplete)
    return complete_workflow(incomplete)


def complete_run_status(incomplete: str) -> list[_Choice]:
    """Statuses of runs."""
    return [(status, "") for status in get_args(RunStatusName) if status.startswith(incomplete)]


def complete_job_status(incomplete: str) -> list[_Choice]:
    """Statuses of jobs."""
    return [(status, "") for status in get_args(JobStatusName) if status.startswith(incomplete)]


def _matching(path: str, key: str, incomplete: str) -> list[_Choice]:
    items = [item for item in _items(path, limit=_MOST) if item[key].startswith(incomplete)]
    return [(item[key], f"{_SPECIAL.sub('?', item['name'])} {item['status']}") for item in items]


def _is_plain(word: str) -> bool:
    return bool(word) and not _SPECIAL.search(word) and not word.startswith("-")


def _items(path: str, **query: Any) -> list[dict[str, Any]]:
    """The items of a list, or none if the server does not answer."""
    try:
        settings = Settings.from_environment()
        with Client(settings.url, settings.token or "", retries=0, timeout=SECONDS) as client:
            items: list[dict[str, Any]] = client.call("GET", path, query=query)["items"]
    except (RotaError, OSError):
        return []  # the command itself will report the error
    return items
