"""Shell commands. Off unless switched on for a worker: whoever may submit jobs can then run anything on its host.

Secrets of the settings are not handed to them, for the same reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rota.domain.runner_payloads import ShellCall, parse_shell_call
from rota.errors import BadInputError
from rota.task.context import Context, Final
from rota.worker.runners.command import CommandError, CommandRunner

NAME_LENGTH = 60


class ShellRunner(CommandRunner):
    """Runs `payload.command` with /bin/sh, or the shell that the payload names."""

    async def run(self, task: str, payload: Any, context: Context) -> Any:  # noqa: ARG002 - one task, one name
        """One process; the end of its standard output is part of the result."""
        try:
            call = parse_shell_call(payload)
        except BadInputError as error:  # not every way to submit is the API's
            raise Final(f"{error.fields[0][0]} {error}") from None
        shown = call.command if len(call.command) <= NAME_LENGTH else f"{call.command[:NAME_LENGTH]}…"
        return await self.run_command(
            [call.shell, "-c", call.command],
            context,
            name=f"`{shown}`",
            environment=call.environment,
            given=call.given.encode("utf-8", "surrogatepass"),
            directory=_directory(call),
        )


def _directory(call: ShellCall) -> Path | None:
    """Where it runs; the worker's home for ~."""
    try:
        return None if call.directory is None else Path(call.directory).expanduser()
    except RuntimeError as error:  # the home of somebody who is not there
        raise CommandError(f"payload.directory {call.directory!r}: {error}") from None
