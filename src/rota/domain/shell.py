"""What a shell job asks for: a command, and what it finds around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rota.domain.job import check_command
from rota.errors import BadInputError

SHELL = "/bin/sh"
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
    fields = payload if isinstance(payload, dict) else {}
    call = ShellCall(
        check_command(fields.get("command")),
        _text(fields, "shell") or SHELL,
        _environment(fields.get("environment")),
        _text(fields, "input") or "",
        _text(fields, "directory"),
    )
    if not call.shell.startswith("/"):
        raise BadInputError("must be the whole path of a shell, such as /bin/bash", field="payload.shell")
    return call


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, str) or "\x00" in value):
        raise BadInputError("must be text", field=f"payload.{name}")
    return value


def _environment(value: Any) -> Mapping[str, str]:
    if value is None:
        return {}
    fits = isinstance(value, dict) and all(
        isinstance(text, str) and "\x00" not in text and _VARIABLE.fullmatch(name) for name, text in value.items()
    )
    if not fits:
        raise BadInputError("must be an object of variables, each a text", field="payload.environment")
    if any(name.startswith("ROTA_") for name in value):
        raise BadInputError("may not name variables that begin with ROTA_", field="payload.environment")
    return dict(value)
