"""What a person sees while it runs: one line per step, with its figures as they come."""

from __future__ import annotations

import time

from rich.console import Console


class Progress:
    """Prints steps with the time since the start."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        """A scenario begins."""
        self._console.print(f"\n[bold]{text}[/bold]")

    def say(self, text: str) -> None:
        """A step begins."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        self._console.print(f"  [dim]{minutes:02}:{seconds:02}[/dim] {text}", soft_wrap=True)

    def figure(self, text: str) -> None:
        """A figure of the step."""
        self._console.print(f"          {text}", soft_wrap=True)
