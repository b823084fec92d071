"""What can run: one file per kind, behind one small protocol."""

from __future__ import annotations

from typing import Any, Protocol

from rota.task.context import Context


class Runner(Protocol):
    """Runs one kind of task.

    `run` returns what JSON can hold, or raises: the attempt failed. Cancelling the call asks the task to stop; it
    returns when the task has stopped, or when it can't be stopped and gave up waiting.
    """

    async def run(self, task: str, payload: Any, context: Context) -> Any:
        """One attempt."""
        ...
