"""Time limits of coroutines.

Before Python 3.11.3, asyncio.timeout() raises CancelledError instead of TimeoutError in a task that is being cancelled:
what such a task does to clean up would end in the middle. There we use a time limit of our own.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

_MENDED = (3, 11, 3)


def time_limit(seconds: float | None) -> AbstractAsyncContextManager[Any]:
    """Raises TimeoutError if the block takes longer; None: it may take as long as it likes."""
    return asyncio.timeout(seconds) if sys.version_info >= _MENDED else OwnTimeLimit(seconds)


class OwnTimeLimit:
    """Cancels the task when the time is over, and turns that into TimeoutError."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task = task
        self._cancelled_before = task.cancelling()
        if self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, self._seconds), self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_over and self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error
