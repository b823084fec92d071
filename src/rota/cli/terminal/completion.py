"""Values for the shell's completion, asked of the server: names of tasks and pools, ids of jobs and runs.

The user waits at the tab key: the server has a moment to answer, and errors are not shown, since they would land in the
middle of the line that is being written.

Completions become part of a command line, and other users chose the names: only words that have no meaning to a shell
are offered and shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    """Ids of the latest jobs, with their names where the shell shows them."""
    return list(_matching(_items("/v1/jobs", limit=_MOST), "jobId", incomplete))


def complete_run(incomplete: str) -> list[_Choice]:
    """Ids of the latest runs, with their names where the shell shows them."""
    return list(_matching(_items("/v1/runs", limit=_MOST), "runId", incomplete))


def complete_job_or_run(incomplete: str) -> list[_Choice]:
    """Ids of either kind, by how the word begins."""
    if incomplete.startswith("job_"):
        return complete_job(incomplete)
    return complete_run(incomplete) + ([] if incomplete.startswith("run_") else complete_job(incomplete))


def complete_job_name(incomplete: str) -> list[_Choice]:
    """Names of the latest jobs."""
    names = {job["name"] for job in _items("/v1/jobs", limit=_MOST)}
    return [(name, "") for name in sorted(names) if name.startswith(incomplete) and _is_plain(name)]


def complete_run_status(incomplete: str) -> list[_Choice]:
    """Statuses of runs."""
    return [(status, "") for status in get_args(RunStatusName) if status.startswith(incomplete)]


def complete_job_status(incomplete: str) -> list[_Choice]:
    """Statuses of jobs: of a schedule its own, else its run's."""
    return [(status, "") for status in get_args(JobStatusName) if status.startswith(incomplete)]


def _matching(items: list[dict[str, Any]], key: str, incomplete: str) -> Iterator[_Choice]:
    for item in items:
        if item[key].startswith(incomplete):
            yield item[key], f"{_SPECIAL.sub('?', item['name'])} {item['status']}"


def _is_plain(word: str) -> bool:
    return bool(word) and not _SPECIAL.search(word) and not word.startswith("-")


def _items(path: str, **query: Any) -> list[dict[str, Any]]:
    """A list of the server's, or nothing."""
    try:
        settings = Settings.from_environment()
        with Client(settings.url, settings.token or "", retries=0, timeout=SECONDS) as client:
            items: list[dict[str, Any]] = client.call("GET", path, query=query)["items"]
    except (RotaError, OSError):
        return []  # a completion that fails is no completion; the command itself will say why
    return items
