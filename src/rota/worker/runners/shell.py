"""Shell commands. Off unless switched on for a worker: whoever may submit jobs can then run anything on its host.

Secrets of the settings are not handed to them, for the same reason.
"""

from __future__ import annotations

from typing import Any

from rota.worker.context import Context, Final
from rota.worker.runners.command import CommandRunner

TASK = "shell"
SHELL = "/bin/sh"
NAME_LENGTH = 60


class ShellRunner(CommandRunner):
    """Runs `payload.command` with /bin/sh."""

    async def run(self, task: str, payload: Any, context: Context) -> Any:  # noqa: ARG002 - one task, one name
        """One process; the end of its standard output is part of the result."""
        command = (payload or {}).get("command")
        if not isinstance(command, str) or not command.strip() or "\x00" in command:
            raise Final("payload.command must be the text of a shell command")
        shown = command if len(command) <= NAME_LENGTH else f"{command[:NAME_LENGTH]}…"
        return await self.run_command([SHELL, "-c", command], context, name=f"`{shown}`", environment={})
