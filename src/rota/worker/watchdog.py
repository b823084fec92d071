"""The watchdog: a thread that notices when the event loop is blocked.

A task that never yields stops everything: beats, signals, other runs. The watchdog logs it with its stack. It also ends
the process before the lease ends if the worker is cut off and runs did not stop, so that no run is in two places.
heartbeat.py decides the cut-off, `Worker._must_leave` the exit.

While nothing runs, the loop and the thread look rarely. The first run that starts makes them look closely, from
before its first line on.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType

from rota.clock import uptime
from rota.domain.ids import show_run
from rota.service import Service
from rota.telemetry import get_logger
from rota.worker.executor import Attempt, Executor

_LOOK_SECONDS = 0.05
_IDLE_LOOK_SECONDS = 2.0
_BLOCKED_SECONDS = 0.5
_log = get_logger("watchdog")


class Watchdog(Service):
    """Watches one event loop: each round marks that the loop turns, and a thread notices when rounds stop."""

    interval_seconds = _LOOK_SECONDS
    jitter = 0

    def __init__(
        self,
        *,
        must_leave: Callable[[], bool],
        leave: Callable[[], None],
        is_idle: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = uptime,
    ) -> None:
        """`is_idle`: whether nothing runs that could block the loop or would have to be stopped."""
        super().__init__()
        self._must_leave = must_leave
        self._leave = leave
        self._is_idle = is_idle
        self._monotonic = monotonic
        self._turns_by = monotonic()  # when the next turn is expected
        self._stopping = False
        self._alert = threading.Event()
        self.blocked_for = 0.0

    @property
    def pause_seconds(self) -> float:
        """Short while something runs."""
        return _IDLE_LOOK_SECONDS if self._is_idle() else _LOOK_SECONDS

    def look_closely(self) -> None:
        """The first run starts with the next turn of the loop."""
        self._note_turn()
        self._alert.set()
        self.wake()

    async def open(self) -> None:
        self._loop_thread = threading.get_ident()
        self._note_turn()
        threading.Thread(target=self._watch, name="rota-watchdog", daemon=True).start()

    async def tick(self) -> int:
        self._note_turn()
        return 0

    async def close(self) -> None:
        self._stopping = True
        self._alert.set()

    def _note_turn(self) -> None:
        self._turns_by = self._monotonic() + self.pause_seconds

    def _watch(self) -> None:
        while not self._stopping:
            self._alert.clear()  # before it asks, or it would miss a run that starts just then
            self._alert.wait(self.pause_seconds)
            try:
                self._look()
                must_leave = self._must_leave()
            except Exception:  # noqa: BLE001 - without this thread nothing ends a process whose lease is over
                _log.exception("the watchdog failed to check the event loop; it tries again")
                continue
            if must_leave:
                self._leave()
                return

    def _look(self) -> None:
        silent = self._monotonic() - self._turns_by + _LOOK_SECONDS
        was_blocked, blocked = self.blocked_for > 0, silent > _BLOCKED_SECONDS
        self.blocked_for = silent if blocked else 0.0
        if blocked and not was_blocked:
            self._log_stack(silent)
        elif was_blocked and not blocked:
            _log.info("the event loop is no longer blocked")

    def _log_stack(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the way to see another thread's stack
        attempt, frames = _attempt_of(frame)
        _log.error(
            "the event loop is blocked and nothing else can run; use await, or make the task a plain def",
            seconds=round(seconds, 2),
            run_id=show_run(attempt.claim.run_id) if attempt else None,
            task=attempt.claim.task if attempt else None,
            stack="".join(traceback.format_stack(frame, frames)) if frame else None,
        )


def _attempt_of(frame: FrameType | None) -> tuple[Attempt | None, int | None]:
    """The attempt whose code is on this stack, and how many of the frames belong to it."""
    frames = 0
    while frame:
        if frame.f_code is Executor._execute.__code__:  # noqa: SLF001 - this is its watchdog
            found = frame.f_locals.get("attempt")
            return (found, frames) if isinstance(found, Attempt) else (None, None)
        frame = frame.f_back
        frames += 1
    return None, None
