"""Children that do not outlive us: on Linux the system itself ends a child whose parent died."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """For `preexec_fn`: the child gets this signal when the thread that started it dies. None: no such thing here."""
    if _libc is None:
        return None

    def ask() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)

    return ask
