"""Structured logging: one line per event, readable on a terminal, JSON when asked for."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure_logging(*, level: str = "info", json: bool = False, role: str = "rota") -> None:
    """Sets up structlog once for this process; `role` is on every line."""
    renderer: Any = (
        structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if json else _pass_through,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        # What stands before standard error to catch what runs print is not for us.
        logger_factory=lambda *_: structlog.PrintLogger(getattr(sys.stderr, "original", sys.stderr)),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(role=role)
    # A database that is away is told by whoever needs it, in a line; the driver's tracebacks would bury that.
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)


def _pass_through(_logger: Any, _method: str, event: Any) -> Any:
    return event


def get_logger(name: str) -> Any:
    """A logger bound to a component's name."""
    return structlog.get_logger(component=name)
