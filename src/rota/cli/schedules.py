"""Commands about schedules: schedules, schedule preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec
import typer

from rota.cli.terminal.completion import complete_job, complete_job_name, complete_task
from rota.cli.terminal.output import CursorOption, JsonFlag, LimitOption, errors_in_words, print_json, server, show_page
from rota.cli.terminal.tables import Column, print_line, print_table, status, text, time
from rota.cli.terminal.targets import find_job
from rota.cli.terminal.times import check_time, parse_interval, show_interval, show_local_time, show_time
from rota.contract.jobs import SchedulePreview
from rota.domain.business_days import Exclusion, OnExcludedDay
from rota.domain.cron import ClockChange
from rota.domain.ids import find_job_id
from rota.domain.schedule_preview import preview_schedule
from rota.domain.timezones import load_zone
from rota.errors import BadInputError

_LONGEST_ZONE = 21  # with it the heading is as wide as the times below it
_MOST_FIELDS = 6
_MINUTE = 60
schedule = typer.Typer(name="schedule", help="Preview schedules.", rich_markup_mode=None, no_args_is_help=True)


def schedules(
    status_filter: str | None = typer.Option(None, "--status", help="Only scheduled, paused, cancelled or completed."),
    name: str | None = typer.Option(None, "--name", autocompletion=complete_job_name, help="Only with this name."),
    task: str | None = typer.Option(None, "--task", autocompletion=complete_task, help="Only of this task."),
    tag: str | None = typer.Option(None, "--tag", help="Only with this tag."),
    owner: str | None = typer.Option(None, "--owner", help="Only of this owner."),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List schedules with their last and next times.

    Those that are scheduled or paused, unless you give --status.
    """
    with server(schedules) as client:
        query = {
            "status": status_filter or "scheduled,paused",
            "name": name,
            "task": task,
            "tag": tag,
            "owner": owner,
            "cursor": cursor,
            "limit": limit,
        }
        page = client.call("GET", "/v1/schedules", query=query)
        columns = (
            text("JOB", "jobId", drop=3),
            text("NAME", "name", least=10),
            status(),
            Column(heading="SCHEDULE", show=show_schedule, brief=show_schedule_briefly, least=10),
            time("LAST", "lastStartTime"),
            text("ENDED", "lastStatus", drop=1),
            time("NEXT", "nextFireTime"),
            text("TASK", "task", drop=2),
        )
        none = "No schedules. Make one: rota submit tick --task rota.echo --every 10s"
        show_page(page, columns, none=none, as_json=as_json)


def show_schedule(item: Mapping[str, Any]) -> str:
    """When a recurring job fires, with its time zone."""
    brief = show_schedule_briefly(item)
    return f"{brief} {item['timezone']}" if item.get("cronExpression") else brief


def show_schedule_briefly(item: Mapping[str, Any]) -> str:
    """When a recurring job fires."""
    return str(item["cronExpression"]) if item.get("cronExpression") else f"every {show_interval(item['everySeconds'])}"


@schedule.command()
def preview(
    cron_expression: list[str] | None = typer.Argument(
        None, metavar="EXPRESSION", help="Cron: 5 fields, 6 with seconds first, or a name such as @daily; in quotes."
    ),
    every_seconds: str | None = typer.Option(None, "--every", help="An interval instead: 90s, 15m, 1d."),
    timezone: str = typer.Option("UTC", "--timezone", help="The IANA time zone, such as Europe/Berlin."),
    count: int = typer.Option(10, "--count", "-n", min=1, max=100, help="How many times."),
    after: str | None = typer.Option(None, "--after", help="Only times after this one (now)."),
    start_time: str | None = typer.Option(None, "--start", help="The schedule's start."),
    end_time: str | None = typer.Option(None, "--end", help="The schedule's end."),
    dst: ClockChange = typer.Option("shift", "--dst", help="What to do at a clock change."),
    exclude_calendars: list[str] = typer.Option(
        [], "--exclude-calendar", help="Leave out the days of this calendar; can be repeated."
    ),
    exclude_weekends: bool = typer.Option(False, "--exclude-weekends", help="Leave out weekends."),
    on_excluded_day: OnExcludedDay | None = typer.Option(
        None, "--on-excluded-day", help="Times on such days: skip them, or run on the next business day (skip)."
    ),
    job_id: str | None = typer.Option(
        None, "--job", autocompletion=complete_job, help="The job whose id decides what H means."
    ),
    as_json: bool = JsonFlag,
) -> None:
    """Show when a schedule would fire, and what it means.

    In the time zone and in UTC; clock changes are marked. It needs no server, unless --job is a name or an id that
    somebody chose, or a calendar is named.
    """
    with errors_in_words(preview):
        cron, seconds = _which(_joined(cron_expression), every_seconds)
        zone = load_zone(timezone)
        given: Any = {
            "timezone": timezone,
            "dst": dst,
            "start_time": _moment(start_time, "--start"),
            "end_time": _moment(end_time, "--end"),
            "count": count,
        }
        since = _moment(after, "--after")
        seed = None if job_id is None else find_job_id(job_id)
        if on_excluded_day is not None and not (exclude_calendars or exclude_weekends):
            raise BadInputError("needs --exclude-calendar or --exclude-weekends", field="--on-excluded-day")
        if exclude_calendars or (job_id is not None and seed is None):
            with server(preview) as client:
                named = None if job_id is None else find_job(client, job_id, "--job")
                given |= {
                    "exclude_calendars": exclude_calendars or None,
                    "exclude_weekends": exclude_weekends or None,
                    "on_excluded_day": on_excluded_day,
                }
                shown = client.preview(cron, every=seconds, after=since, job_id=named, **given)
        else:
            moment = since or datetime.now(UTC)
            times, words = preview_schedule(
                cron_expression=cron,
                every_seconds=seconds,
                after=moment,
                seed=seed,
                exclusion=Exclusion(weekends=exclude_weekends, rule=on_excluded_day or "skip"),
                **given,
            )
            shown = SchedulePreview(fire_times=times, description=words)
        if as_json:
            print_json(msgspec.to_builtins(shown))
            return
        print_line(shown.description)
        rows = _rows(shown.fire_times, zone, since)
        print_table(rows, _columns(timezone, zone, rows), none="It never fires again.")


def _rows(times: Sequence[datetime], zone: tzinfo, before: datetime | None) -> list[dict[str, Any]]:
    """A row for each time, with the clock change since the previous row."""
    rows = []
    for moment in times:
        change = timedelta() if before is None else _offset(moment, zone) - _offset(before, zone)
        rows.append({"time": moment.isoformat(), "change": change})
        before = moment
    return rows


def _columns(timezone: str, zone: tzinfo, rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Local time and UTC, once if they are the same; and clock changes if there are any."""
    is_utc = timezone == "UTC"
    heading = f"LOCAL ({timezone})" if len(timezone) <= _LONGEST_ZONE else "LOCAL"
    local = Column(
        heading="UTC" if is_utc else heading,
        show=lambda item: show_local_time(item["time"], zone),
        brief=lambda item: show_local_time(item["time"], zone).replace(":00 ", " "),
    )
    utc = Column(
        heading="UTC",
        show=lambda item: show_time(item["time"]),
        brief=lambda item: show_time(item["time"])[len("2030-") :].replace(":00Z", "Z"),
        drop=1,
    )
    note = Column(
        heading="CLOCK",
        show=lambda item: _change_words(item["change"], "goes {} {} before"),
        brief=lambda item: _change_words(item["change"], "{} {}"),
    )
    return [local, *([] if is_utc else [utc]), *([note] if any(row["change"] for row in rows) else [])]


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _change_words(change: timedelta, words: str) -> str:
    if not change:
        return ""
    minutes = int(abs(change).total_seconds()) // _MINUTE
    size = f"{minutes // _MINUTE} h" if minutes % _MINUTE == 0 else f"{minutes} min"
    return words.format("forward" if change > timedelta() else "back", size)


def _joined(words: list[str] | None) -> str | None:
    """The expression, joined if the quotes are missing; refused if the shell expanded it to file names."""
    if words and len(words) > _MOST_FIELDS:
        raise BadInputError(
            f"has {len(words)} words; quote it, or the shell expands * to file names", field="EXPRESSION"
        )
    return " ".join(words) if words else None


def _which(expression: str | None, every: str | None) -> tuple[str | None, float | None]:
    """The cron expression, or the seconds of an interval, which can also be written `every 90s`."""
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
