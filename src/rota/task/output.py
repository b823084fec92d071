"""What the code of a task prints and logs goes to the log of its run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Protocol

_LOG = "log"


class Writer(Protocol):
    """Where the lines of the run at hand go."""

    def write(self, stream: str, text: str) -> None:
        """Whole lines."""

    def feed(self, stream: str, data: bytes) -> None:
        """Whatever came out of a stream; lines may be cut anywhere."""


# The run that the code at hand belongs to; None outside of runs.
current: ContextVar[Writer | None] = ContextVar("rota_run", default=None)


class RunHandler(logging.Handler):
    """Gives what is logged inside a run to its log; the rest goes where it went without us."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record."""
        writer = current.get()
        if writer is not None:
            writer.write(_LOG, f"{record.levelname} {self.format(record)}")
        elif logging.lastResort and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)


class RunStream:
    """Stands before sys.stdout or sys.stderr: what is printed inside a run goes to its log."""

    def __init__(self, original: Any, stream: str) -> None:
        self.original = original
        self._stream = stream

    def write(self, text: str) -> int:
        """Like the stream it stands before."""
        writer = current.get()
        if writer is None:
            return int(self.original.write(text))
        writer.feed(self._stream, text.encode("utf-8", "replace"))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Like the stream it stands before."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def capture_output(*, level: int = logging.INFO) -> None:
    """From now on this process gives what runs print and log to their logs."""
    root = logging.getLogger()
    root.addHandler(RunHandler())
    root.setLevel(min(level, root.level) if root.level else level)
    sys.stdout = RunStream(sys.stdout, "stdout")
    sys.stderr = RunStream(sys.stderr, "stderr")
