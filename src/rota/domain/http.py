"""What an HTTP job may ask for."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.errors import BadInputError

MOST_REDIRECTS = 20
_NAMED = re.compile(r"Object (?:contains unknown|missing required) field `(?P<field>[^`]*)`")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What the connection itself needs to be right about, and what marks the run, is not the caller's to say.
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"})

Status = Annotated[int, Meta(ge=100, le=599)]


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
        """Its method; with a body POST unless it says otherwise."""
        if self.method is not UNSET:
            return self.method
        return "GET" if self.body is UNSET and self.json is UNSET else "POST"

    def expects(self, status: int) -> bool:
        """Whether this answer is a success: any 2xx unless it says otherwise."""
        if self.expected_status is UNSET:
            return 200 <= status < 300  # noqa: PLR2004 - as HTTP counts
        wanted = self.expected_status
        return status in wanted if isinstance(wanted, list) else status == wanted


def parse_http_call(payload: Any) -> HttpCall:
    """The call; raises BadInputError naming the field."""
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
    """Which field it is about, and what is wrong with it."""
    words, _, path = message.partition(" - at `$")
    field = "payload" + path.rstrip("`")
    if named := _NAMED.match(words):
        return f"{field}.{named['field']}", "unknown field" if "unknown" in words else "required, but missing"
    return field, words[:1].lower() + words[1:]
