"""What runs print and log is their log, as in a worker; and a test's output as well, so that pytest shows it.

Only while runs are under way: pytest puts its own streams in place before and after each phase of a test.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rota.worker.logs import RunHandler, RunStream, current


class _Both(RunStream):
    def write(self, text: str) -> int:
        if current.get() is not None:
            self.original.write(text)
        return super().write(text)


@contextmanager
def captured_output() -> Iterator[None]:
    """Meanwhile, what is said inside a run goes to its log."""
    root, handler = logging.getLogger(), RunHandler()
    handler.addFilter(lambda _record: current.get() is not None)
    level, streams = root.level, (sys.stdout, sys.stderr)
    both: tuple[Any, Any] = _Both(sys.stdout, "stdout"), _Both(sys.stderr, "stderr")
    root.addHandler(handler)
    root.setLevel(min(level or logging.INFO, logging.INFO))
    sys.stdout, sys.stderr = both
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        root.setLevel(level)
        root.removeHandler(handler)
