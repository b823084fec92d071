"""What comes out: a table on the terminal, a JSON file, and a page with charts."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import msgspec
from rich.console import Console
from rich.table import Table

from bench.archive import ArchiveFigures
from bench.bloat import Bloat
from bench.charts import bar_chart, line_chart
from bench.figures import FigureCosts
from bench.gates import Gates
from bench.growth import Size
from bench.http import Http
from bench.http_load import Answers
from bench.idle import Idle
from bench.lists import Lists
from bench.logs import LogFigures
from bench.observability import Observability
from bench.operations import OperationLags
from bench.punctuality import Punctuality
from bench.readers import Readers
from bench.sdk import Sdk
from bench.tenants import Tenants
from bench.throughput import WINDOW_SECONDS, Throughput
from bench.workflows import WorkflowFigures
from rota.ops.bench_load import Spread

MIB = 1024 * 1024
RESULTS = Path("bench/results")
Row = tuple[str, str, str]
# The rows that the project's README shows, and what it calls them.
_README_ROWS = {
    "end to end": "from submission (prepared JSON) to recorded result, sustained for a minute",
    "500 a second": "start lag at 500 runs a second",
    "all due at one instant": "start lag of 10,000 runs due at the same instant",
    "with 10,000,000 upcoming runs": "submission to result, with 10 million scheduled runs in the tables",
    "single POSTs": "single submissions over HTTP",
    "task.submit_many()": "submitted with the SDK, `submit_many()`, while workers run",
}
_README_FIGURES = re.compile(r"^\| what \| figure \|\n(?:\|.*\n)*", re.MULTILINE)


class Results(msgspec.Struct, omit_defaults=True):
    """Everything that was measured in one run, and on what."""

    machine: dict[str, str]
    throughput: Throughput | None = None
    punctuality: Punctuality | None = None
    http: Http | None = None
    growth: list[Size] | None = None
    gates: Gates | None = None
    sdk: Sdk | None = None
    tenants: Tenants | None = None
    bloat: Bloat | None = None
    readers: Readers | None = None
    operations: OperationLags | None = None
    archive: ArchiveFigures | None = None
    observability: Observability | None = None
    workflows: WorkflowFigures | None = None
    lists: Lists | None = None
    figures: FigureCosts | None = None
    logs: LogFigures | None = None
    idle: Idle | None = None


def describe_machine() -> dict[str, str]:
    """Facts that figures depend on; nothing that names the machine."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "rota": version("rota"),
        "asyncpg": version("asyncpg"),
        "postgresql": "18, embedded, fsync on",
        "system": f"{platform.system()} {platform.machine()}",
    }


def results_before(directory: Path) -> Results:
    """What was measured earlier with the same versions on as many cores; nothing where that is not so."""
    fresh = Results(describe_machine())
    try:
        before = msgspec.json.decode((directory / "results.json").read_bytes(), type=Results)
    except (OSError, msgspec.MsgspecError):
        return fresh
    same = all(before.machine.get(name) == value for name, value in fresh.machine.items() if name != "date")
    return msgspec.structs.replace(before, machine=fresh.machine) if same else fresh


def rows_of(results: Results) -> list[Row]:
    """(what, figure, remark) of everything measured."""
    rows: list[Row] = []
    rows += _throughput_rows(results.throughput) if results.throughput else []
    rows += _punctuality_rows(results.punctuality) if results.punctuality else []
    rows += _http_rows(results.http) if results.http else []
    rows += [_growth_row(size) for size in results.growth or []]
    rows += _gates_rows(results.gates) if results.gates else []
    rows += _sdk_rows(results.sdk) if results.sdk else []
    rows += _tenants_rows(results.tenants) if results.tenants else []
    rows += [_bloat_row(results.bloat)] if results.bloat else []
    rows += [_readers_row(results.readers)] if results.readers else []
    rows += [_operations_row(results.operations)] if results.operations else []
    rows += _observability_rows(results.observability) if results.observability else []
    rows += _workflow_rows(results.workflows) if results.workflows else []
    rows += _lists_rows(results.lists) if results.lists else []
    rows += [_figures_row(results.figures)] if results.figures else []
    rows += _archive_rows(results.archive) if results.archive else []
    rows += _log_rows(results.logs) if results.logs else []
    rows += [_idle_row(results.idle)] if results.idle else []
    return rows


def print_table(results: Results, console: Console) -> None:
    """The table at the end."""
    table = Table(box=None, pad_edge=False)
    for name in ("what", "figure", "remark"):
        table.add_column(name, justify="right" if name == "figure" else "left")
    for row in rows_of(results):
        table.add_row(*row)
    console.print()
    console.print(table)


def write_report(results: Results, directory: Path) -> Path:
    """results.json, the charts, and README.md with all of it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    charts = _charts(results)
    for name, chart in charts.items():
        (directory / f"{name}.svg").write_text(chart)
    lines = ["# Benchmark results", "", "Made by `make bench`. What is measured and how: `bench/README.md`.", ""]
    lines += [f"- {name}: {value}" for name, value in results.machine.items()]
    lines += ["", "| what | figure | remark |", "|---|---:|---|"]
    lines += [f"| {what} | {figure} | {remark} |" for what, figure, remark in rows_of(results)]
    lines += _layer_lines(results.http) if results.http else []
    lines += [line for name in charts for line in ("", f"![{name}]({name}.svg)")]
    page = directory / "README.md"
    page.write_text("\n".join(lines) + "\n")
    if directory == RESULTS:
        readme = Path("README.md")
        readme.write_text(readme_with_figures(readme.read_text(), results))
    return page


def readme_with_figures(readme: str, results: Results) -> str:
    """The project's README with its table of figures made anew."""
    figures = {what: figure for what, figure, _ in rows_of(results)}
    lines = ["| what | figure |", "|---|---:|"]
    lines += [f"| {words} | {figures[what]} |" for what, words in _README_ROWS.items() if what in figures]
    return _README_FIGURES.sub(lambda _: "\n".join(lines) + "\n", readme)


def _throughput_rows(it: Throughput) -> list[Row]:
    sustained = it.end_to_end
    memory = ", ".join(f"{role} {peak / MIB:.0f} MB" for role, peak in it.peak_memory_bytes.items())
    return [
        ("submit in batches", f"{it.submit_per_second:,.0f} jobs/s", "prepared JSON, no worker running"),
        ("drain, one worker", f"{it.drain_one_worker_per_second:,.0f} jobs/s", ""),
        ("drain, two workers", f"{it.drain_per_second:,.0f} jobs/s", ""),
        (
            "end to end",
            f"{sustained.per_second:,.0f} jobs/s",
            (
                f"{sustained.jobs:,} jobs from prepared JSON, all recorded; windows from "
                f"{min(sustained.windows):,.0f} to {max(sustained.windows):,.0f}"
            ),
        ),
        ("the raw SQL limit", f"{it.limit_per_second:,.0f} jobs/s", f"end to end is {it.share_of_limit:.0%} of it"),
        (
            "CPU for 1,000 jobs",
            f"{sustained.rota_cpu_ms_per_1000 + sustained.postgres_cpu_ms_per_1000:.0f} ms",
            f"Rota {sustained.rota_cpu_ms_per_1000:.0f} ms, PostgreSQL {sustained.postgres_cpu_ms_per_1000:.0f} ms",
        ),
        ("WAL", f"{sustained.wal_bytes_per_job:,.0f} bytes/job", ""),
        ("peak memory", f"{max(it.peak_memory_bytes.values()) / MIB:.0f} MB", memory),
    ]


def _http_rows(it: Http) -> list[Row]:
    remark = "p50 {:.1f} ms, p99 {:.1f} ms"

    def row(what: str, answers: Answers | None) -> list[Row]:
        if answers is None:
            return []
        words = remark.format(answers.p50_ms, answers.p99_ms)
        if answers.server_cpu_us:
            words += f"; {answers.server_cpu_us:.0f} µs of CPU each"
        return [(what, f"{answers.accepted_per_second:,.0f}/s", words)]

    shares = {"admin": it.rota, "a key with limits": it.limited, "with an idempotency key": it.keyed}
    bare = it.bare.accepted_per_second
    words = ", ".join(f"{name} {one.accepted_per_second / bare:.0%}" for name, one in shares.items() if one)
    return [
        *row("single POSTs", it.rota),
        *row("single POSTs, a key with limits", it.limited),
        *row("single POSTs with an idempotency key", it.keyed),
        *row("single POSTs, workers running", it.rota_with_workers),
        ("a bare route for the same body", f"{bare:,.0f}/s", f"single POSTs are of that: {words}"),
        *row("GET status, two API processes", it.statuses),
    ]


def _layer_lines(it: Http) -> list[str]:
    """What each layer of the API costs, as a table of its own."""
    if not it.layers:
        return []
    lines = ["", "CPU time of the server for one POST, each line with all above it:", "", "| | µs |", "|---|---:|"]
    return lines + [f"| {layer.name} | {layer.server_cpu_us:.0f} |" for layer in it.layers]


def _punctuality_rows(it: Punctuality) -> list[Row]:
    return [
        ("all due at one instant", *_lag(it.instant)),
        ("500 a second", *_lag(it.steady)),
        ("cron schedules on one second", *_lag(it.schedules)),
    ]


def _bloat_row(it: Bloat) -> Row:
    rates = f"{it.first_per_second:,.0f} jobs/s at first, {it.last_per_second:,.0f} at last"
    return (
        f"{it.seconds:g} s beside an open transaction",
        f"{it.share_kept:.0%} kept",
        f"{rates}; {it.dead_rows:,} dead rows",
    )


def _readers_row(it: Readers) -> Row:
    others = f"{it.quiet.waits.p99:,.0f} ms alone, {it.control.waits.p99:,.0f} beside four sessions that only compute"
    return (
        "3,000 jobs a second beside four sessions that scan the hot table",
        f"p99 {it.readers.waits.p99:,.0f} ms",
        f"{others}; at most {it.readers.dead_rows:,} dead rows, with autovacuum off",
    )


def _operations_row(it: OperationLags) -> Row:
    beside, alone = median(one.p99 for one in it.beside), median(one.p99 for one in it.alone)
    return (
        "500 a second beside a backfill",
        f"p99 {it.p99_ratio:.2f} times",
        (
            f"{beside:.1f} ms instead of {alone:.1f}; p50 {it.p50_ratio:.2f} times; {it.backfilled_per_second:,.0f} "
            "backfilled runs/s beside them"
        ),
    )


def _archive_rows(it: ArchiveFigures) -> list[Row]:
    return [
        (
            f"jobs/s while {it.runs:,} runs of {it.days} days are archived and dropped",
            f"{it.throughput_ratio:.0%}",
            (
                f"of those without; {it.cpu_ms_beside:,.0f} ms of CPU per 1000 jobs, with the archive's, "
                f"instead of {it.cpu_ms_alone:,.0f}; {it.archived_per_second:,.0f} runs/s, "
                f"{it.bytes_per_run:,.0f} bytes each"
            ),
        ),
        (
            "an archived run by its id",
            f"{it.id_ms:,.0f} ms",
            f"the runs of a job {it.job_ms:,.0f} ms, of an owner {it.owner_ms:,.0f} ms: a page, out of all days",
        ),
    ]


def _observability_rows(it: Observability) -> list[Row]:
    kinds = {
        "metrics with task label, StatsD, scraped each second": it.metrics,
        "the same, OTLP metrics, traces of 1 in 100": it.sampled,
        "the same with every trace": it.traced,
    }
    return [
        (
            words,
            f"{one.throughput_ratio:.1%} of the throughput without",
            f"{one.cpu_ratio:.1%} of the CPU time: {one.cpu_ms_per_1000:,.0f} ms per 1,000 jobs",
        )
        for words, one in kinds.items()
    ]


def _workflow_rows(it: WorkflowFigures) -> list[Row]:
    return [
        (
            "from the end of a node to the start of the next",
            f"p50 {it.chain.p50:.1f} ms",
            f"p99 {it.chain.p99:.1f} ms, in a chain of nodes",
        ),
        (
            f"a workflow of {it.nodes:,} nodes in 50 levels",
            f"{it.nodes_per_second:,.0f} nodes/s",
            "each after two of the level before",
        ),
        (
            f"a map of {it.members:,} members, with its join",
            f"{it.map_seconds:.0f} s",
            (
                f"{it.members / it.map_seconds:,.0f} members/s; largest process {it.scheduler_bytes / 1e6:,.0f} MB; "
                f"a look at it {it.look_ms:.0f} ms; the cancel of one {it.cancel_seconds:.1f} s"
            ),
        ),
    ]


def _lists_rows(lists: Lists) -> list[Row]:
    worst = max(lists.lists, key=lambda one: one.took.p50)
    of_owner = next(one for one in lists.lists if one.path == "/v1/runs?owner=me")
    cost = lists.cost
    return [
        (
            f"a page of one's own runs beside {lists.others:,} of others",
            f"{of_owner.took.p50:.1f} ms",
            f"median; the slowest of {len(lists.lists)} filtered lists {worst.took.p50:.1f} ms (`{worst.path}`)",
        ),
        (
            "indexes of lists, for each run",
            f"{cost.share:+.1%}",
            (
                f"processor time of all processes, {cost.with_indexes:.1f} µs beside {cost.without:.1f}; PostgreSQL "
                f"alone {cost.postgres_with:.1f} beside {cost.postgres_without:.1f}; WAL "
                f"{cost.wal_bytes_with:,.0f} bytes beside {cost.wal_bytes_without:,.0f}"
            ),
        ),
    ]


def _figures_row(it: FigureCosts) -> Row:
    month = next(look for look in it.looks if look.path.endswith("30d"))
    worst = max(it.looks, key=lambda look: look.took.p50)
    return (
        f"history of a month, {it.pools} pools",
        f"{month.took.p50:.1f} ms",
        (
            f"the slowest range {worst.took.p50:.1f} ms (`{worst.path}`); {it.rows:,} rows, "
            f"{it.table_bytes / 1e6:,.0f} MB; "
            f"a minute of {it.tallies:,} tallies rolled up in {it.roll_up_ms:.0f} ms; a worker counts an attempt in "
            f"{it.counting_us:.2f} µs"
        ),
    )


def _log_rows(it: LogFigures) -> list[Row]:
    searches = [
        (
            f"search of {it.lines:,} lines for `{one.text}`, {one.tenant}",
            f"{one.took.p50:.0f} ms",
            f"median of {one.took.count}, at most {one.took.highest:.0f} ms; {one.found} lines on the page",
        )
        for one in it.searches
    ]
    cost = it.cost
    return [
        *searches,
        (
            "index of logs",
            f"{it.index_bytes / it.text_bytes:.0%} of the text",
            f"{it.index_bytes / MIB:,.0f} MiB beside {it.text_bytes / MIB:,.0f}, {it.blocks:,} blocks",
        ),
        (
            "index of logs, for each line",
            f"{cost.share:+.0%}",
            f"processor time of writing and copying a line, {cost.with_index:.1f} µs beside {cost.without:.1f}",
        ),
    ]


def _idle_row(it: Idle) -> Row:
    shares = f"Rota {it.rota_cpu_percent:.1f} %, PostgreSQL {it.postgres_cpu_percent:.1f} %"
    return (
        f"idle with {it.upcoming:,} upcoming runs",
        f"{it.rota_cpu_percent + it.postgres_cpu_percent:.1f} % of a core",
        f"{shares}; {it.transactions_per_minute:,.0f} transactions a minute",
    )


def _gates_rows(it: Gates) -> list[Row]:
    gap = it.next_of_key
    return [
        (
            f"through admission, {it.keys:,} ordering keys",
            f"{it.admitted_per_second:,.0f} runs/s",
            "end to end, two workers",
        ),
        (
            "from the end of a run to the next of its key",
            f"p50 {gap.p50:.1f} ms",
            f"{gap.count:,} in a row: p99 {gap.p99:.1f} ms, longest {gap.highest:.1f}",
        ),
        (
            f"plain runs beside {it.keys:,} keys that wait",
            f"{it.plain_beside_keys_per_second:,.0f} jobs/s",
            f"{it.share:.0%} of {it.plain_per_second:,.0f} with none",
        ),
    ]


def _tenants_rows(it: Tenants) -> list[Row]:
    ways = (
        ("of somebody with no limit", it.unlimited),
        ("of somebody with a limit", it.limited),
        ("with one, in a namespace with one", it.limited_twice),
        ("nearly all refused", it.flood),
    )
    return [
        (f"limiter, request {words}", f"{way.microseconds:.1f} µs", f"{way.requests:,}: {way.statements} statements")
        for words, way in ways
    ]


def _sdk_rows(it: Sdk) -> list[Row]:
    trip = it.round_trip
    alone = f"; result() alone p50 {it.result.p50:.1f} ms" if it.result else ""
    one_by_one = f"in a transaction of the caller's own; one by one {it.within_one_by_one_per_second:,.0f}/s"
    return [
        (
            "task.submit() and run.result()",
            f"p50 {trip.p50:.1f} ms",
            f"{trip.count:,} one after the other: p99 {trip.p99:.1f} ms{alone}",
        ),
        ("task.submit_many()", f"{it.submitted_per_second:,.0f} jobs/s", "over HTTP, workers running"),
        ("task.within().submit_many()", f"{it.within_per_second:,.0f} jobs/s", one_by_one),
        (
            "runs of a transactional task",
            f"{it.transactional_per_second:,.0f} runs/s",
            f"end to end, two workers; plain ones {it.plain_per_second:,.0f}/s",
        ),
    ]


def _growth_row(size: Size) -> Row:
    return (
        f"with {size.upcoming:,} upcoming runs",
        f"{size.end_to_end_per_second:,.0f} jobs/s",
        (
            f"{size.share:.0%} of {size.beside_none_per_second:,.0f} with none; lag p99 {size.lag.p99:.1f} ms, "
            f"with none {size.lag_beside_none.p99:.1f}; claim {size.claim_ms:.2f} ms, promote {size.promote_ms:.2f} ms"
        ),
    )


def _lag(lag: Spread) -> tuple[str, str]:
    return (
        f"p99 {lag.p99:.1f} ms",
        (
            f"{lag.count:,} runs: p50 {lag.p50:.1f} ms, p99.9 {lag.p999:.1f}, last {lag.highest:.1f}, "
            f"{lag.negative or 'none'} early"
        ),
    )


def _charts(results: Results) -> dict[str, str]:
    charts = {}
    if throughput := results.throughput:
        charts["throughput"] = bar_chart(
            "Throughput",
            "jobs/s",
            {
                "submit": throughput.submit_per_second,
                "drain, 1 worker": throughput.drain_one_worker_per_second,
                "drain, 2 workers": throughput.drain_per_second,
                "end to end": throughput.end_to_end.per_second,
                "raw SQL": throughput.limit_per_second,
            },
        )
        charts["sustained"] = _over_time("End to end over time", throughput.end_to_end.windows, WINDOW_SECONDS)
    if lags := results.punctuality:
        bars = {"at one instant": lags.instant.p99, "500 a second": lags.steady.p99, "schedules": lags.schedules.p99}
        charts["punctuality"] = bar_chart("Start lag, p99", "ms", bars)
    if results.growth:
        rates = {f"{size.upcoming:,} upcoming": size.share * 100 for size in results.growth}
        charts["growth"] = bar_chart("Throughput beside that with nothing upcoming", "%", rates)
    if bloat := results.bloat:
        windows = bloat.end_to_end.windows
        charts["bloat"] = _over_time("Beside an open transaction", windows, bloat.seconds / max(1, len(windows)))
    return charts


def _over_time(title: str, windows: list[float], step: float) -> str:
    return line_chart(title, "jobs/s", {"jobs run": windows}, step)
