"""What people type and set: commands, exit codes, environment variables."""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import typer
from internals import (
    EXIT_CODE_CUT_OFF,
    EXIT_CODE_RESTART,
    FAILED_TO_START,
    INTERRUPTED,
    SERVER_VARIABLE,
    SETTING_FIELDS,
    VARIABLES,
    BadInputError,
    DatabaseUnavailableError,
    RotaError,
    Settings,
    SetupError,
    command_line,
    errors_in_words,
)

from commands import environment

_WIDTH = 100
_CORES = re.compile(r"(--workers .*\[default: )\d+")
_RUN = f"run_{'0' * 32}"
_JOBS = Path(__file__).parent / "one_job.jsonl"
_STATUSES = (400, 401, 403, 404, 408, 409, 412, 413, 422, 429, 500, 502, 503, 504)
_PROBLEM = {"type": "urn:rota:bad-input", "title": "Bad input", "status": 400, "detail": "no"}
# Two that are accepted tell which field a variable sets.
_SAMPLES = (
    "7",
    "12",
    "2000",
    "3000",
    "on",
    "off",
    "debug",
    "info",
    "a" * 32,
    "b" * 32,
    "10.0.0.5",
    "10.1.0.0/16",
    "/a",
    "/b",
    "a, b,,c",
    "0.25",
    "0.5",
    "127.0.0.1:8125",
    "127.0.0.1:8126",
)
_PROBES = (
    *("-1", "0", "0.0005", "0.001", "0.5", "1", "1.5", "300", "301", "1023", "1024", "65535", "65536", "1000000"),
    *("1000001", "31622400", "31622401", "nan", "inf", "on", "No", "TRUE", "maybe", "debug", "Error", "a, b", "a, a"),
    *("a=3,b", "a=0", "a=1001", "10.0.0.0/8", "10.0.0.1/8", ","),
)
_TOGETHER = {"ROTA_TLS_CERTIFICATE": "ROTA_TLS_KEY", "ROTA_TLS_KEY": "ROTA_TLS_CERTIFICATE"}
_FOUND_BY_LIBRARIES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "PGPASSWORD"),
    *("AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN", "GOOGLE_SERVICE_ACCOUNT_KEY"),
)


def help_texts() -> str:
    """What --help says, of every command."""
    command: Any = typer.main.get_command(command_line)
    context = command.make_context("rota", [], resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH)
    return "\n\n".join(_help(command, context))


def _help(command: Any, context: Any) -> Iterator[str]:
    lines = (line.rstrip() for line in _CORES.sub(r"\1one per core", command.get_help(context)).splitlines())
    yield f"$ {context.command_path} --help\n" + "\n".join(lines)
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from _help(child, child.make_context(name, [], parent=context, resilient_parsing=True))


def exit_codes() -> str:
    """The exit code of each kind of end, found by ending that way."""
    lines = []
    with _stub_server() as server:
        run = _runner(server.url)
        statuses: dict[int, list[int]] = defaultdict(list)
        for status in _STATUSES:
            server.answer = (status, _PROBLEM | {"status": status})
            statuses[run("jobs")].append(status)
        for code, found in sorted(statuses.items()):
            lines.append(f"{code}  the server answers {' '.join(map(str, found))}")
        for ended in ("success", "failed", "cancelled", "skipped"):
            server.answer = (200, {"runId": _RUN, "status": ended, "progress": None, "attempts": []})
            lines.append(f"{run('run', _RUN, '--wait')}  rota run --wait: {ended}")
        for words, result in (("taken", {"jobId": "job_1"}), ("refused", {"error": _PROBLEM})):
            server.answer = (200, {"results": [result]})
            lines.append(f"{run('submit', '--file', str(_JOBS))}  rota submit --file: a line is {words}")
        server.answer = (200, {"count": 0})
        lines.append(f"{run('dead-letters', 'redrive', _RUN)}  rota dead-letters redrive: no such dead letter")
    lines.append(f"{run('jobs')}  no server answers")
    lines.append(f"{run('jobs', ROTA_PORT='abc')}  a setting can't be used")
    lines.append(f"{run('run', 'nonsense')}  what should be an id is none")
    lines.append(f"{run('submit', 'x')}  a job without a task")
    lines.append(f"{run('submit', '--file', '/nowhere')}  a file that can't be read")
    lines.append(f"{run('jobs', '--nonsense')}  an option that does not exist")
    lines.append(f"{run('nonsense')}  a command that does not exist")
    lines.append(f"{run('run')}  an argument is missing")
    lines.append(f"{run('--version')}  rota --version")
    lines.append(f"{run('jobs', '--help')}  --help")
    for words, error in _ERRORS.items():
        lines.append(f"{_code_of(error)}  {words}")
    lines += [
        f"{INTERRUPTED}  Ctrl-C before everything was up",
        f"{EXIT_CODE_RESTART}  a worker wants to be started anew by its supervisor",
        f"{EXIT_CODE_CUT_OFF}  a worker lost its lease, and something still runs",
        f"{FAILED_TO_START}  the guardian of a command could not start it",
    ]
    return "\n".join(lines)


def _because_of(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


_ERRORS = {
    "input that can't be accepted": BadInputError("no", field="name"),
    "a setup that can't work": SetupError("no"),
    "a setup that can't work because the database does not answer": _because_of(
        SetupError("no"), DatabaseUnavailableError("no")
    ),
    "the database does not answer": DatabaseUnavailableError("no"),
    "any other error of Rota": RotaError("no"),
}


def _code_of(error: Exception) -> int:
    failing = typer.Typer()

    @failing.command()
    def fail() -> None:
        with errors_in_words():
            raise error

    return _ended(typer.main.get_command(failing), [])


def _ended(command: Any, arguments: Iterable[str]) -> int:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            command.main(list(arguments), prog_name="rota")
        except SystemExit as end:
            return int(end.code or 0)
    raise AssertionError("the command line did not end")


def _runner(url: str) -> Callable[..., int]:
    command = typer.main.get_command(command_line)
    ours = {"ROTA_URL": url, "ROTA_TOKEN": "token", "ROTA_HOME": tempfile.gettempdir()}

    def run(*arguments: str, **variables: str) -> int:
        with mock.patch.dict(os.environ, environment(**ours | variables), clear=True):
            return _ended(command, arguments)

    return run


class _StubServer(HTTPServer):
    """Answers whatever it is asked as it was told to."""

    answer: tuple[int, Any] = (200, {})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _StubServer

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = self.server.answer
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def _stub_server() -> Iterator[_StubServer]:
    with _StubServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


# Settings


def settings() -> str:
    """Every environment variable: what it is, its default, and which of the samples it refuses."""
    lines = [f"samples: {'  '.join(_PROBES)}", ""]
    for variable in sorted(VARIABLES):
        field, kind = _field(variable)
        default = str(getattr(_read({}), field)).replace(str(Path.home()), "~")
        if variable == "ROTA_PROCESSES":
            default = "one per core"
        refused = "  ".join(probe for probe in _PROBES if not _is_accepted(variable, probe)) or "none"
        lines += [f"{variable}: {kind}, default {default}", f"    refused: {refused}"]
    lines += ["", f"a list: 'a, b,,c' is {_read({'ROTA_NAMESPACES': 'a, b,,c'}).namespaces}"]
    lines += [f"set to nothing, ROTA_PORT is {_read({'ROTA_PORT': ''}).port}"]
    lines += [f"ROTA_SECRET_KEY=abcd: {dict(_read({'ROTA_SECRET_KEY': 'abcd'}).secrets)}"]
    secret = [name for name in _FOUND_BY_LIBRARIES if _read({name: "secret"}).hidden]
    lines += [f"hidden besides: {', '.join(sorted(secret))}", f"for tests: {SERVER_VARIABLE}"]
    return "\n".join(lines)


def _read(environment: dict[str, str]) -> Any:
    return Settings.from_environment(environment)


def _environment(variable: str, value: str) -> dict[str, str]:
    partner = _TOGETHER.get(variable)
    return {variable: value} | ({partner: "/partner"} if partner else {})


def _is_accepted(variable: str, value: str) -> bool:
    try:
        _read(_environment(variable, value))
    except SetupError:
        return False
    return True


def _field(variable: str) -> tuple[str, str]:
    """Which field it sets, and the type of that: the one in which two settings differ."""
    first, second = [_read(_environment(variable, one)) for one in _SAMPLES if _is_accepted(variable, one)][:2]
    (name,) = [name for name in SETTING_FIELDS if getattr(first, name) != getattr(second, name)]
    return name, type(getattr(first, name)).__name__.removeprefix("Posix").lower()
