"""Reading what comes in: what does not fit the contract, in words for people; whether two requests are the same."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import get_args

import msgspec

from rota.contract.fields import MisfirePolicy, OnDuplicate, OnFailure, PriorityName, RunStatusName
from rota.domain.job import ScheduleType
from rota.domain.policies import Overlap
from rota.domain.retry import Strategy
from rota.domain.schedule import ClockChange
from rota.errors import BadInputError

_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"^Object (?:contains unknown|missing required) field `(?P<field>[^`]*)`")
# What the decoder says, in words for people.
_PHRASES = (
    (re.compile(r"^Expected `str` of length >= 1$"), "must not be empty"),
    (re.compile(r"^Expected `str` of length <= (\d+)$"), r"must have at most \1 characters"),
    (re.compile(r"^Expected `array` of length <= (\d+)$"), r"must have at most \1 items"),
    (re.compile(r"^Expected `(?:int|float)` ([<>]=?) ([\d.]+)$"), r"must be \1 \2"),
    (re.compile(r"^Expected `str` matching regex '\^\[A-Za-z.*$"), "may hold letters, digits and _ . : - only"),
    (re.compile(r"^Expected `str` matching regex '\^(job|run)_.*$"), r"must be \1_ and 32 hex digits"),
    (re.compile(r"^Expected `str` matching regex .*,\]\+.*$"), "may hold neither commas nor control characters"),
    (re.compile(r"^Expected `str` matching regex .*$"), "holds characters that are not allowed"),
    (
        re.compile(r"^(?:Invalid RFC3339 encoded datetime|Expected `datetime` with a timezone component)$"),
        "must be a valid time with an offset, such as 2030-01-31T09:30:00Z",
    ),
)
_CHOICES = {
    "scheduleType": get_args(ScheduleType),
    "priority": get_args(PriorityName),
    "strategy": get_args(Strategy),
    "status": get_args(RunStatusName),
    "dst": get_args(ClockChange),
    "overlap": get_args(Overlap),
    "misfire": get_args(MisfirePolicy),
    "policy": get_args(MisfirePolicy),
    "orderingOnFailure": get_args(OnFailure),
    "onDuplicate": get_args(OnDuplicate),
}


def bad_json(error: msgspec.MsgspecError) -> BadInputError:
    """Our error for a body that does not decode; names the field."""
    message = str(error)
    path = ""
    if at := _AT.search(message):
        path, message = at["path"], message[: at.start()]
    if named := _NAMED.match(message):
        path = f"{path}.{named['field']}" if path else named["field"]
        message = "unknown field" if "unknown" in message else "required, but missing"
    for pattern, phrase in _PHRASES:
        message = pattern.sub(phrase, message)
    if message.startswith("Invalid enum value") and (known := _CHOICES.get(path.rpartition(".")[2])):
        message = f"must be one of {', '.join(known)}"
    if not path:
        return BadInputError(f"the body is not what is expected: {message}")
    return BadInputError(message, field=path)


def hash_request(body: bytes) -> bytes:
    """The same for the same JSON, however it is spaced and ordered."""
    try:
        return sha256(msgspec.json.encode(msgspec.json.decode(body), order="sorted")).digest()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadInputError("is not valid JSON", field="payload") from None
