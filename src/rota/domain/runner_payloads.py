"""What a shell job asks for: a command, and what it finds around it.

`payload.command` is a text, or an object that says more. An object, not more fields beside the text: a worker of a
release that knows the text alone must refuse what it does not understand, and not run the command without its
variables or in another directory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rota.domain.job import check_command
from rota.errors import BadInputError

SHELL = "/bin/sh"
_FIELDS = ("run", "shell", "environment", "input", "directory")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ShellCall(NamedTuple):
    """A command, the shell that reads it, its variables, its standard input, and where it runs (as the worker)."""

    command: str
    shell: str = SHELL
    environment: Mapping[str, str] = {}
    given: str = ""
    directory: str | None = None


def parse_shell_call(payload: Any) -> ShellCall:
    """What a payload says; raises BadInputError naming the field that can't be."""
    command = payload.get("command") if isinstance(payload, dict) else None
    if not isinstance(command, dict):
        return ShellCall(check_command(command))
    for name in command:
        if name not in _FIELDS:
            raise BadInputError("unknown field", field=f"payload.command.{name}")
    call = ShellCall(
        check_command(command.get("run"), "payload.command.run"),
        _text(command, "shell") or SHELL,
        _environment(command.get("environment")),
        _text(command, "input") or "",
        _text(command, "directory"),
    )
    if not call.shell.startswith("/"):
        raise BadInputError("must be the whole path of a shell, such as /bin/bash", field="payload.command.shell")
    return call


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, str) or "\x00" in value):
        raise BadInputError("must be text", field=f"payload.command.{name}")
    return value


def _environment(value: Any) -> Mapping[str, str]:
    if value is None:
        return {}
    fits = isinstance(value, dict) and all(
        isinstance(text, str) and "\x00" not in text and _VARIABLE.fullmatch(name) for name, text in value.items()
    )
    if not fits:
        raise BadInputError("must be an object of variables, each a text", field="payload.command.environment")
    if any(name.startswith("ROTA_") for name in value):
        raise BadInputError("may not name variables that begin with ROTA_", field="payload.command.environment")
    return dict(value)
