"""Scripts from one directory: parameters as JSON on standard input and in ROTA_PARAMS; the exit code decides."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rota.domain.job import check_script_name
from rota.errors import BadInputError
from rota.task.context import Context, Final
from rota.worker.runners.command import CommandRunner, NotStartedError
from rota.worker.runners.guarded_process import Subprocesses

# Larger parameters are on standard input only, because the system limits the environment.
LARGEST_VARIABLE_BYTES = 100_000
# Why a script can't be started, now or later: it was removed since it was found, or the file is at fault.
_FOR_GOOD = {
    errno.ENOENT: "it, or the program in its first line (#!), is not there",
    errno.ENOEXEC: "it is no program, and has no first line such as #!/bin/sh",
    errno.EACCES: "it, or the program in its first line (#!), is not executable",
    errno.ELOOP: "the program in its first line (#!) is a script itself, and so on",
}


class ScriptRunner(CommandRunner):
    """Runs `payload.script` from the scripts directory, and nothing outside of it."""

    def __init__(self, directory: Path, subprocesses: Subprocesses, *, grace_seconds: float) -> None:
        super().__init__(subprocesses, grace_seconds=grace_seconds)
        self._directory = directory

    async def run(self, task: str, payload: Any, context: Context) -> Any:  # noqa: ARG002 - one task, one name
        try:
            return await self._run(payload if isinstance(payload, dict) else {}, context)
        except (Final, NotStartedError) as error:
            context.write("stderr", str(error))  # where people look first: nothing else is in its log
            raise

    async def _run(self, wanted: Mapping[str, Any], context: Context) -> Any:
        script = find_script(self._directory, wanted.get("script"))
        command = _command(script)
        parameters = msgspec.json.encode(wanted.get("params", {}))
        variables = {"ROTA_PARAMS": parameters.decode()} if len(parameters) <= LARGEST_VARIABLE_BYTES else {}
        try:
            return await self.run_command(
                command,
                context,
                name=script.name,
                environment={**context.secrets, **variables},
                given=parameters,
                directory=self._directory,
            )
        except NotStartedError as error:
            if why := _FOR_GOOD.get(error.errno):
                raise Final(f"{error}; {why}") from None
            raise


def find_script(directory: Path, name: Any) -> Path:
    """The script's resolved path, so that what was checked is what runs, even if a link changes. Raises Final when
    there is no such script, or the name leads out of the directory."""
    try:
        check_script_name(name)  # not every job comes through the API
    except BadInputError as error:
        raise Final(f"payload.script {error}") from None
    try:
        root = directory.resolve()
        path: Path = (root / name).resolve()
        is_there: bool = path.is_file()
    except (OSError, RuntimeError) as error:  # a name too long, a link to itself
        raise Final(f"{name!r} can't be looked for in the scripts directory: {error}") from None
    if not path.is_relative_to(root) or path == root:
        raise Final(f"{name!r} leads out of the scripts directory")
    if not is_there:
        raise Final(f"there is no script {name!r} in the scripts directory of this worker")
    return path


def _command(script: Path) -> list[str]:
    if script.suffix == ".py":
        return [sys.executable, "-u", str(script)]
    if not os.access(script, os.X_OK):
        raise Final(f"{script.name} is not executable (chmod +x it; only .py files run without)")
    return [str(script)]
