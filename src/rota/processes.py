"""The life of a process: it runs until stopped, ends with its parent, and can replace itself."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

from rota.telemetry import get_logger

SUPERVISED = "ROTA_SUPERVISED"  # set for the children of a supervisor
EXIT_CODE_RESTART = 75
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_log = get_logger("process")


async def run_until_stopped(
    work: Coroutine[Any, Any, None], *, on_stop: Callable[[], Awaitable[None]] | None = None
) -> bool:
    """Runs `work` until it ends, or until SIGTERM, SIGINT, SIGHUP or the death of the supervisor stops the process.
    Then `on_stop` brings `work` to its end; without it, `work` is cancelled. Returns whether the process was stopped.
    """
    stop = asyncio.Event()
    _watch_signals(stop)
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        try:
            if on_stop:
                await on_stop()
        except Exception:  # noqa: BLE001 - the process was told to end, and does
            _log.exception("could not stop in good order")
            on_stop = None
        if not on_stop:
            working.cancel()
    try:
        await working
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    return stop.is_set()


def start_anew() -> NoReturn:
    """Restarts this process, through its supervisor if it has one. Hanging threads end with the old process."""
    if os.environ.get(SUPERVISED):
        os._exit(EXIT_CODE_RESTART)
    os.execv(sys.executable, [sys.executable, "-m", "rota.cli.main", *sys.argv[1:]])  # noqa: S606 - our own command line


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """For `preexec_fn`: sends the child this signal when the thread that started it dies. None if not on Linux."""
    if _libc is None:
        return None

    return lambda: _libc.prctl(_PR_SET_PDEATHSIG, number)


def forbid_inspection() -> None:
    """Other processes of this account can't read our memory, nor what we were started with. Linux only.

    Debuggers and profilers need root then, and there are no core dumps. A program that we start is not affected.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_DUMPABLE, 0)


def _watch_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # SIGHUP: the terminal was closed. A process started with nohup ignores it, and must go on doing so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    if os.environ.get(SUPERVISED):
        # The supervisor holds the other end of our standard input; when it dies, the pipe closes.
        def hear() -> None:
            try:
                is_open = bool(os.read(sys.stdin.fileno(), 1024))
            except BlockingIOError:
                return
            except OSError:
                is_open = False
            if not is_open:
                loop.remove_reader(sys.stdin.fileno())
                stop.set()

        loop.add_reader(sys.stdin.fileno(), hear)
