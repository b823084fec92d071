"""How the command line speaks: tables for people, JSON for programs, one clear line for errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from rota.client import AnswerError, Client, ServerUnreachableError
from rota.errors import BadInputError, RotaError, SetupError
from rota.settings import Settings

BAD_INPUT = 2
FAILED = 1
_CLIENT_ERRORS = range(400, 500)
_NOT_AUTHENTICATED = 401

JsonFlag = typer.Option(False, "--json", help="Print JSON for programs.")
LimitOption = typer.Option(20, "--limit", "-n", min=1, max=500, help="How many at most.")


def console() -> Console:
    """Made anew each time, so that it follows redirections."""
    return Console(highlight=False)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """One line on standard error, and the exit code."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {_plain(message)}")
    raise typer.Exit(code)


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Turns errors into a line and an exit code: 2 for bad input, 1 for what failed."""
    try:
        yield
    except ServerUnreachableError as error:
        fail(f"{error}. Is it running? Start it with `rota up`, or point ROTA_URL at it.")
    except AnswerError as error:
        if error.status == _NOT_AUTHENTICATED:
            fail("the server does not accept the token. Set ROTA_TOKEN, or ROTA_HOME to the server's home directory.")
        fail(_problem_words(error), BAD_INPUT if error.status in _CLIENT_ERRORS else FAILED)
    except BadInputError as error:
        field = f"{error.fields[0][0]}: " if error.fields else ""
        fail(f"{field}{error}", BAD_INPUT)
    except SetupError as error:
        fail(str(error), BAD_INPUT)
    except RotaError as error:
        fail(str(error))


@contextmanager
def server(settings: Settings | None = None) -> Iterator[Client]:
    """A client for the server that the environment names."""
    with errors_in_words():
        settings = settings or Settings.from_environment()
        with Client(settings.url, settings.token) as client:
            yield client


def print_json(value: Any) -> None:
    """For programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def print_table(
    items: Sequence[dict[str, Any]], columns: dict[str, Callable[[dict[str, Any]], str]], *, none: str
) -> None:
    """For people; says so when there is nothing."""
    if not items:
        console().print(f"[dim]{none}[/]")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns:
        table.add_column(heading, overflow="fold", no_wrap=heading in ("JOB", "RUN", "WORKER"))
    for item in items:
        table.add_row(*(show(item) for show in columns.values()))
    console().print(table)


def print_fields(value: dict[str, Any]) -> None:
    """One object, a line per field."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, content in value.items():
        shown = content if isinstance(content, str) else json.dumps(content)
        table.add_row(name, _plain(shown))
    console().print(table)


def text(name: str) -> Callable[[dict[str, Any]], str]:
    """A column that shows a field as it is."""
    return lambda item: "" if item.get(name) is None else _plain(str(item[name]))


def when(name: str) -> Callable[[dict[str, Any]], str]:
    """A column that shows a time without its fraction."""
    return lambda item: show_time(item.get(name))


def show_time(moment: str | None) -> str:
    """A time for people, in UTC."""
    if not moment:
        return ""
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def status(item: dict[str, Any]) -> str:
    """A column with the status in its colour."""
    colours = {
        "success": "green",
        "failed": "red",
        "running": "cyan",
        "retrying": "yellow",
        "cancelled": "dim",
    }
    word = str(item["status"])
    return f"[{colours[word]}]{word}[/]" if word in colours else word


def read_json(content: str | None, field: str) -> Any:
    """JSON given on the command line."""
    if content is None:
        return None
    try:
        return json.loads(content)
    except ValueError as error:
        raise BadInputError(f"is not valid JSON ({error})", field=field) from None


def _problem_words(error: AnswerError) -> str:
    problems = error.problem.get("errors") or []
    words = "; ".join(f"{problem['field']}: {problem['message']}" for problem in problems)
    return words or str(error)


def _plain(content: str) -> str:
    """Square brackets are markup to rich; content is content."""
    return content.replace("[", "\\[")
