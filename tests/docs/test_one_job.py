"""One job, followed through the source: the files it goes through are those the architecture page lists."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import rota
from engine import plain
from support import eventually, job

SOURCE = Path(rota.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md"
# The page is about what happens to the job. These are used along the way, or run beside it.
HELPERS = {
    # what every part uses
    *("clock.py", "fair_turns.py", "time_limits.py", "service.py", "errors.py", "telemetry.py"),
    *("domain/ids.py", "domain/text.py", "domain/rights.py", "domain/policies.py", "domain/lag_histogram.py"),
    *("contract/fields.py", "contract/json_rules.py"),
    *(f"store/postgres/{name}.py" for name in ("database", "connections", "statements", "batches")),
    *("store/postgres/listener.py", "store/postgres/scan_positions.py", "store/schema/partitions.py"),
    "store/submit/plain_runs.py",
    # around a request
    *("api/http/security_headers.py", "api/http/body_budget.py", "api/http/shares.py", "api/backend.py"),
    *("api/http/messages.py", "api/paths.py", "access/credential_cache.py"),
    *("access/limits/tenant_limits.py", "store/access/limits.py", "gateway/policy_fields.py"),
    *("gateway/known_tasks.py", "store/announce/__init__.py"),
    # around a run
    *("worker/worker.py", "worker/heartbeat.py", "worker/watchdog.py", "worker/run_log.py"),
    *("task/context.py", "worker/runners/examples.py", "broker/pool_tally.py"),
    # traces and metrics
    *("gateway/traced_jobs.py", "metrics/instruments.py"),
}
# Types and constants alone: nothing of them is called.
ONLY_TYPES = {"contract/jobs.py", "domain/job.py"}


def listed() -> list[str]:
    """The files of the page, in order."""
    part = PAGE.read_text().partition("## One job, file by file")[2].partition("\n## ")[0]
    return re.findall(r"^\| [0-9]*\+? \| `([^`]+)` \|", part, re.MULTILINE)


class Trace:
    """The files below rota/ whose code runs in this thread, and the statements it sends."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *_error):
        sys.settrace(None)

    def _call(self, frame, _event, _argument):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SOURCE):
            self.files.add(str(path.relative_to(SOURCE)))
            if (path.name, frame.f_code.co_name) == ("statements.py", "load"):
                (statement,) = SOURCE.rglob(f"{frame.f_locals['name']}.sql")
                self.files.add(str(statement.relative_to(SOURCE)))


async def test_one_job_goes_through_the_files_that_the_page_lists(engine, sql):
    async def is_recorded(run_id):
        return await sql.fetchval("SELECT true FROM rota.finished_runs WHERE id = $1", plain(run_id))

    async with engine.running(engine.worker()):
        first = await engine.submit(payload={"hello": "world"})  # what is done once is not part of the way
        await engine.until(first, "success")
        with Trace() as trace:
            answer = await engine.api.post("/v1/jobs", json=job(payload={"hello": "world"}))
            await eventually(lambda: is_recorded(answer.json()["runId"]))
    missing = set(listed()) - trace.files - ONLY_TYPES
    others = {file for file in trace.files if not file.endswith(".sql")} - set(listed()) - HELPERS
    assert (missing, others) == (set(), set())


def test_the_list_is_short_has_no_file_twice_and_names_files_that_are_there():
    assert 20 < len(listed()) < 30
    assert len(set(listed())) == len(listed())
    assert [file for file in listed() if not (SOURCE / file).exists()] == []
