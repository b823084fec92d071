"""The command `rota doctor`: checks the installation and says how to fix each problem."""

from __future__ import annotations

import os
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from rota.cli.processes import HomeOption
from rota.cli.terminal.output import FAILED, JsonFlag, print_json
from rota.cli.terminal.tables import clean, console, terminal_width

if TYPE_CHECKING:
    from rota.ops.doctor.findings import Finding

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}
_WIDTH = max(map(len, _STYLES)) + 2


def doctor(home: Path | None = HomeOption, as_json: bool = JsonFlag) -> None:
    """Check the installation and say how to fix problems.

    Checks this machine, the settings, the server, the database, workers and object storage, if they can be reached.
    Prints a line each: ok, warning or problem. The exit code is 1 if there is a problem.
    """
    import asyncio  # noqa: PLC0415 - takes longer than the rest of the help texts

    from rota.ops.doctor.checkup import examine  # noqa: PLC0415 - imports the server and the worker

    if home is not None:
        os.environ["ROTA_HOME"] = str(home)
    found = asyncio.run(examine(os.environ))
    counts = Counter(finding.state.value for finding in found)
    if as_json:
        shown = [{"check": one.check, "state": one.state.value, "detail": one.words, "toDo": one.fix} for one in found]
        print_json({"problems": counts["problem"], "warnings": counts["warning"], "findings": shown})
    else:
        for finding in found:
            _print(finding)
        console().print(_summary(counts))
    # The object storage library has its own threads; one that is busy at exit would abort the process.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(FAILED if counts["problem"] else 0)


def _print(finding: Finding) -> None:
    """Wrapped and indented on a terminal; one line in a pipe, for grep."""
    state = finding.state.value
    words = f"{finding.check}: {clean(finding.words)}" + (f" → {clean(finding.fix)}" if finding.fix else "")
    if width := terminal_width():
        indent = " " * _WIDTH
        words = textwrap.fill(
            words, width - 1, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ).lstrip()
    console().print(Text.assemble((state.ljust(_WIDTH), _STYLES[state]), words), soft_wrap=True)


def _summary(counts: Counter[str]) -> str:
    found = {state: counts[state] for state in ("problem", "warning") if counts[state]}
    named = [f"{count} {state}{'' if count == 1 else 's'}" for state, count in found.items()]
    return f"{' and '.join(named)}." if named else "All is well."
