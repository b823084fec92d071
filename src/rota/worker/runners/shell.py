"""Shell commands. Off by default, because anyone who can submit jobs can then run anything on the worker's host.

For the same reason they don't get the secrets of the settings.
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
        try:
            call = parse_shell_call(payload)
        except BadInputError as error:  # not every job comes through the API
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
    """The working directory; ~ is the worker's home."""
    try:
        return None if call.directory is None else Path(call.directory).expanduser()
    except RuntimeError as error:  # the home of an unknown user
        raise CommandError(f"payload.directory {call.directory!r}: {error}") from None
