"""A real Prometheus, which scrapes what a test names."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx

from support import free_port, leave_out, wait_until

_CONFIGURATION = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: rota
    static_configs: [{{targets: {targets}}}]
"""


def require_prometheus() -> None:
    """Skips where it is not installed; CI installs it."""
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        leave_out("Prometheus is not installed")


def promtool(*arguments: str, text: str = "") -> str:
    """What promtool says; it must find nothing wrong."""
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Prometheus:
    """Scrapes twice a second, and answers queries."""

    def __init__(self, directory: Path, targets: Sequence[str], rules: Path) -> None:
        configuration = directory / "prometheus.yml"
        configuration.write_text(_CONFIGURATION.format(targets=list(targets), rules=rules))
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._targets = len(targets)
        with (directory / "prometheus.log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={configuration}",
                    f"--storage.tsdb.path={directory / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Prometheus:
        wait_until(self._sees_all)
        return self

    def __exit__(self, *_details: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()

    def _sees_all(self) -> bool:
        assert self._process.poll() is None
        try:
            if httpx.get(f"{self._url}/-/ready").status_code != httpx.codes.OK:
                return False
        except httpx.TransportError:
            return False
        return self.value("sum(up)") == self._targets

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values that the expression has now."""
        answer = httpx.get(f"{self._url}/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", answer
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]

    def value(self, expression: str) -> float | None:
        """The one value of the expression; None if it has none."""
        found = self.query(expression)
        return found[0][1] if found else None
