"""One `rota up` for the tests of the command line."""

from __future__ import annotations

import shutil
import signal
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from commands import Commands
from support import free_port, memory, wait_until

CLEANUP = """
import json, os, sys
given = json.load(sys.stdin)
assert given == json.loads(os.environ['ROTA_PARAMS'])
print('kept', given['days'], 'days')
"""


class Rota(Commands):
    """A running `rota up`, and the commands of a person who uses it."""

    def json(self, *arguments: str) -> Any:
        done = self.in_process(*arguments, "--json")
        assert done.code == 0, done.err
        return done.json

    def status_of(self, run_id: str) -> str:
        return self.ask(f"/v1/runs/{run_id}")["status"]


@pytest.fixture(scope="session")
def rota():
    """One `rota up` for all of them. It must stop by SIGTERM with exit code 0."""
    home = Path(tempfile.mkdtemp(prefix="rota-cli-", dir=memory()))
    home.chmod(0o755)
    rota = Rota(home, free_port(), ROTA_HOME=str(home))
    try:
        with rota.running("up", "--workers", "1") as up:
            (home / "scripts" / "cleanup.py").write_text(CLEANUP)
            rota.wait_for_worker()
            yield rota
            assert up.stop(signal.SIGTERM) == 0, up.said
            assert "Stopped. All data is in" in up.said
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def buried(rota):
    """Runs of rota.fail that were buried: four, with the names grave-0 to grave-3."""
    body = {"scheduleType": "immediate", "task": "rota.fail", "maxRetries": 0}
    runs = [rota.ask("/v1/jobs", "POST", body=body | {"name": f"grave-{number}"})["runId"] for number in range(4)]
    wait_until(lambda: all(rota.status_of(run) == "failed" for run in runs))
    return runs


@pytest.fixture(scope="session")
def nightly(rota):
    """A job with a schedule that does not fire while the tests run."""
    far = (datetime.now(UTC) + timedelta(days=180)).strftime("0 30 9 %d %m *")
    schedule = ("--cron", far, "--timezone", "Europe/Berlin", "--tag", "night")
    return rota.json("submit", "nightly report", "--task", "rota.echo", *schedule)["jobId"]
