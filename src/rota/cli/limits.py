"""Commands about limits: list, set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import typer

from rota.cli.terminal.output import JsonFlag, LimitOption, errors_in_words, print_json, server, tell_next_page
from rota.cli.terminal.tables import Column, console, print_table, text
from rota.client.bodies import LimitChanges
from rota.errors import BadInputError

OPTIONS = {
    "requestsPerSecond": "--requests-per-second",
    "requestBurst": "--request-burst",
    "jobsPerSecond": "--jobs-per-second",
    "jobBurst": "--job-burst",
    "mostWaiting": "--most-waiting",
    "largestPayloadBytes": "--largest-payload-bytes",
    "largestBatch": "--largest-batch",
    "mostFanOut": "--most-fan-out",
}
WHOLE = "(namespace)"
limits = typer.Typer(
    name="limits",
    help="Show and set what the namespace and those in it may.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@limits.callback()
def list_limits(
    context: typer.Context,
    cursor: str | None = typer.Option(None, "--cursor", help="nextCursor of the page before."),
    limit: int = LimitOption,
    as_json: bool = JsonFlag,
) -> None:
    """Show and set what the namespace and those in it may."""
    if context.invoked_subcommand:
        if cursor or as_json:
            with errors_in_words():
                raise BadInputError(f"give options behind {context.invoked_subcommand}")
        return
    with server({"cursor": "--cursor"}) as client:
        page = client.call("GET", "/v1/limits", query={"cursor": cursor, "limit": limit})
        if as_json:
            print_json(page)
            return
        columns = (
            Column(heading="SUBJECT", show=lambda item: item["subject"] or WHOLE, least=12),
            Column(heading="REQUESTS/S", show=lambda item: _rate(item, "requestsPerSecond", "requestBurst")),
            Column(heading="JOBS/S", show=lambda item: _rate(item, "jobsPerSecond", "jobBurst")),
            text("WAITING", "mostWaiting"),
            text("PAYLOAD", "largestPayloadBytes", drop=3),
            text("BATCH", "largestBatch", drop=2),
            text("FAN-OUT", "mostFanOut", drop=1),
        )
        print_table(page["items"], columns, none="Nobody has limits of their own.")
        tell_next_page(page)


@limits.command("set")
def set_limits(
    subject: str | None = typer.Option(None, "--subject", help="A key's id or an owner (the namespace as a whole)."),
    requests_per_second: float | None = typer.Option(None, "--requests-per-second", help="How fast requests may come."),
    request_burst: int | None = typer.Option(None, "--request-burst", help="How many of them at once."),
    jobs_per_second: float | None = typer.Option(None, "--jobs-per-second", help="How fast jobs may come."),
    job_burst: int | None = typer.Option(None, "--job-burst", help="How many of them at once."),
    most_waiting: int | None = typer.Option(None, "--most-waiting", help="How many runs may wait."),
    largest_payload_bytes: int | None = typer.Option(None, "--largest-payload-bytes", help="How large a payload."),
    largest_batch: int | None = typer.Option(None, "--largest-batch", help="How many jobs in one request."),
    most_fan_out: int | None = typer.Option(None, "--most-fan-out", help="How many jobs one run may submit."),
    lift: list[str] = typer.Option([], "--lift", help="Lift a limit, named like its option: --lift job-burst."),
    as_json: bool = JsonFlag,
) -> None:
    """Set limits of a subject, or of the namespace as a whole."""
    given = {
        "requestsPerSecond": requests_per_second,
        "requestBurst": request_burst,
        "jobsPerSecond": jobs_per_second,
        "jobBurst": job_burst,
        "mostWaiting": most_waiting,
        "largestPayloadBytes": largest_payload_bytes,
        "largestBatch": largest_batch,
        "mostFanOut": most_fan_out,
    }
    with server({**OPTIONS, "subject": "--subject"}) as client:
        changes = _changes(given, lift)
        answer = client.set_limits(subject, **changes)
        shown = {"subject": answer.subject} | {name: getattr(answer, snake) for name, snake in _NAMES.items()}
        if as_json:
            print_json(shown)
            return
        console().print(_words(shown), soft_wrap=True, markup=False)


_NAMES = {name: option.removeprefix("--").replace("-", "_") for name, option in OPTIONS.items()}


def _changes(given: Mapping[str, Any], lift: list[str]) -> LimitChanges:
    """What to change, in the client's words."""
    changes = {_NAMES[name]: value for name, value in given.items() if value is not None}
    for word in lift:
        name = word.removeprefix("--").replace("-", "_")
        if name not in _NAMES.values():
            known = ", ".join(option.removeprefix("--") for option in OPTIONS.values())
            raise BadInputError(f"must be one of {known}", field="--lift")
        if name in changes:
            raise BadInputError(f"--{word} is set and lifted at once", field="--lift")
        changes[name] = None
    if not changes:
        raise BadInputError("give a limit to set, or --lift")
    return cast("LimitChanges", changes)


def _rate(item: Mapping[str, Any], rate: str, burst: str) -> str:
    return "-" if item[rate] is None else f"{item[rate]:g} (burst {item[burst]})"


def _words(shown: Mapping[str, Any]) -> str:
    named = [f"{_NAMES[name].replace('_', ' ')} {shown[name]:g}" for name in OPTIONS if shown[name] is not None]
    return f"{shown['subject'] or 'the namespace'}: {', '.join(named) or 'no limits'}"
