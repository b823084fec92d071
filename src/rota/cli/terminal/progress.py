"""How far a long command has come: a bar on a terminal, a plain line now and then elsewhere, or nothing.

All of it goes to standard error, so the output of the command can be piped meanwhile.
"""

from __future__ import annotations

import time
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from rota.cli.terminal.tables import clean, console, wants_no_colour

PLAIN_SECONDS = 5.0  # between two lines where there is no bar


class Meter:
    """Shows how many bytes of a file and how many jobs are done, from `with` to its end; `total` is the file's size."""

    def __init__(self, total: int | None, *, quiet: bool) -> None:
        self._console = console(stderr=True)
        self._total = total
        self._quiet = quiet
        self._has_bar = not (
            quiet or not self._console.is_terminal or self._console.is_dumb_terminal or wants_no_colour()
        )
        self._began = self._told = time.monotonic()
        self._progress = Progress(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]:,} jobs"),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(compact=True),
            console=self._console,
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task("", total=total or None, count=0, rate=0.0)

    def __enter__(self) -> Self:
        if self._has_bar:
            self._progress.start()
        return self

    def __exit__(self, *_details: object) -> None:
        if self._has_bar:
            self._progress.stop()

    def show(self, position: int, count: int) -> None:
        """Moves the bar; without one, says how far it is, unless it did a moment ago."""
        now = time.monotonic()
        rate = count / max(now - self._began, 1e-6)
        if self._has_bar:
            self._progress.update(self._task, completed=position, count=count, rate=rate)
        elif now - self._told >= PLAIN_SECONDS:
            self._told = now
            part = f" ({position / self._total:.0%})" if self._total else ""
            self.tell(f"{count:,} jobs{part}, {rate:,.0f} a second")

    def tell(self, words: str) -> None:
        """Prints a line about the progress, such as why nothing moves; not when it is quiet."""
        if not self._quiet:
            self._print(Text(clean(words), "dim" if self._has_bar else ""))

    def warn(self, words: str) -> None:
        """Prints a line, even when it is quiet."""
        self._print(Text(clean(words)))

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)
