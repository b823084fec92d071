"""What is given on the command line, checked before anything is sent."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from rota.errors import BadInputError

_ID = re.compile(r"(job|run)_[0-9a-f]{32}")
_LIST = {"job": "rota jobs", "run": "rota runs"}


def check_id(content: str, kind: str, field: str) -> str:
    """An id of this kind (`job` or `run`), as lists show it."""
    content = content.strip()
    match = _ID.fullmatch(content)
    if match is None:
        raise BadInputError(
            f"{content[:80]!r} is not an id: {kind}_ and 32 hex digits, as `{_LIST[kind]}` shows them", field=field
        )
    if match[1] != kind:
        raise BadInputError(f"{content} is a {match[1]}; a {kind} is wanted here ({kind}_…)", field=field)
    return content


def read_object(content: str | None, field: str) -> dict[str, Any] | None:
    """A JSON object."""
    if content is None:
        return None
    try:
        found = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"is not valid JSON ({error}); quote it for the shell: '{{…}}'", field=field) from None
    if not isinstance(found, dict):
        raise BadInputError("must be a JSON object, such as '{\"days\": 30}'", field=field)
    return found


def refuse_empty(content: str | None, field: str) -> None:
    """An empty value is not taken for none: in a script it is a variable that somebody forgot to set."""
    if content is not None and not content.strip():
        raise BadInputError("must not be empty", field=field)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
