"""Output and input of commands: JSON for programs, one line for errors, ids and JSON from options.

Exit codes: 0 success; 2 bad input; 1 any other failure.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.text import Text
from typer.models import ArgumentInfo, OptionInfo

from rota.cli.terminal.tables import Column, console, hanging, print_fields, print_table
from rota.cli.terminal.times import show_seconds
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.bodies import fields_of
from rota.client.errors import NOT_NOW
from rota.errors import BadInputError, DatabaseUnavailableError, RotaError, SetupError
from rota.settings import Settings

Command = Callable[..., None]
BAD_INPUT = 2
FAILED = 1
PATIENCE_SECONDS = 30.0  # how long a command waits for a lost server
_CLIENT_ERRORS = range(400, 500)
_NOT_AUTHENTICATED = 401

# Options for fields whose parameter has another name. All other parameters are named like their field.
_OPTIONS = {
    "Idempotency-Key": "--key",
    "Rota-Namespace": "--namespace",
    "object": "--object",
    "payload.script": "--script",
    "rateLimit.limit": "--rate",
    "rateLimit.perSeconds": "--rate",
    "status": "--status",
}
_INDEX = re.compile(r"\[\d+\]$")
_PHRASES = ((re.compile(r"^required, but missing \(or give payload\.script\)$"), "required, or give --script"),)

JsonFlag = typer.Option(False, "--json", help="Print JSON for programs.")
CursorOption = typer.Option(None, "--cursor", help="nextCursor of the page before.")
LimitOption = typer.Option(20, "--limit", "-n", min=1, max=500, help="How many at most.")
_ID = re.compile(r"(job|run)_[0-9a-f]{32}")


def say(message: str, style: str = "") -> None:
    """Prints a line for people on standard error."""
    console(stderr=True).print(Text(hanging(message), style), soft_wrap=True)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Prints the error on standard error and exits with the code."""
    console(stderr=True).print(Text.assemble(("error: ", "bold red"), hanging(message)), soft_wrap=True)
    raise typer.Exit(code)


@contextmanager
def errors_in_words(command: Command | None = None) -> Iterator[None]:
    """Turns errors into one line and an exit code, with API fields renamed to the command's options."""
    try:
        yield
    except ServerUnreachableError as error:
        hint = "" if error.advised else " Start one with `rota up`, or set ROTA_URL or ROTA_PORT."
        fail(f"{error}.{hint}")
    except AnswerError as error:
        refused = error.status in _CLIENT_ERRORS and error.status not in NOT_NOW
        fail(_problem_words(error, _options_of(command)), BAD_INPUT if refused else FAILED)
    except BadInputError as error:
        field = error.fields[0][0] if error.fields else ""
        fail(f"{_options_of(command).get(field, field)}: {error}" if field else str(error), BAD_INPUT)
    except SetupError as error:
        fail(str(error), FAILED if isinstance(error.__cause__, DatabaseUnavailableError) else BAD_INPUT)
    except RotaError as error:
        fail(str(error))


@contextmanager
def server(command: Command | None = None, *, namespace: str | None = None) -> Iterator[Client]:
    """A client for the server named in the environment; errors are reported as in `errors_in_words`."""
    with errors_in_words(command):
        settings = Settings.from_environment()
        # No retries: a person at a terminal should see the error at once.
        with Client(settings.url, settings.token or "", namespace=namespace, retries=0) as client:
            try:
                yield client
            except AnswerError as error:
                if error.status == _NOT_AUTHENTICATED:
                    fail(_token_words(settings, str(error.problem.get("said", ""))))
                raise


def _options_of(command: Command | None) -> dict[str, str]:
    """Maps each API field to the command's option or argument."""
    if command is None:
        return {}
    named: dict[str, str] = {}
    for name, parameter in signature(command).parameters.items():
        if isinstance(parameter.default, OptionInfo) and parameter.default.param_decls:
            named[name] = parameter.default.param_decls[0]
        elif isinstance(parameter.default, ArgumentInfo) and parameter.default.metavar:
            named[name] = parameter.default.metavar.strip("[]")
    return _OPTIONS | fields_of(named)


def print_json(value: Any) -> None:
    """Prints JSON for programs."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def show_object(answer: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints an object as JSON or as a line per field."""
    print_json(answer) if as_json else print_fields(answer)


def show_page(page: Mapping[str, Any], columns: Sequence[Column], *, none: str, as_json: bool) -> None:
    """Prints a page of a list as JSON or as a table."""
    if as_json:
        print_json(page)
    else:
        print_table(page["items"], columns, none=none)
        tell_next_page(page)


def tell_next_page(page: Mapping[str, Any]) -> None:
    """Prints the cursor of the next page, if there is one."""
    if page.get("nextCursor"):
        say(f"There may be more: --cursor {page['nextCursor']}", "dim")


def _problem_words(error: AnswerError, options: Mapping[str, str]) -> str:
    problems = error.problem.get("errors") or []
    words = "; ".join(_field_words(problem, options) for problem in problems) or str(error)
    later = error.retry_after_seconds
    return words if later is None else f"{words.rstrip('.')}. Try again in {show_seconds(later)}."


def _field_words(problem: Mapping[str, str], options: Mapping[str, str]) -> str:
    field, message = problem["field"], problem["message"]
    for pattern, phrase in _PHRASES:
        message = pattern.sub(phrase, message)
    return f"{options.get(_INDEX.sub('', field), field)}: {message}"


def _token_words(settings: Settings, said: str) -> str:
    where = f"the server at {settings.url}"
    if settings.given_token:
        fix = "Set it to a valid token, or unset it to use the one in ROTA_HOME."
        return f"{where} does not accept the token in ROTA_TOKEN: {said or 'no reason given'}. {fix}"
    fix = "Set ROTA_HOME to the server's home directory, or ROTA_TOKEN."
    if settings.token:
        return f"{where} does not accept the token in {settings.admin_token_file}. {fix}"
    return f"{where} needs a token, and {settings.admin_token_file} can't be read. {fix}"


def check_run_id(content: str, field: str) -> str:
    """The id of a run, stripped; raises BadInputError unless it is one."""
    content = content.strip()
    match = _ID.fullmatch(content)
    if match is None:
        raise BadInputError(
            f"{content[:80]!r} is not an id: run_ and 32 hex digits, as `rota runs` shows them", field=field
        )
    if match[1] != "run":
        raise BadInputError(f"{content} is a job; give a run (run_…)", field=field)
    return content


def read_object(content: str | None, field: str) -> dict[str, Any] | None:
    """The JSON object in an option."""
    return None if content is None else _parse_object(content, field)


def read_object_from(source: str | None, field: str) -> dict[str, Any] | None:
    """The JSON object in an option, in a file (@FILE) or in standard input (-)."""
    if source is None or (source != "-" and not source.startswith("@")):
        return read_object(source, field)
    content, place = _read_source(source, field), source[1:] or "standard input"
    if not content.strip():
        raise BadInputError(f"{place} is empty; a JSON object is expected", field=field)
    return _parse_object(content, field, place)


def _parse_object(content: str, field: str, place: str = "") -> dict[str, Any]:
    """The object; `place` says where it was read, if not in the option itself."""
    what = f"{place} is" if place else "is"
    try:
        found = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        hint = "" if place else _hint(content, field)
        raise BadInputError(f"{what} not valid JSON ({error}){hint}", field=field) from None
    if not isinstance(found, dict):
        example = "a JSON object, such as '{\"days\": 30}'"
        raise BadInputError(f"{place} must hold {example}" if place else f"must be {example}", field=field)
    return found


def _hint(content: str, field: str) -> str:
    """What to do about an option that is not JSON."""
    if _names_file(content):
        return f"; for what is in the file: {field} @{content}"
    return "; quote it for the shell: '{…}'"


def _names_file(content: str) -> bool:
    try:
        return Path(content).is_file()
    except (OSError, ValueError):  # too long for a name, or with a null character
        return False


def _read_source(content: str, field: str) -> str:
    try:
        return sys.stdin.read() if content == "-" else Path(content[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{content[1:] or 'standard input'} can't be read: {error.strerror}", field=field) from None
    except UnicodeDecodeError:
        raise BadInputError(f"{content[1:] or 'standard input'} is not UTF-8 text", field=field) from None


def refuse_options_before(command: str, *given: Any) -> None:
    """Refuses options before a subcommand: they would not apply to it."""
    with errors_in_words():
        if any(value not in (None, False) for value in given):
            raise BadInputError(f"put options after {command}")


def refuse_empty(content: str | None, field: str) -> None:
    """Raises BadInputError for an empty value: in a script that is usually an unset variable."""
    if content is not None and not content.strip():
        raise BadInputError("must not be empty", field=field)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
