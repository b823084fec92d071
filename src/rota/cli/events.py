"""The command about events: events."""

from __future__ import annotations

import msgspec
import typer

from rota.cli.terminal.output import CursorOption, JsonFlag, LimitOption, say, server, show_page
from rota.cli.terminal.tables import print_line, text, time
from rota.cli.terminal.times import check_time, show_time
from rota.client import Client
from rota.errors import BadInputError


def events(
    follow: bool = typer.Option(False, "--follow", "-f", help="Show events as they happen, until Ctrl-C."),
    kind: str | None = typer.Option(
        None, "--kind", help="Only these kinds, separated by commas; worker. is all that begin so."
    ),
    subject: str | None = typer.Option(None, "--subject", help="Only about this worker, task, job, pool, …"),
    since: str | None = typer.Option(None, "--since", metavar="TIME", help="Only since then: 2030-01-31T09:30:00Z."),
    until: str | None = typer.Option(None, "--until", metavar="TIME", help="Only before then."),
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """List what happened, or follow what happens."""
    with server(events) as client:
        if follow:
            if cursor or since or until:
                raise BadInputError("can't be used with --since, --until or --cursor", field="--follow")
            _follow(client, kind, subject, as_json=as_json)
            return
        times = {"since": check_time(since, "--since"), "until": check_time(until, "--until")}
        chosen = {"kind": kind, "subject": subject} | times
        page = client.call("GET", "/v1/events", query=chosen | {"cursor": cursor, "limit": limit})
        columns = (
            time("TIME", "time"),
            text("EVENT", "event"),
            text("SUBJECT", "subject", least=10),
            text("DETAIL", "detail", least=10, drop=1),
        )
        show_page(page, columns, none="No events.", as_json=as_json)


def _follow(client: Client, kind: str | None, subject: str | None, *, as_json: bool) -> None:
    try:
        for event in client.follow_events(kind=kind, subject=subject):
            if as_json:
                print(msgspec.json.encode(event).decode(), flush=True)
            else:
                words = (show_time(event.time.isoformat()), event.event, event.subject, event.detail or "")
                print_line("  ".join(words).rstrip())
    except KeyboardInterrupt:
        say("Stopped following.")
