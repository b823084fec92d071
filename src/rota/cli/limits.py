"""Commands about limits: list, set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import typer

from rota.cli.terminal.output import (
    CursorOption,
    JsonFlag,
    LimitOption,
    print_json,
    refuse_options_before,
    server,
    show_page,
)
from rota.cli.terminal.tables import Column, print_line, text
from rota.client.bodies import LimitChanges
from rota.errors import BadInputError

_NAMES = tuple(LimitChanges.__annotations__)
_WHOLE = "(namespace)"
limits = typer.Typer(name="limits", rich_markup_mode=None)


@limits.callback(invoke_without_command=True)
def list_limits(
    context: typer.Context,
    cursor: str | None = CursorOption,
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Show and set limits of the namespace, its owners and keys."""
    if context.invoked_subcommand:
        refuse_options_before(context.invoked_subcommand, cursor, as_json)
        return
    with server(list_limits) as client:
        page = client.call("GET", "/v1/limits", query={"cursor": cursor, "limit": limit})
        columns = (
            Column(heading="SUBJECT", show=lambda item: item["subject"] or _WHOLE, least=12),
            Column(heading="REQUESTS/S", show=lambda item: _rate(item, "requestsPerSecond", "requestBurst")),
            Column(heading="JOBS/S", show=lambda item: _rate(item, "jobsPerSecond", "jobBurst")),
            text("WAITING", "mostWaiting"),
            text("PAYLOAD", "largestPayloadBytes", drop=3),
            text("BATCH", "largestBatch", drop=2),
            text("FAN-OUT", "mostFanOut", drop=1),
        )
        show_page(page, columns, none="No limits are set.", as_json=as_json)


@limits.command("set")
def set_limits(
    subject: str | None = typer.Option(None, "--subject", help="A key's id or an owner (the whole namespace)."),
    requests_per_second: float | None = typer.Option(None, "--requests-per-second", help="Requests per second."),
    request_burst: int | None = typer.Option(None, "--request-burst", help="Requests at once."),
    jobs_per_second: float | None = typer.Option(None, "--jobs-per-second", help="Jobs per second."),
    job_burst: int | None = typer.Option(None, "--job-burst", help="Jobs at once."),
    most_waiting: int | None = typer.Option(None, "--most-waiting", help="Waiting runs."),
    largest_payload_bytes: int | None = typer.Option(None, "--largest-payload-bytes", help="The largest payload."),
    largest_batch: int | None = typer.Option(None, "--largest-batch", help="Jobs in one request."),
    most_fan_out: int | None = typer.Option(None, "--most-fan-out", help="Jobs that one run can submit."),
    lift: list[str] = typer.Option([], "--lift", help="Remove a limit: --lift job-burst."),
    as_json: bool = JsonFlag,
) -> None:
    """Set limits of a subject or of the whole namespace."""
    given = {
        "requests_per_second": requests_per_second,
        "request_burst": request_burst,
        "jobs_per_second": jobs_per_second,
        "job_burst": job_burst,
        "most_waiting": most_waiting,
        "largest_payload_bytes": largest_payload_bytes,
        "largest_batch": largest_batch,
        "most_fan_out": most_fan_out,
    }
    with server(set_limits) as client:
        answer = client.set_limits(subject, **_changes(given, lift))
        if as_json:
            fields = zip(answer.__struct_fields__, answer.__struct_encode_fields__, strict=True)
            print_json({wire: getattr(answer, name) for name, wire in fields if name in ("subject", *_NAMES)})
            return
        values = {name.replace("_", " "): getattr(answer, name) for name in _NAMES}
        named = [f"{name} {value:g}" for name, value in values.items() if value is not None]
        print_line(f"{answer.subject or 'the namespace'}: {', '.join(named) or 'no limits'}")


def _changes(given: Mapping[str, Any], lift: list[str]) -> LimitChanges:
    changes = {name: value for name, value in given.items() if value is not None}
    for word in lift:
        name = word.removeprefix("--").replace("-", "_")
        if name not in _NAMES:
            raise BadInputError(f"must be one of {', '.join(_NAMES).replace('_', '-')}", field="--lift")
        if name in changes:
            raise BadInputError(f"--{word} is both set and lifted", field="--lift")
        changes[name] = None
    if not changes:
        raise BadInputError("give a limit to set or to --lift")
    return cast("LimitChanges", changes)


def _rate(item: Mapping[str, Any], rate: str, burst: str) -> str:
    return "-" if item[rate] is None else f"{item[rate]:g} (burst {item[burst]})"
