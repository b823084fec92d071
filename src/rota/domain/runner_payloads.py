"""The payloads of shell and HTTP jobs.

A shell job's `payload.command` is a text, or an object with more. These are not extra fields beside the text, so that a
worker of an older release refuses the job instead of running it without its variables or in another directory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.domain.job import check_command
from rota.errors import BadInputError

SHELL = "/bin/sh"
_FIELDS = ("run", "shell", "environment", "input", "directory")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_REDIRECTS = 20
_NAMED = re.compile(r"Object (?:contains unknown|missing required) field `(?P<field>[^`]*)`")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Headers of the connection itself can't be set.
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})

Status = Annotated[int, Meta(ge=100, le=599)]


class ShellCall(NamedTuple):
    """A command, its shell, variables, standard input and working directory."""

    command: str
    shell: str = SHELL
    environment: Mapping[str, str] = {}
    given: str = ""
    directory: str | None = None


def parse_shell_call(payload: Any) -> ShellCall:
    """Parses a payload; raises BadInputError naming the field."""
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


class HttpCall(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The payload of an HTTP job."""

    url: Annotated[str, Meta(max_length=8000)]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] | UnsetType = UNSET
    headers: dict[str, str] = {}
    body: str | UnsetType = UNSET
    json: Any = UNSET
    expected_status: Status | list[Status] | UnsetType = UNSET
    follow_redirects: bool = True
    max_redirects: Annotated[int, Meta(ge=0, le=MOST_REDIRECTS)] = 5

    @property
    def verb(self) -> str:
        """The method; by default POST with a body, else GET."""
        if self.method is not UNSET:
            return self.method
        return "GET" if self.body is UNSET and self.json is UNSET else "POST"

    def expects(self, status: int) -> bool:
        """Whether this status is a success; by default any 2xx."""
        if self.expected_status is UNSET:
            return 200 <= status < 300  # noqa: PLR2004 - as HTTP counts
        wanted = self.expected_status
        return status in wanted if isinstance(wanted, list) else status == wanted


def parse_http_call(payload: Any) -> HttpCall:
    """Parses a payload; raises BadInputError naming the field."""
    try:
        call = (
            msgspec.convert(payload or {}, HttpCall)
            if isinstance(payload, dict)
            else msgspec.json.decode(payload or b"{}", type=HttpCall)
        )
    except msgspec.ValidationError as error:
        field, words = _where(str(error))
        raise BadInputError(words, field=field) from None
    check_url(call.url)
    for name, value in call.headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS or name.lower().startswith("rota-"):
            raise BadInputError(f"{name[:50]!r} is not a header that can be set", field="payload.headers")
        if any((ord(character) < 32 and character != "\t") or ord(character) == 127 for character in value):  # noqa: PLR2004 - control characters
            raise BadInputError(f"the value of {name} has control characters", field="payload.headers")
    if call.body is not UNSET and call.json is not UNSET:
        raise BadInputError("give this or payload.json, not both", field="payload.body")
    return call


def check_url(url: str) -> None:
    """Raises BadInputError unless it is an http or https address with a host."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInputError(f"is not an address: {error}", field="payload.url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise BadInputError("must begin with http:// or https:// and name a host", field="payload.url")
    if any(character.isspace() or ord(character) < 32 for character in url):  # noqa: PLR2004 - control characters
        raise BadInputError("must not have spaces or control characters", field="payload.url")


def _where(message: str) -> tuple[str, str]:
    """The field of a decoding error, and what is wrong with it."""
    words, _, path = message.partition(" - at `$")
    field = "payload" + path.rstrip("`")
    if named := _NAMED.match(words):
        return f"{field}.{named['field']}", "unknown field" if "unknown" in words else "required, but missing"
    return field, words[:1].lower() + words[1:]
