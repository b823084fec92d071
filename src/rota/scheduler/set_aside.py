"""Sets rows aside that a service can't handle: one schedule that can't be read must not stop the others.

A row is tried again after a pause that doubles up to LONGEST_PAUSE_SECONDS, or at once under another key: a job's key
includes its version, so a change by its owner is tried at once. The error is logged when it is new. Rows set aside
still appear in each query, so the next query asks for that many rows more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from rota.telemetry import get_logger

_SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_KEPT_SECONDS = 3600.0
_log = get_logger("scheduler")


class _Failure(NamedTuple):
    error: str
    again_at: float
    pause: float


class SetAside:
    """Keys of what failed, with the error and the moment of the next try."""

    def __init__(self, message: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._message = message
        self._monotonic = monotonic
        self._failed: dict[Hashable, _Failure] = {}
        self._passed = 0

    def begin(self) -> int:
        """A round begins; returns how many rows the last one passed over."""
        # A row that was not tried for long was repaired, or belongs to another scheduler now.
        oldest = self._monotonic() - _KEPT_SECONDS
        self._failed = {key: found for key, found in self._failed.items() if found.again_at >= oldest}
        passed, self._passed = self._passed, 0
        return passed

    def passes_over(self, key: Hashable) -> bool:
        """Whether to skip this row, because its next try is not due yet."""
        passed = key in self._failed and self._monotonic() < self._failed[key].again_at
        self._passed += passed
        return passed

    def add(self, key: Hashable, error: Exception, **fields: Any) -> None:
        """Sets it aside for a while; `fields` go to the log with an error that is new."""
        what = f"{type(error).__name__}: {error}"
        before = self._failed.get(key)
        if before is None or before.error != what:
            _log.error(self._message, error=what, **fields)
        pause = min(2 * before.pause, LONGEST_PAUSE_SECONDS) if before else _SHORTEST_PAUSE_SECONDS
        self._failed[key] = _Failure(what, self._monotonic() + pause, pause)
