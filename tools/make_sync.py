"""Derives the synchronous face of what is written once, with async and await.

`python tools/make_sync.py` writes the files; with `--check` it writes nothing and fails when one is not up to date.
Lines from `# async only` to `# end of async only` are left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FIRST_LINE = "# Made from {source} by tools/make_sync.py (`make sync`): change that file, not this one.\n"


class Pair(NamedTuple):
    """What is written by hand, what is made of it, and which names of it get another one (in a longer form)."""

    source: str
    target: str
    renamed: Mapping[str, str] = MappingProxyType({})


_SDK = {
    name: f"Sync{name}"
    for name in ("Run", "Job", "Sender", "Recurrence", "HttpGateway", "WorkflowRun", "WorkflowStarter")
}
PAIRS = (
    Pair("src/rota/client/async_http.py", "src/rota/client/_sync/http.py"),
    Pair("src/rota/client/async_transport.py", "src/rota/client/_sync/transport.py"),
    Pair("src/rota/client/async_submissions.py", "src/rota/client/_sync/submissions.py"),
    Pair("src/rota/client/async_workflows.py", "src/rota/client/_sync/workflows.py"),
    Pair("src/rota/client/async_operations.py", "src/rota/client/_sync/operations.py"),
    Pair("src/rota/client/async_observing.py", "src/rota/client/_sync/observing.py"),
    Pair("src/rota/client/async_client.py", "src/rota/client/_sync/client.py"),
    Pair(
        "src/rota/sdk/sender.py",
        "src/rota/sdk/sender_sync.py",
        {**_SDK, "submit_within": "submit_within_sync", "open_async": "open_sync", "of_run_async": "of_run_sync"},
    ),
    Pair("src/rota/sdk/workflow_runs.py", "src/rota/sdk/workflow_runs_sync.py", {**_SDK, "open_async": "open_sync"}),
    Pair("src/rota/gateway/deliveries.py", "src/rota/gateway/deliveries_sync.py"),
    Pair("src/rota/gateway/http.py", "src/rota/gateway/http_sync.py", _SDK),
)
REPLACEMENTS = (
    (r"(?ms)^ *# async only\n.*?^ *# end of async only\n\n?", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\bimport asyncio\b", "import time"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAsync(?=[A-Z]\w*)", ""),
    (r"\basync_(client|http|observing|operations|submissions|transport|workflows)\b", r"_sync.\1"),
    (r"\bgateway\.deliveries\b", "gateway.deliveries_sync"),
    (r"\bhttp_async\b", "http_sync"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\ba(closing|close|iter|next)\b", r"\1"),
)


def derive(pair: Pair) -> str:
    """The synchronous text of an asynchronous file, formatted."""
    text = (ROOT / pair.source).read_text(encoding="utf-8")
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    for name, other in pair.renamed.items():
        text = re.sub(rf"\b{name}\b", other, text)
    text = FIRST_LINE.format(source=pair.source) + text
    # Names that lost their first letters have another place among the imports.
    text = _ruff(["check", "--select", "I", "--fix", "--quiet"], pair.source, text)
    return _ruff(["format", "--quiet"], pair.source, text)


def _ruff(arguments: list[str], name: str, text: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(ROOT / name), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def outdated() -> list[str]:
    """The files that are not what they should be."""
    return [pair.target for pair in PAIRS if _read(pair.target) != derive(pair)]


def _read(target: str) -> str:
    path = ROOT / target
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> int:
    """Writes, or checks."""
    if "--check" in sys.argv[1:]:
        wrong = outdated()
        for target in wrong:
            print(f"{target} is not up to date: run `make sync`", file=sys.stderr)
        return 1 if wrong else 0
    for pair in PAIRS:
        (ROOT / pair.target).write_text(derive(pair), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
