"""`make bench`, or `python -m bench`: everything, or the scenarios that are named."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from bench.archive import measure_archive
from bench.bloat import measure_bloat
from bench.figures import measure_figures
from bench.gates import measure_gates
from bench.growth import measure_growth
from bench.http import measure_http
from bench.idle import measure_idle
from bench.lists import measure_lists
from bench.logs import measure_logs
from bench.observability import measure_observability
from bench.operations import measure_operations
from bench.progress import Progress
from bench.punctuality import measure_punctuality
from bench.readers import measure_readers
from bench.report import RESULTS, Results, describe_machine, print_table, results_before, write_report
from bench.sdk import measure_sdk
from bench.tenants import measure_tenants
from bench.throughput import measure_throughput
from bench.workflows import measure_workflows
from rota.telemetry import configure_logging

Measure = Callable[[Progress], Awaitable[Any]]


def scenarios(*, length: str) -> dict[str, Measure]:
    """The scenarios by name, each in a length: short (seconds, for tests), usual (minutes), whole (an hour)."""
    pick = {"short": 0, "usual": 1, "whole": 2}[length]

    def one(*choices: Any) -> Any:
        return choices[pick]

    return {
        "throughput": lambda progress: measure_throughput(
            progress, seconds=one(2.0, 60.0, 60.0), backlog=one(20_000, 100_000, 200_000)
        ),
        "punctuality": lambda progress: measure_punctuality(
            progress,
            at_one_instant=one(500, 10_000, 10_000),
            steady_seconds=one(1.0, 30.0, 30.0),
            schedules=one(200, 10_000, 10_000),
        ),
        "http": lambda progress: measure_http(progress, seconds=one(1.0, 3.0, 10.0), turns=one(1, 5, 5)),
        "growth": lambda progress: measure_growth(
            progress, sizes=one([1000], [1_000_000], [1_000_000, 10_000_000]), seconds=one(1.0, 10.0, 20.0)
        ),
        "gates": lambda progress: measure_gates(
            progress, keys=one(500, 20_000, 100_000), chain=one(20, 500, 1000), seconds=one(1.0, 5.0, 10.0)
        ),
        "sdk": lambda progress: measure_sdk(progress, runs=one(10, 200, 500), many=one(200, 20_000, 20_000)),
        "tenants": lambda progress: measure_tenants(progress, requests=one(10_000, 300_000, 1_000_000)),
        "bloat": lambda progress: measure_bloat(progress, seconds=one(3.0, 60.0, 600.0)),
        "readers": lambda progress: measure_readers(progress, seconds=one(1.0, 30.0, 120.0)),
        "operations": lambda progress: measure_operations(progress, seconds=one(1.0, 10.0, 20.0), turns=one(1, 5, 7)),
        "observability": lambda progress: measure_observability(
            progress, seconds=one(1.0, 4.0, 20.0), turns=one(1, 5, 11)
        ),
        "workflows": lambda progress: measure_workflows(
            progress, chain=one(10, 200, 200), nodes=one(100, 10_000, 10_000), members=one(500, 200_000, 1_000_000)
        ),
        "lists": lambda progress: measure_lists(
            progress, others=one(5000, 1_000_000, 10_000_000), seconds=one(1.0, 5.0, 10.0), turns=one(1, 5, 7)
        ),
        "figures": lambda progress: measure_figures(progress, days=one(1, 35, 35), turns=one(1, 5, 9)),
        "archive": lambda progress: measure_archive(
            progress,
            runs=one(2000, 100_000, 3_000_000),
            days=one(2, 5, 30),
            seconds=one(0.5, 8.0, 10.0),
            turns=one(1, 3, 5),
        ),
        "logs": lambda progress: measure_logs(
            progress,
            lines=one(20_000, 1_000_000, 10_000_000),
            written=one(2000, 50_000, 100_000),
            turns=one(1, 5, 5),
        ),
        "idle": lambda progress: measure_idle(
            progress, upcoming=one(1000, 100_000, 100_000), seconds=one(1.0, 20.0, 60.0)
        ),
    }


async def run(names: Sequence[str], *, length: str, output: Path) -> Results:
    """Runs the scenarios, prints the table and writes the report; those not named keep what was measured before."""
    progress = Progress()
    results = await asyncio.to_thread(results_before, output) if names else Results(describe_machine())
    chosen = scenarios(length=length)
    for name in names or chosen:
        progress.title(name)
        setattr(results, name, await chosen[name](progress))
    console = Console(highlight=False)
    print_table(results, console)
    page = await asyncio.to_thread(write_report, results, output)
    console.print(f"\nWritten to {page.parent}", soft_wrap=True)
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of Rota on this machine.")
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=f"of {', '.join(scenarios(length='usual'))}")
    parser.add_argument("--short", dest="length", action="store_const", const="short", help="seconds; proves nothing")
    parser.add_argument(
        "--whole", dest="length", action="store_const", const="whole", help="10 million runs, 10 minutes of bloat"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="where the report goes")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(scenarios(length="usual")):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    configure_logging(level="warning", json=False, role="bench")
    uvloop.run(run(chosen.names, length=chosen.length or "usual", output=chosen.output))


if __name__ == "__main__":
    main()
