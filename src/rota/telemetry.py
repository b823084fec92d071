"""Structured logging: one line per event, readable on a terminal, JSON when asked for.

Names, errors and addresses in it are untrusted text. On a terminal they are escaped, so that no text can look like an
event, and the lines of a traceback are set in. Tracebacks never show variables, which can hold tokens and passwords.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import Any

import structlog

from rota.domain.text import escape_control

_SET_IN = "    | "


def configure_logging(*, level: str = "info", json: bool = False, role: str = "rota") -> None:
    """Sets up structlog once for this process; `role` is on every line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(_for_programs() if json else _for_people()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        # Not through what replaces standard error to catch what runs print.
        logger_factory=lambda *_: structlog.PrintLogger(getattr(sys.stderr, "original", sys.stderr)),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(role=role)
    # The component that needs a database logs one line when it is away; the driver's tracebacks would bury that.
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)


def get_logger(name: str) -> Any:
    """A logger bound to a component's name."""
    return structlog.get_logger(component=name)


def _for_programs() -> list[Any]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _for_people() -> list[Any]:
    return [
        _escape,
        structlog.dev.ConsoleRenderer(colors=_wants_colours(), exception_formatter=_write_traceback),
    ]


def _wants_colours() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def _escape(_logger: Any, _method: str, event: Any) -> Any:
    return {
        escape_control(name): escape_control(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _write_traceback(out: Any, exception: Any) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exception)
    for line in text.getvalue().strip("\n").split("\n"):
        out.write(f"\n{_SET_IN}{escape_control(line)}")
