"""The command `rota bench`: measures a server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec
import typer

from rota.cli.terminal.output import JsonFlag, print_json, say, server
from rota.cli.terminal.tables import print_line
from rota.client.answers import unreachable
from rota.client.http_messages import ExchangeError
from rota.settings import Settings

if TYPE_CHECKING:
    from rota.ops.bench import BenchFigures
    from rota.ops.bench_load import Spread


def bench(
    jobs: int = typer.Option(20_000, "--jobs", min=1000, max=1_000_000, help="Jobs in the burst."),
    seconds: float = typer.Option(10.0, "--seconds", min=1, max=600, help="Length of the steady phases."),
    patience: float = typer.Option(300.0, "--patience", min=1, help="Seconds to wait for the workers."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Don't ask."),
    as_json: bool = JsonFlag,
) -> None:
    """Measure a running server: throughput and start lag.

    Submits jobs of the built-in task rota.echo to the pool 'default' and reads their records. They stay in the history.
    """
    import asyncio  # noqa: PLC0415 - takes longer than the rest of the help texts

    from rota.ops.bench import ServerBench  # noqa: PLC0415 - loads an HTTP library

    with server() as client:
        client.call("GET", "/v1/workers")  # fails before submitting if the key can't read them
        settings = Settings.from_environment()
        if not yes and sys.stdin.isatty():
            question = f"This runs about {jobs * 2:,} jobs on {client.url}; they stay in its history. Continue?"
            typer.confirm(question, abort=True)
        measured = ServerBench(client.url, settings.token, patience_seconds=patience, say=lambda text: say(text, "dim"))
        try:
            figures = asyncio.run(measured.measure(jobs=jobs, seconds=seconds))
        except ExchangeError as error:
            raise unreachable(client.url, error) from error
        if as_json:
            print_json(msgspec.to_builtins(figures))
        else:
            _show(figures)


def _show(figures: BenchFigures) -> None:
    throughput, http = figures.throughput, figures.http
    rows = (
        ("accepted in batches", f"{throughput.accepted_per_second:,.0f} jobs/s", _refusals(throughput.refused)),
        ("run and recorded", f"{throughput.end_to_end_per_second:,.0f} jobs/s", f"{throughput.jobs:,} jobs"),
        ("start lag, due at one instant", *_lag(figures.instant)),
        ("start lag, spread evenly", *_lag(figures.steady)),
        (
            "single jobs accepted",
            f"{http.accepted_per_second:,.0f} jobs/s",
            f"p50 {http.latency.p50:.1f} ms, p99 {http.latency.p99:.1f} ms{_refusals(http.refused, ', ')}",
        ),
    )
    for what, figure, remark in rows:
        print_line(f"{what:<30}{figure:>18}   {remark}")


def _lag(lag: Spread) -> tuple[str, str]:
    early = f", {lag.negative} early" if lag.negative else ""
    return f"p99 {lag.p99:.1f} ms", f"p50 {lag.p50:.1f} ms, last {lag.highest:.1f} ms{early}"


def _refusals(refused: int, before: str = "") -> str:
    return f"{before}{refused} requests were rejected and retried (overload)" if refused else ""
