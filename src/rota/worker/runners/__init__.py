"""Runners: one file per kind of task, behind one small protocol."""

from __future__ import annotations

from typing import Any, Protocol

from rota.task.context import Context


class Runner(Protocol):
    """Runs one kind of task.

    `run` returns a JSON value, or raises if the attempt failed. Cancelling the call asks the task to stop; the call
    returns when the task has stopped, or can't be stopped.
    """

    async def run(self, task: str, payload: Any, context: Context) -> Any: ...
