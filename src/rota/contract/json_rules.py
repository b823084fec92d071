"""JSON checks that the decoder does not make: repeated names in an object, deep nesting, too many values or digits.

If an object has two fields with one name, some decoders take the first and some the last, so a job could be checked
with one and run with the other. Deep nesting costs stack, and each library has its own limit. A value takes two bytes
of text and up to a hundred of memory, and a server that parses millions of them answers no other request, so values are
counted before parsing. So are the digits of long numbers: parsing one takes time proportional to the square of its
length. All checks run in C over the text, in time at most proportional to its length.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from itertools import accumulate
from typing import Any, get_args

import msgspec
import msgspec.inspect

from rota.contract.fields import MisfirePolicy, OnDuplicate, OnFailure, PriorityName, RunStatusName
from rota.domain.business_days import OnExcludedDay
from rota.domain.cron import ClockChange
from rota.domain.job import ScheduleType
from rota.domain.policies import Overlap
from rota.domain.retry import Strategy
from rota.errors import BadInputError

MOST_LEVELS = 64
MOST_VALUES = 200_000  # in one job: reading and checking that many takes some 50 ms
MOST_DIGITS = 1_000_000  # of all long numbers in one job: likewise
_LARGE_PAYLOAD_BYTES = 256
_TRACE_HEADERS = frozenset({"traceparent", "tracestate"})
_ALIKE = bytes.maketrans(b"[]{}", b"()()")
_ALL_ELSE = bytes(set(range(256)) - set(b'[]{}"'))
_ALL_BUT_BEGINNINGS = bytes(set(range(256)) - set(b',[{"'))  # each value begins after one of these, except the quote
_SLICE_BYTES = 64 * 1024
_LONG_NUMBER = re.compile(rb"(?<![0-9])[0-9]{40,}+")
# Up to the next bracket, or the next bracket or comma, that is not in a string.
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+[\[\]{}]', re.DOTALL)
_TO_SEPARATOR = re.compile(rb'(?:[^",\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+[,\[\]{}]', re.DOTALL)
_UP_AND_DOWN = bytes.maketrans(b"()", b"\x01\xff")  # 1 and -1
_SHALLOW = 4
TOO_MANY_VALUES = (
    f"has more than {MOST_VALUES:,} values (numbers, texts, lists and objects): store it, and send its key"
)
TOO_MANY_DIGITS = f"has numbers of more than {MOST_DIGITS:,} digits in all: send long ones as text"
_encoder = msgspec.json.Encoder()
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"^Object (?:contains unknown|missing required) field `(?P<field>[^`]*)`")
# The decoder's messages in plain words.
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
        re.compile(
            r"^(?:Invalid RFC3339 encoded datetime|Expected `datetime` with a timezone component|"
            r"Expected `datetime(?: \| null)?`, got .*)$"
        ),
        "must be a valid time with an offset, such as 2030-01-31T09:30:00Z",
    ),
)
_NO_CHOICE = "Invalid enum value"
_CHOICES = {
    "scheduleType": get_args(ScheduleType),
    "priority": get_args(PriorityName),
    "strategy": get_args(Strategy),
    "status": get_args(RunStatusName),
    "dst": get_args(ClockChange),
    "onExcludedDay": get_args(OnExcludedDay),
    "overlap": get_args(Overlap),
    "misfire": get_args(MisfirePolicy),
    "policy": get_args(MisfirePolicy),
    "orderingOnFailure": get_args(OnFailure),
    "onDuplicate": get_args(OnDuplicate),
}


@cache
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a type; making one takes longer than using it."""
    return msgspec.json.Decoder(kind)


def is_too_deep(text: bytes) -> bool:
    """Whether valid JSON is nested too deep. Most JSON has too few brackets to need a closer look."""
    if text.count(b"{") + text.count(b"[") <= MOST_LEVELS:
        return False
    brackets = _brackets_of(text)
    for _ in range(_SHALLOW):  # mostly nothing is left after this
        brackets = brackets.replace(b"()", b"")
    if not brackets:
        return False
    return max(accumulate(array("b", brackets.translate(_UP_AND_DOWN)))) > MOST_LEVELS - _SHALLOW


def excess_of(text: bytes) -> str | None:
    """What JSON, valid or not, has too much of to be read, as the rest of a sentence; None: nothing."""
    if has_too_many_values(text):
        return TOO_MANY_VALUES
    return TOO_MANY_DIGITS if _has_too_many_digits(text) else None


def has_too_many_values(text: bytes) -> bool:
    """Whether JSON, valid or not, has more than MOST_VALUES values. Most has too few commas to need a closer look."""
    if text.count(b",") + text.count(b"{") + text.count(b"[") <= MOST_VALUES:
        return False
    kept = _without_escapes(text).translate(None, _ALL_BUT_BEGINNINGS)
    return _exceeds(MOST_VALUES, (sum(map(len, parts)) for parts in _outside_strings(kept)))


def _has_too_many_digits(text: bytes) -> bool:
    """Whether the long numbers of JSON have more than MOST_DIGITS digits in all."""
    if len(text) <= MOST_DIGITS or not _exceeds(MOST_DIGITS, map(len, _LONG_NUMBER.findall(text))):
        return False
    outside = (b" ".join(parts) for parts in _outside_strings(_without_escapes(text)))
    return _exceeds(MOST_DIGITS, (sum(map(len, _LONG_NUMBER.findall(part))) for part in outside))


def _exceeds(most: int, counts: Iterable[int]) -> bool:
    """Whether these are more in all; stops where they are."""
    return any(total > most for total in accumulate(counts))


def _outside_strings(kept: bytes) -> Iterator[list[bytes]]:
    """What is between the strings of JSON without escapes, slice by slice: a long text may not be split to its end."""
    in_string = 0
    for start in range(0, len(kept), _SLICE_BYTES):
        parts = kept[start : start + _SLICE_BYTES].split(b'"')
        yield parts[in_string::2]
        in_string ^= (len(parts) - 1) & 1


def items_of(text: bytes) -> Iterator[bytes]:
    """The texts of the items of a JSON array, one by one: nothing is made of an item before it is asked for.

    Finds where they end, and no more: each must be decoded. Raises BadInputError where the array is no JSON at all, or
    an item has too many values.
    """
    start = position = first = text.find(b"[") + 1
    if not start or text[: start - 1].strip():
        raise BadInputError("the body is not valid JSON: an array is expected")
    while True:
        found = _TO_SEPARATOR.match(text, position)
        if found is None:
            raise BadInputError("the body is not valid JSON: the array does not end")
        position = found.end()
        sign = text[position - 1 : position]
        if sign in b"[{":
            position = _end_of_nested(text, position)
        elif sign in b",]":
            item = text[start : position - 1]
            if item.strip():
                yield item
            elif sign == b"," or start != first:
                raise BadInputError("the body is not valid JSON: an item is missing")
            if sign == b"]":
                break
            start = position
        else:
            raise BadInputError("the body is not valid JSON: a bracket is out of place")
    if text[position:].strip():
        raise BadInputError("the body is not valid JSON: something follows the array")


def _end_of_nested(text: bytes, position: int) -> int:
    """Where the array or object that begins just before `position` ends."""
    depth = 1
    for _ in range(2 * MOST_VALUES):
        found = _TO_BRACKET.match(text, position)
        if found is None:
            raise BadInputError("the body is not valid JSON: an item does not end")
        position = found.end()
        depth += 1 if text[position - 1] in b"[{" else -1
        if not depth:
            return position
    raise BadInputError(TOO_MANY_VALUES)


def has_repeated_name(text: bytes, decoded: Any) -> bool:
    """Whether an object in valid, decoded JSON has a name twice.

    Encoding what was decoded gives the same number of colons, unless a field went missing.
    """
    if rb"\u003" in text:  # perhaps escaped colons; encoded they are not
        text = text.replace(rb"\\", b"").replace(rb"\u003a", b":").replace(rb"\u003A", b":")
    return text.count(b":") != _encoder.encode(decoded).count(b":")


def check_names(text: bytes | msgspec.Raw, found: Any) -> None:
    """Raises BadInputError if a name is repeated in JSON that was decoded as `found`. Raw parts (a large payload, the
    items of a list) are checked where they are decoded."""
    if isinstance(found, list) and found and isinstance(found[0], msgspec.Raw):
        return
    text = bytes(text)
    payload = getattr(found, "payload", None)
    if isinstance(payload, msgspec.Raw):
        text = _without(text, bytes(payload))
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return  # the payload is invalid, which is reported where it is decoded
    if has_repeated_name(text, decoded):
        raise BadInputError("the body is not what is expected: an object has two fields of the same name")


def _brackets_of(text: bytes) -> bytes:
    """The brackets outside of strings, as parentheses."""
    kept = _without_escapes(text).translate(_ALIKE, _ALL_ELSE)
    brackets = kept.replace(b'""', b"")
    # The first string with a bracket in it has kept its quotes.
    return brackets if b'"' not in brackets else b"".join(kept.split(b'"')[::2])


def _without_escapes(text: bytes) -> bytes:
    """The text without escaped backslashes and quotes: every quote left begins or ends a string."""
    return text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text


def _without(text: bytes, payload: bytes) -> bytes:
    if len(payload) <= _LARGE_PAYLOAD_BYTES:
        return text
    # Find it by its beginning: searching for long text is slow to set up.
    start = text.find(payload[:_LARGE_PAYLOAD_BYTES])
    return text[:start] + b"null" + text[start + len(payload) :] if text.startswith(payload, start) else text


def bad_json(error: msgspec.MsgspecError, kind: Any = None) -> BadInputError:
    """The error for a body that can't be decoded; names the field, and its choices if the `kind` of body is given."""
    path, words = explain(error, kind=kind)
    if not path:
        return BadInputError(f"the body is not what is expected: {words}")
    return BadInputError(words, field=path)


def explain(error: msgspec.MsgspecError, within: str = "", kind: Any = None) -> tuple[str, str]:
    """Where the decoder met what it can't read, and why not, in plain words; `within`: the field that it decoded, and
    `kind`: as which type."""
    message = str(error)
    path, below = within, ""
    if at := _AT.search(message):
        path, below, message = _joined(path, at["path"]), at["path"], message[: at.start()]
    if named := _NAMED.match(message):
        path = _joined(path, named["field"])
        message = "unknown field" if "unknown" in message else "required, but missing"
    for pattern, phrase in _PHRASES:
        message = pattern.sub(phrase, message)
    if message.startswith(_NO_CHOICE) and (known := _CHOICES.get(path.rpartition(".")[2])):
        message = f"must be one of {', '.join(known)}"
    if message.startswith(_NO_CHOICE) and (known := _choices_of(kind, below)):
        message = f"must be one of {', '.join(known)}"
    return path, message


@cache
def _choices_of(kind: Any, path: str) -> tuple[str, ...]:
    """The words that a field of this type takes, or the type itself (no path); none if it takes others."""
    found: Any = None if kind is None else msgspec.inspect.type_info(kind)
    if path:
        found = next((field.type for field in getattr(found, "fields", ()) if field.encode_name == path), None)
    for one in getattr(found, "types", (found,)):
        if isinstance(one, msgspec.inspect.LiteralType):
            return tuple(map(str, one.values))
    return ()


def _joined(path: str, part: str) -> str:
    return f"{path}.{part}" if path and part and not part.startswith("[") else path + part


def _without_trace(request: Any) -> Any:
    """A repeat in another trace is a repeat."""
    headers = request.get("headers") if isinstance(request, dict) else None
    if not isinstance(headers, dict) or headers.keys().isdisjoint(_TRACE_HEADERS):
        return request
    left = {name: value for name, value in headers.items() if name not in _TRACE_HEADERS}
    rest = {name: value for name, value in request.items() if name != "headers"}
    return rest | {"headers": left} if left else rest


def hash_request(body: bytes) -> bytes:
    """A hash of JSON that ignores spacing and order, and in which trace a job was submitted."""
    try:
        return sha256(msgspec.json.encode(_without_trace(msgspec.json.decode(body)), order="sorted")).digest()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadInputError("is not valid JSON", field="payload") from None
