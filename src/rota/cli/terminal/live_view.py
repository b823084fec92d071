"""Views that are redrawn until q or Ctrl-C. They wait for a lost server."""

from __future__ import annotations

import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Group
from rich.text import Text

from rota.cli.terminal.output import PATIENCE_SECONDS
from rota.cli.terminal.tables import console
from rota.client import AnswerError, ServerUnreachableError
from rota.client.errors import NOT_NOW
from rota.client.retries import Patience

Lines = list[Text]
_QUIT = ("q", "Q", "\x03", "\x04", "\x1b")


class ViewEnded(Exception):  # noqa: N818 - not an error: there is nothing more to look at
    """A view has ended; carries its last lines."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self.lines = lines


def is_live() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return console().is_terminal and not console().is_dumb_terminal


def show_live(draw: Callable[[int, int], Lines], *, seconds: float, whole_screen: bool) -> None:
    """Calls `draw(width, height)` every `seconds` and shows its lines, until a key is pressed or it raises ViewEnded.

    While the server does not answer, a line below says so. The last lines stay unless they took the whole screen.
    """
    screen = console()
    lines: Lines = []
    from rich.live import Live  # noqa: PLC0415 - every command imports this module, few draw

    with Live(console=screen, screen=whole_screen, auto_refresh=False) as live, _keys() as quit_within:
        while True:
            note = None
            try:
                lines = draw(screen.width, screen.height)
            except ViewEnded as ended:
                live.update(Group(*ended.lines), refresh=True)
                return
            except (ServerUnreachableError, AnswerError) as error:
                note = _passing(error)
            shown = [*lines[: screen.height - 2], Text(note, "yellow")] if note else lines[: screen.height - 1]
            live.update(Group(*(_one_line(line, screen.width) for line in shown)), refresh=True)
            if quit_within(seconds):
                return


def try_again(poll: Callable[[], Any], tell: Callable[[str], None]) -> Any:
    """Calls `poll` until the server answers; raises when patience runs out."""
    told, patience = None, Patience(PATIENCE_SECONDS)
    while True:
        try:
            return poll()
        except (ServerUnreachableError, AnswerError) as error:
            pause, note = patience.pause_after(error), _passing(error)
            if note != told:
                tell(note)
            told = note
            time.sleep(pause)


def _passing(error: ServerUnreachableError | AnswerError) -> str:
    """A note about a temporary error; raises others."""
    if isinstance(error, AnswerError) and error.status not in NOT_NOW:
        raise error
    return f"No answer, trying again: {error}"


def _one_line(line: Text, width: int) -> Text:
    shown = line.copy()
    shown.truncate(width, overflow="ellipsis")
    shown.no_wrap = True
    return shown


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Gives a function that waits some seconds, and returns true at once when a quit key is pressed."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(seconds: float) -> bool:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        readable, _, _ = select.select([sys.stdin], [], [], left)
        if readable and sys.stdin.read(1) in (*_QUIT, ""):
            return True
    return False


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False
