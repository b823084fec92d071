"""Sends what a task prints and logs to the log of its run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Protocol


class Writer(Protocol):
    """The log of the current run."""

    def write(self, stream: str, text: str) -> None:
        """Adds whole lines."""

    def feed(self, stream: str, data: bytes) -> None:
        """Adds raw output; lines can be cut anywhere."""


# The current run; None outside of runs.
current: ContextVar[Writer | None] = ContextVar("rota_run", default=None)


class RunHandler(logging.Handler):
    """Sends log records of a run to its log; other records go where they went before."""

    def emit(self, record: logging.LogRecord) -> None:
        writer = current.get()
        if writer is not None:
            writer.write("log", f"{record.levelname} {self.format(record)}")
        elif logging.lastResort and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)


class RunStream:
    """Wraps sys.stdout or sys.stderr: what a run prints goes to its log."""

    def __init__(self, original: Any, stream: str) -> None:
        self.original = original
        self._stream = stream

    def write(self, text: str) -> int:
        writer = current.get()
        if writer is None:
            return int(self.original.write(text))
        writer.feed(self._stream, text.encode("utf-8", "replace"))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def capture_output(*, level: int = logging.INFO) -> None:
    """Sends what runs of this process print and log to their logs."""
    root = logging.getLogger()
    root.addHandler(RunHandler())
    root.setLevel(min(level, root.level) if root.level else level)
    sys.stdout = RunStream(sys.stdout, "stdout")
    sys.stderr = RunStream(sys.stderr, "stderr")
