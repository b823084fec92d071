"""Commands about schedules: preview."""

from __future__ import annotations

from datetime import datetime

import msgspec
import typer

from rota.cli.inputs import check_id
from rota.cli.output import JsonFlag, print_json, server
from rota.cli.tables import Column, console, print_table, time
from rota.cli.times import check_time, parse_interval, show_local_time
from rota.domain.schedule import ClockChange, load_zone
from rota.errors import BadInputError

OPTIONS = {
    "cronExpression": "EXPRESSION",
    "everySeconds": "--every",
    "timezone": "--timezone",
    "dst": "--dst",
    "startTime": "--start",
    "endTime": "--end",
    "jobId": "--job",
    "after": "--after",
    "count": "--count",
}
schedule = typer.Typer(help="Look at schedules before they are jobs.", rich_markup_mode=None, no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Registers the commands of this file."""
    app.add_typer(schedule, name="schedule")


@schedule.callback()
def _group() -> None:
    """Look at schedules before they are jobs."""


@schedule.command()
def preview(
    expression: str | None = typer.Argument(
        None, metavar="EXPRESSION", help="Cron: 5 fields, 6 with seconds first, or a name such as @daily."
    ),
    every: str | None = typer.Option(None, "--every", help="An interval instead: 90s, 15m, 1d."),
    timezone: str = typer.Option("UTC", "--timezone", help="The IANA time zone, such as Europe/Berlin."),
    count: int = typer.Option(10, "--count", "-n", min=1, max=100, help="How many times."),
    after: str | None = typer.Option(None, "--after", help="Only after this time (now)."),
    start: str | None = typer.Option(None, "--start", help="The schedule's start."),
    end: str | None = typer.Option(None, "--end", help="The schedule's end."),
    dst: ClockChange = typer.Option("shift", "--dst", help="What to do at a clock change."),
    job_id: str | None = typer.Option(None, "--job", help="The job whose id decides what H stands for."),
    as_json: bool = JsonFlag,
) -> None:
    """Show when a schedule would fire, and what it means."""
    with server(OPTIONS) as client:
        cron, seconds = _which(expression, every)
        zone = load_zone(timezone)
        answer = client.preview(
            cron,
            every=seconds,
            timezone=timezone,
            dst=dst,
            start_time=_moment(start, "--start"),
            end_time=_moment(end, "--end"),
            job_id=None if job_id is None else check_id(job_id, "job", "--job"),
            after=_moment(after, "--after"),
            count=count,
        )
        if as_json:
            print_json(msgspec.to_builtins(answer))
            return
        columns = (
            Column(heading=f"LOCAL ({timezone})", show=lambda item: show_local_time(item["time"], zone)),
            time("UTC", "time"),
        )
        console().print(answer.description, soft_wrap=True, markup=False)
        times = [{"time": moment.isoformat()} for moment in answer.fire_times]
        print_table(times, columns, none="It does not fire any more.")


def _which(expression: str | None, every: str | None) -> tuple[str | None, float | None]:
    """The cron expression or the seconds of an interval; `every 90s` may also be given like an expression."""
    if (expression is None) == (every is None):
        raise BadInputError("give a cron expression or --every")
    if every is not None:
        return None, parse_interval(every, "--every")
    if expression is not None and expression.strip().lower().startswith("every "):
        return None, parse_interval(expression, "EXPRESSION")
    return expression, None


def _moment(content: str | None, option: str) -> datetime | None:
    checked = check_time(content, option)
    return None if checked is None else datetime.fromisoformat(checked)
