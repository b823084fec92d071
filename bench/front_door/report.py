"""Medians, ratios and what each round gave: on the terminal, in Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.front_door.measures import Measure, Turn
from bench.peers.measuring import Figures
from bench.peers.reporting import NONE

PARTS = {"client": "client", "beside": "API", "workers": "workers", "server": "PostgreSQL"}
HEADINGS = (
    "",
    "",
    "per second",
    "ratio",
    "each round",
    "CPU µs each",
    "CPU ratio",
    "p50, p99 ms",
    "WAL bytes",
    "load; others",
)

EXPLANATION = """\
Both sides with jobs of three typed arguments (int, str, float; some 100 bytes of JSON), on PostgreSQL of their own
with the same settings and fsync at every commit, on uvloop, in one run: both are up at the same time and take turns
every second or so, round by round; drain and end to end begin with an empty database each time. Rota is used through
its SDK as a program uses it, over HTTP with a token unless the line says otherwise. PGQueuer is used as its
documentation shows: `enqueue` on a connection of asyncpg, arguments as JSON.

- **per second**: jobs (or calls), the median of {rounds} rounds.
- **ratio**: Rota's figure divided by PGQueuer's of the same round (the best, where there are several; one by one, where
  the line says so); the median, and the lowest and highest.
- **CPU**: processor time for each job by the processes' own clocks: of the program that submits, of Rota's API with its
  scheduler, of the workers, and of all processes of PostgreSQL.
- **CPU ratio**: the sum of Rota's parts divided by the sum of PGQueuer's. A busy machine disturbs it least.
- **WAL**: bytes of write-ahead log for each job, with whatever else was written meanwhile.
- **load; others**: load average when the turn began; how many cores were busy meanwhile with anything else. Figures of
  rounds in which others were busy are worth little.
- The bare server is plain ASGI on uvicorn and httptools that answers a constant: it is what one more server on the way
  costs at least. Its CPU stands as that of workers.
"""


@dataclass
class Taken:
    """What the rounds of one measure gave, turn by turn."""

    measure: Measure
    rounds: list[list[Figures]] = field(default_factory=list)

    def of(self, number: int) -> list[Figures]:
        """The figures of one of its turns in the rounds in which it could be taken."""
        return [figures[number] for figures in self.rounds if "failed" not in figures[number]]

    def reason(self, number: int) -> str | None:
        """Why a turn has no figures."""
        failed = [figures[number]["failed"] for figures in self.rounds if "failed" in figures[number]]
        return failed[0] if failed and not self.of(number) else None

    def middle(self, number: int, name: str, part: str | None = None) -> float | None:
        """The median of a figure."""
        values = [figures.get(name) for figures in self.of(number)]
        found = [
            value[part] if part else value for value in values if value is not None and (not part or part in value)
        ]
        return median(found) if found else None

    @property
    def ratios(self) -> list[float]:
        """Rota's figure divided by its yardstick's, or the best of several, round by round."""
        return [own["rate"] / best["rate"] for own, best in self._pairs()]

    @property
    def cpu_ratios(self) -> list[float]:
        """The same of the processor time of all parts together."""
        return [_whole(own) / _whole(best) for own, best in self._pairs() if _whole(best) > 0]

    def _pairs(self) -> list[tuple[Figures, Figures]]:
        found = []
        for own, *others in self.rounds:
            pairs = zip(self.measure.turns[1:], others, strict=True)
            yardsticks = [other for turn, other in pairs if turn.yardstick and "failed" not in other]
            if "failed" not in own and yardsticks:
                found.append((own, max(yardsticks, key=lambda figures: figures["rate"])))
        return found


def write(folder: Path, taken: list[Taken], facts: dict[str, Any]) -> None:
    """front_door.json and front_door.md."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": facts, "measures": [_as_data(one) for one in taken]}
    (folder / "front_door.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    (folder / "front_door.md").write_text(_markdown(taken, facts))


def print_tables(taken: list[Taken]) -> None:
    """For the terminal."""
    console = Console(width=None if Console().is_terminal else 180)
    table = Table(title="The way users submit", title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for one in taken:
        for row in _rows(one):
            table.add_row(*row)
        table.add_section()
    console.print(table)
    for line in _statements(taken):
        console.print(line, highlight=False)


def _markdown(taken: list[Taken], facts: dict[str, Any]) -> str:
    head = (
        f"{facts['date']}. {facts['cores']} cores ({facts['processor']}), {facts['memory_gb']} GB, {facts['system']}, "
        f"Python {facts['python']}, PostgreSQL {facts['postgres']}, PGQueuer {facts.get('pgqueuer', NONE)}. "
        f"Load average {facts['load_before']:.1f} at the beginning, {facts['load_after']:.1f} at the end.\n"
    )
    parts = ["# The way users submit\n", head]
    if facts["short"]:
        parts.append("**A short run that shows that the benchmark works. Its figures mean nothing.**\n")
    parts.append(EXPLANATION.format(rounds=facts["rounds"]))
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(row) + " |" for one in taken for row in _rows(one)]
    parts.append("\n".join(lines) + "\n")
    if found := _statements(taken):
        parts.append("".join(f"- {line}\n" for line in found))
    return "\n".join(parts)


def _rows(taken: Taken) -> list[tuple[str, ...]]:
    return [_row(taken, number, turn) for number, turn in enumerate(taken.measure.turns) if not turn.logged]


def _row(taken: Taken, number: int, turn: Turn) -> tuple[str, ...]:
    title = taken.measure.title if number == 0 else ""
    if reason := taken.reason(number):
        return (title, turn.label, reason, *[NONE] * (len(HEADINGS) - 3))
    return (
        title,
        turn.label,
        _count(taken.middle(number, "rate")),
        middle_and_range(taken.ratios) if number == 0 else "",
        ", ".join(_count(figures["rate"]) for figures in taken.of(number)),
        _parts(taken, number),
        middle_and_range(taken.cpu_ratios) if number == 0 else "",
        _latency(taken, number),
        _count(taken.middle(number, "wal_bytes_per_job")),
        _load(taken, number),
    )


def _whole(figures: Figures) -> float:
    return float(sum(figures["microseconds"].get(part, 0.0) for part in PARTS))


def middle_and_range(ratios: list[float]) -> str:
    """For people."""
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else NONE


def _parts(taken: Taken, number: int) -> str:
    found = {name: taken.middle(number, "microseconds", part) for part, name in PARTS.items()}
    return ", ".join(f"{name} {_small(value)}" for name, value in found.items() if value)


def _latency(taken: Taken, number: int) -> str:
    p50, p99 = taken.middle(number, "p50_ms"), taken.middle(number, "p99_ms")
    return NONE if p50 is None or p99 is None else f"{p50:.2f}, {p99:.1f}"


def _load(taken: Taken, number: int) -> str:
    others = [figures["microseconds"]["elsewhere"] * figures["rate"] / 1e6 for figures in taken.of(number)]
    # Of a second or so, clocks that tick a hundred times a second can make less than nothing.
    return f"{taken.middle(number, 'load'):.1f}; {max(0.0, median(others)):.2f}"


def _statements(taken: list[Taken]) -> list[str]:
    """How many statements a submission takes, and which."""
    found = []
    for one in taken:
        for number, turn in enumerate(one.measure.turns):
            if turn.logged and (rounds := one.of(number)):
                statements = rounds[-1]["statements"]
                texts = "; ".join(f"`{text}`" for text in statements)
                found.append(f"{turn.label}: {sum(statements.values()):.1f} statements for one submission: {texts}")
    return found


def _as_data(taken: Taken) -> dict[str, Any]:
    ratios = taken.ratios
    return {
        "name": taken.measure.name,
        "title": taken.measure.title,
        "ratio": median(ratios) if ratios else None,
        "ratios": ratios,
        "cpu_ratios": taken.cpu_ratios,
        "turns": [
            {
                "label": turn.label,
                "work": turn.work,
                "rate": taken.middle(number, "rate"),
                "not_measured": taken.reason(number),
                "rounds": [figures[number] for figures in taken.rounds],
            }
            for number, turn in enumerate(taken.measure.turns)
        ],
    }


def _count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def _small(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"  # noqa: PLR2004
