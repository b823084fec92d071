"""Structured logging: one line per event, readable on a terminal, JSON when asked for.

Names, errors and addresses are untrusted text. On a terminal they are escaped, so that no text can look like an event,
and tracebacks are indented. Tracebacks never show variables, which can hold tokens and passwords.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import structlog

from rota.domain.text import escape_control


def configure_logging(*, level: str = "info", json: bool = False, role: str = "rota") -> None:
    """Configures structlog for this process; `role` is on every line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *((structlog.processors.format_exc_info, structlog.processors.JSONRenderer()) if json else _for_people()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        # Logs bypass the stream that captures the output of runs.
        logger_factory=lambda *_: structlog.PrintLogger(_lenient(getattr(sys.stderr, "original", sys.stderr))),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(role=role)
    # We log one line when the database is away; the driver's tracebacks would bury it.
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)


class _Lenient(io.StringIO):
    """A stream that ignores write errors (full disk, closed pipe): logging must not stop the program."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # there is nowhere left to report it
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


@lru_cache(maxsize=4)  # structlog keeps a lock for each stream
def _lenient(stream: Any) -> _Lenient:
    return _Lenient(stream)


def get_logger(name: str) -> Any:
    """A logger bound to a component's name."""
    return _Logger(name)


class _Logger:
    """Logs by structlog in Rota's own processes, and by Python's logging in a program that uses the library: structlog
    that is not configured would write every event to the program's output."""

    def __init__(self, component: str) -> None:
        self._component = component

    def __getattr__(self, method: str) -> Any:
        if structlog.is_configured():
            return getattr(structlog.get_logger(component=self._component), method)
        return partial(self._log_plainly, method)

    def _log_plainly(self, method: str, event: str, *, exc_info: Any = None, **details: Any) -> None:
        level = logging.ERROR if method == "exception" else logging.getLevelNamesMapping()[method.upper()]
        words = " ".join([event, *(f"{name}={value}" for name, value in details.items())])
        plain = logging.getLogger(f"rota.{self._component}")
        plain.log(level, "%s", escape_control(words), exc_info=exc_info or method == "exception")


def _for_people() -> list[Any]:
    colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return [_escape, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=_write_traceback)]


def _escape(_logger: Any, _method: str, event: Any) -> Any:
    return {
        escape_control(name): escape_control(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _write_traceback(out: Any, exception: Any) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exception)
    for line in text.getvalue().strip("\n").split("\n"):
        out.write(f"\n    | {escape_control(line)}")
