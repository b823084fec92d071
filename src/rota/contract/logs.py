"""What runs wrote."""

from __future__ import annotations

from datetime import datetime

from rota.contract.fields import Out


class LogLine(Out, kw_only=True):
    """A line that a run wrote: to `stdout` or `stderr`, or with a logger (`log`)."""

    run_id: str
    attempt: int
    time: str
    stream: str
    text: str


class LogList(Out, kw_only=True):
    """Lines that were found."""

    items: list[LogLine]
    next_cursor: str | None


class LogUrl(Out, kw_only=True):
    """Where a log can be read for a while without a token."""

    url: str
    expires_time: datetime
