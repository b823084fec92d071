"""The command `rota top`: throughput, lag, pools, workers and running runs on one screen."""

from __future__ import annotations

import json
import sys
import time as clock
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import typer
from rich.text import Text

from rota.cli.run_figures import show_share
from rota.cli.terminal.live_view import Lines, is_live, show_live
from rota.cli.terminal.output import JsonFlag, server
from rota.cli.terminal.tables import Column, clean, console, status, table_lines, terminal_width, text
from rota.cli.terminal.times import show_age, show_seconds, show_time
from rota.client import Client

_MOST_RUNNING = 100
_LABEL_WIDTH = 11
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "._-=+*%#"
_ALARMING_SECONDS = 10.0
_POOR_RATE = 0.95


def top(
    interval: float = typer.Option(2.0, "--interval", "-i", min=0.5, max=3600, help="Seconds between updates."),
    window_seconds: int = typer.Option(15, "--window", min=10, max=600, help="Seconds that rates and lags cover."),
    once: bool = typer.Option(False, "--once", help="Print once and exit."),
    as_json: bool = JsonFlag,
) -> None:
    """Show throughput, lag, pools, workers and running runs.

    Updates every two seconds; q or Ctrl-C quits. In a pipe and with --once it prints once. With --json it prints the
    answer of `GET /v1/stats` as one line per update.
    """
    with server(top) as client:
        try:
            if as_json:
                _print_json(client, window_seconds, interval, once=once)
            elif once or not is_live():
                for line in _draw(_poll(client, window_seconds), terminal_width(), None):
                    console().print(line, soft_wrap=True)
            else:
                show_live(
                    lambda width, height: _draw(_poll(client, window_seconds), width, height),
                    seconds=interval,
                    whole_screen=True,
                )
        except KeyboardInterrupt:
            return


def _print_json(client: Client, window: int, interval: float, *, once: bool) -> None:
    while True:
        sys.stdout.write(json.dumps(client.call("GET", "/v1/stats", query={"windowSeconds": window})) + "\n")
        sys.stdout.flush()
        if once:
            return
        clock.sleep(interval)


def _poll(client: Client, window: int) -> dict[str, Any]:
    """The stats, the workers and the running runs."""
    found: dict[str, Any] = client.call("GET", "/v1/stats", query={"windowSeconds": window})
    found["url"] = client.url
    found["fleet"] = client.call("GET", "/v1/workers")["items"]
    found["runs"] = client.call("GET", "/v1/runs", query={"status": "running", "limit": _MOST_RUNNING})["items"]
    return found


def _draw(found: Mapping[str, Any], width: int | None, height: int | None) -> Lines:
    """The whole screen. Without room for all tables the last ones are cut or left out."""
    lines = _header(found, width)
    for part in (_pools(found, width), _workers(found, width), _running(found, width)):
        room = None if height is None else height - len(lines) - 2
        if room is not None and room < 3:  # noqa: PLR2004 - a heading, a row, and the count of the others
            break
        if room is not None and len(part) > room:
            part = [*part[: room - 1], Text(f"… {len(part) - room + 1} more", "dim")]  # noqa: PLW2901 - cut to fit
        lines += [Text(""), *part]
    return lines


def _header(found: Mapping[str, Any], width: int | None) -> Lines:
    rates, figures, oldest = found["perSecond"], _figures(found), found["oldestQueuedSeconds"]
    lag = figures["startLag"]
    late = oldest is not None and oldest > _ALARMING_SECONDS
    age = "-" if oldest is None else show_seconds(oldest, exact=True)
    fleet = ", ".join(f"{count} {name}" for name, count in sorted(found["workers"].items()))
    parts: list[tuple[str, list[tuple[str, str]]]] = [
        ("rota top", [(clean(found["url"]), ""), (show_time(found["time"]), "")]),
        (
            "figures",
            [
                (f"success {show_share(figures['successRate'])}", "red" if _is_poor(figures["successRate"]) else ""),
                (f"retried {show_share(figures['retryRate'])}", ""),
                (f"slots busy {show_share(figures['workerUtilisation'])}", ""),
                (f"queue {_at_least(found, figures['queueDepth'], 'queued')}", "yellow" if late else ""),
                (f"dead letters {_count(found, 'deadLetters')}", "red" if figures["deadLetters"] else ""),
            ],
        ),
        (
            "per second",
            [
                (f"started {_number(rates['started'])}", ""),
                (f"success {_number(rates['succeeded'])}", ""),
                (f"failed {_number(rates['failed'])}", "red" if rates["failed"] else ""),
                (f"retried {_number(rates['retried'])}", ""),
            ],
        ),
        (
            "start lag",
            [
                *((f"{name} {_lag(lag[name])}", "") for name in ("p50", "p95", "p99")),
                (f"(of the last {found['windowSeconds']:g} s)", "dim"),
            ],
        ),
        (
            "waiting",
            [
                (f"queued {_count(found, 'queued')}", ""),
                (f"oldest {age}", "yellow" if late else ""),
                *((f"{name} {_count(found, name)}", "") for name in ("retrying", "blocked", "scheduled")),
            ],
        ),
        (
            "now",
            [
                (f"running {_count(found, 'running')}", ""),
                (f"workers {fleet or 'none'}", ""),
            ],
        ),
    ]
    lines = [line for label, words in parts for line in _fold(label, words, width)]
    if chart := _chart(found, (width or 80) - _LABEL_WIDTH):
        lines.append(Text.assemble(("10 minutes".ljust(_LABEL_WIDTH), "bold"), chart))
    return lines


def _fold(label: str, words: Sequence[tuple[str, str]], width: int | None) -> Lines:
    """A line that begins with its label, wrapped to the width."""
    lines = [Text(label.ljust(_LABEL_WIDTH), "bold")]
    for content, style in words:
        if width is not None and lines[-1].cell_len + len(content) > width and lines[-1].plain.strip() != label:
            lines.append(Text("  "))
        lines[-1].append(content, style or "not bold").append("  ", "not bold")
    for line in lines:
        line.rstrip()
    return lines


def _figures(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The six figures; of a server of an older release, those that it gives."""
    given: Mapping[str, Any] | None = found.get("figures")
    return given or {
        "successRate": None,
        "startLag": {"p95": None} | found["startLag"],
        "queueDepth": found["counts"]["queued"],
        "workerUtilisation": None,
        "retryRate": found["retryRate"],
        "deadLetters": found["counts"]["deadLetters"],
    }


def _is_poor(rate: float | None) -> bool:
    return rate is not None and rate < _POOR_RATE


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 or rate == 0 else f"{rate:.3g}"  # noqa: PLR2004 - where decimals say nothing


def _lag(seconds: float | None) -> str:
    return "-" if seconds is None else f"≤{show_seconds(seconds, exact=True)}"


def _count(found: Mapping[str, Any], name: str) -> str:
    return _at_least(found, found["counts"][name], name)


def _at_least(found: Mapping[str, Any], number: int, name: str) -> str:
    return f"{number:,}" + ("+" if name in found["atLeast"] else "")


def _chart(found: Mapping[str, Any], room: int) -> str:
    """Starts over the last ten minutes as a bar chart."""
    history = found["history"]
    if not history or room < 10:  # noqa: PLR2004 - less shows nothing
        return ""
    end = datetime.fromisoformat(found["time"]).timestamp()
    bins = min(room, 60)
    heights = [0] * bins
    for moment in history:
        age = end - datetime.fromisoformat(moment["time"]).timestamp()
        index = bins - 1 - int(age / 600 * bins)
        if 0 <= index < bins:
            heights[index] += moment["started"]
    bars = _BARS if (console().encoding or "").lower().startswith("utf") else _PLAIN_BARS
    most = max(heights) or 1
    return "".join(bars[min(7, (height * 8 - 1) // most)] if height else " " for height in heights)


def _pools(found: Mapping[str, Any], width: int | None) -> Lines:
    columns = (
        text("POOL", "pool", least=8),
        Column(heading="STATUS", show=lambda pool: "paused" if pool["paused"] else "open", colour=True),
        Column(heading="RUN/SLOTS", show=lambda pool: f"{pool['running']}/{pool['slots']}"),
        Column(heading="QUEUED", show=lambda pool: _at_least(found, pool["queued"], "queued")),
        Column(heading="OLDEST", show=lambda pool: _age(pool["oldestQueuedSeconds"]), drop=2),
        Column(heading="STARTS/S", show=lambda pool: _number(pool["perSecond"]["started"]), drop=3),
        Column(heading="FAILED/S", show=lambda pool: _number(pool["perSecond"]["failed"]), drop=4),
        Column(heading="LAG P99", show=lambda pool: _lag(pool["startLag"]["p99"]), drop=1),
    )
    return _table(found["pools"], columns, width, none="No pools: no worker is running. Start one: rota worker")


def _age(seconds: float | None) -> str:
    return "" if seconds is None else show_seconds(seconds, exact=True)


def _workers(found: Mapping[str, Any], width: int | None) -> Lines:
    there = [worker for worker in found["fleet"] if worker["status"] != "gone"]
    columns = (
        text("WORKER", "workerId", least=10),
        text("HOST", "host", drop=2, least=8),
        text("PID", "pid", drop=3),
        status(),
        Column(heading="BUSY", show=lambda worker: f"{worker['busy']}/{worker['slots']}"),
        Column(heading="POOLS", show=lambda worker: ",".join(worker["pools"]), least=7, drop=4),
        Column(heading="BEAT", show=lambda worker: show_age(worker["lastBeat"]), drop=1),
    )
    return _table(there, columns, width, none="No workers. Start one: rota worker")


def _running(found: Mapping[str, Any], width: int | None) -> Lines:
    """The latest hundred runs, longest running first."""
    runs = sorted(found["runs"], key=lambda run: run["startTime"] or "~")
    columns = (
        text("RUNNING NOW" if len(runs) < _MOST_RUNNING else f"LATEST {_MOST_RUNNING} RUNNING", "runId"),
        text("NAME", "name", least=8),
        text("TASK", "task", least=8, drop=2),
        Column(heading="FOR", show=lambda run: _since(found["time"], run["startTime"])),
        text("PROGRESS", "progress", drop=1),
    )
    return _table(runs, columns, width, none="Nothing is running.")


def _since(now: str, start: str | None) -> str:
    if not start:
        return ""
    passed = datetime.fromisoformat(now) - datetime.fromisoformat(start)
    return show_seconds(passed.total_seconds(), exact=True)


def _table(items: Sequence[Any], columns: Sequence[Column], width: int | None, *, none: str) -> Lines:
    return table_lines(items, columns, width) if items else [Text(none, "dim")]
