"""The results as tables on the terminal, in Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.peer import Description

NONE = "–"  # noqa: RUF001 - the sign for "has no such thing" in tables


@dataclass
class Result:
    """What became of one peer."""

    name: str
    description: Description | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    skipped: str = ""
    server_version: str = ""
    durability: str = ""

    @property
    def title(self) -> str:
        """For people."""
        return self.description.title if self.description else self.name

    def show(self, measure: str, figure: str, form: Callable[[Any], str]) -> str:
        """One cell."""
        figures = self.figures.get(measure)
        if figures is None:
            return NONE
        if "failed" in figures:
            return "failed"
        value = figures.get(figure)
        return NONE if value is None else form(value)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:,.0f} ms" if abs(value) >= 10 else f"{value:.1f} ms"  # noqa: PLR2004


def _seconds(value: float) -> str:
    return f"{value:.2f}"


def _early(result: Result) -> str:
    early = result.show("burst", "early", _count)
    return early if early in (NONE, "failed", "0") else f"{early} (by {_milliseconds(-_earliest(result))})"


def _earliest(result: Result) -> float:
    return float(result.figures["burst"]["earliest"])


def _of(result: Result, measure: str, figure: str) -> str:
    share = result.show(measure, figure, _count)
    return share if share in (NONE, "failed") else f"{share} of {result.show(measure, 'of', _count)}"


Column = tuple[str, Callable[[Result], str]]

THROUGHPUT: list[Column] = [
    ("", lambda result: result.title),
    ("durability", lambda result: result.durability),
    ("submit/s", lambda result: result.show("submit", "rate", _count)),
    ("drain/s", lambda result: result.show("drain", "rate", _count)),
    ("end to end/s", lambda result: result.show("end_to_end", "rate", _count)),
    ("with", lambda result: result.show("end_to_end", "variant", str)),
    ("end to end/s, appendonly everysec", lambda result: result.show("append_only", "rate", _count)),
]
COST: list[Column] = [
    ("", lambda result: result.title),
    ("CPU s per 1,000 jobs: library", lambda result: result.show("end_to_end", "library_cpu_per_1000", _seconds)),
    ("server", lambda result: result.show("end_to_end", "server_cpu_per_1000", _seconds)),
    ("WAL bytes per job", lambda result: result.show("end_to_end", "wal_bytes_per_job", _count)),
    ("peak RSS, MB", lambda result: result.show("end_to_end", "peak_megabytes", _count)),
    ("kept after a job", lambda result: result.description.keeps if result.description else NONE),
]
PUNCTUALITY: list[Column] = [
    ("", lambda result: result.title),
    ("at one instant: started", lambda result: _of(result, "burst", "started")),
    ("p50", lambda result: result.show("burst", "p50", _milliseconds)),
    ("p99", lambda result: result.show("burst", "p99", _milliseconds)),
    ("last", lambda result: result.show("burst", "max", _milliseconds)),
    ("early", _early),
    ("evenly spaced: p50", lambda result: result.show("even", "p50", _milliseconds)),
    ("p99", lambda result: result.show("even", "p99", _milliseconds)),
    ("max", lambda result: result.show("even", "max", _milliseconds)),
    ("schedules: fired", lambda result: _of(result, "schedules", "fired")),
    ("p99 off", lambda result: result.show("schedules", "p99", _milliseconds)),
]
TABLES = {"Throughput": THROUGHPUT, "Cost, end to end": COST, "Punctuality": PUNCTUALITY}

EXPLANATION = """\
One machine, one library after the other, each alone on a server of its own and every measure on an empty database. A
job does nothing but count itself in shared memory. Every library acknowledges a job after it has run; submissions are
acknowledged by the server before they count. Submitter and workers are separate processes; one and two worker processes
were tried and the better figure is shown.

- **submit**: one process submits, nobody works. In bulk where the library has a call for it.
- **drain**: the backlog waits, then the workers start; the clock runs from when all of them work.
- **end to end**: submitter and workers at once, from the first submission to the last job's run, about ten seconds.
- **CPU**: of all processes of the library (submitter, workers, and whatever else it needs) and of the server.
- **peak RSS**: the largest resident size of all of the library's processes but the submitter, added up.
- **at one instant**: {burst} jobs due at the same moment; how late they start.
- **evenly spaced**: {even} jobs, one due every {step:.0f} ms.
- **schedules**: {schedules} schedules that fire every second, for {seconds} seconds. Off: from the whole second; for
  libraries with intervals only, from being a second apart.

Memory-only Redis loses everything when it or the machine goes down; `appendonly everysec` up to about a second;
PostgreSQL with fsync at every commit nothing that was accepted. The figures compare libraries as they are used, not
equal guarantees.
"""


def machine(*, short: bool) -> dict[str, Any]:
    """What it ran on. No names of hosts or people."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "short": short,
    }


def print_tables(results: list[Result]) -> None:
    """For the terminal."""
    console = Console(width=None if Console().is_terminal else 200)
    for name, columns in TABLES.items():
        table = Table(title=name, title_justify="left")
        for heading, _ in columns:
            table.add_column(heading, overflow="fold")
        for result in results:
            if result.figures:
                table.add_row(*(cell(result) for _, cell in columns))
        console.print(table)
    for line in _footnotes(results):
        console.print(line, markup=False, highlight=False)


def write(folder: Path, results: list[Result], facts: dict[str, Any], sizes: Any) -> None:
    """peers.json and peers.md."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": facts, "sizes": asdict(sizes), "peers": [_as_data(result) for result in results]}
    (folder / "peers.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    (folder / "peers.md").write_text(_markdown(results, facts, sizes))


def _as_data(result: Result) -> dict[str, Any]:
    description = result.description
    kept = ("title", "versions", "python", "keeps", "settings", "notes")
    return {
        "name": result.name,
        **({key: getattr(description, key) for key in kept} if description else {}),
        "durability": result.durability,
        "server_version": result.server_version,
        "skipped": result.skipped or None,
        "figures": result.figures,
    }


def _markdown(results: list[Result], facts: dict[str, Any], sizes: Any) -> str:
    parts = ["# Rota and its peers\n", _facts(results, facts)]
    if facts["short"]:
        parts.append("**A short run that shows that the benchmark works. Its figures mean nothing.**\n")
    parts.append(
        EXPLANATION.format(
            burst=f"{sizes.burst:,}",
            even=f"{sizes.even:,}",
            step=sizes.even_step * 1000,
            schedules=f"{sizes.schedules:,}",
            seconds=sizes.schedule_seconds,
        )
    )
    for name, columns in TABLES.items():
        parts.append(f"## {name}\n\n{_markdown_table(results, columns)}")
    if notes := _footnotes(results):
        parts.append("## Notes\n\n" + "".join(f"- {note}\n" for note in notes))
    parts.append("## Versions and settings\n\n" + "".join(_settings(result) for result in results))
    return "\n".join(parts)


def _facts(results: list[Result], facts: dict[str, Any]) -> str:
    servers = {result.durability.split(",")[0]: result.server_version for result in results if result.server_version}
    named = ", ".join(f"{name} {version}" for name, version in sorted(servers.items()))
    return (
        f"{facts['date']}. {facts['cores']} cores ({facts['processor']}), {facts['memory_gb']} GB, {facts['system']}, "
        f"Python {facts['python']}, {named}.\n"
    )


def _markdown_table(results: list[Result], columns: list[Column]) -> str:
    lines = ["| " + " | ".join(heading for heading, _ in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(result) for _, cell in columns) + " |" for result in results if result.figures]
    return "\n".join(lines) + "\n"


def _footnotes(results: list[Result]) -> list[str]:
    """What a cell does not say: missing features, failures, repetitions."""
    notes = [f"{result.title}: not measured: {result.skipped}" for result in results if result.skipped]
    for result in results:
        for measure, text in (result.description.notes if result.description else {}).items():
            notes.append(f"{result.title}, {measure}: {text}")
        for measure, figures in result.figures.items():
            if isinstance(figures, dict) and "failed" in figures:
                notes.append(f"{result.title}, {measure}: {figures['failed']}")
            if isinstance(figures, dict) and figures.get("ran_twice", 0) > 0:
                notes.append(f"{result.title}, {measure}: {figures['ran_twice']} jobs ran more than once")
    return notes


def _settings(result: Result) -> str:
    if result.description is None:
        return ""
    versions = ", ".join(f"{name} {version}" for name, version in result.description.versions.items())
    return f"- **{result.title}** ({versions}): {result.description.settings}\n"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
