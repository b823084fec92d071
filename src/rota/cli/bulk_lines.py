"""Files of jobs, one JSON object per line, read in pieces and made safe to send again.

Every line without an idempotency key gets one: a hash of its number and its content. So sending the file again makes no
job twice, and a corrected or appended line is a new one. The server checks the content.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

_PIECE_BYTES = 1 << 16
LONGEST_BYTES = 11 * 1024 * 1024  # the server's limit for one job
_IDLE_SECONDS = 0.5  # lines are not held back longer when input pauses
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEY_LENGTH = 40


class JobLine(NamedTuple):
    """A line with content; `end` is its end in the file."""

    number: int
    content: bytes
    end: int


class BadLine(NamedTuple):
    """A line that can't be sent, and why."""

    number: int
    reason: str
    end: int


class _Keyed(msgspec.Struct, rename="camel"):
    """A line must be an object, and can have its own key."""

    idempotency_key: Any = UNSET


_decoder = msgspec.json.Decoder(_Keyed)


def read_pieces(descriptor: int) -> Iterator[bytes | None]:
    """The content of a file or pipe as it arrives; None when nothing has arrived for a moment."""
    while True:
        if not select.select([descriptor], [], [], _IDLE_SECONDS)[0]:
            yield None
        elif piece := os.read(descriptor, _PIECE_BYTES):
            yield piece
        else:
            return


def split_lines(pieces: Iterable[bytes | None]) -> Iterator[JobLine | BadLine | None]:
    """The lines with content. Memory is bounded: the rest of a line that is too long is dropped."""
    number, position, begun = 0, 0, bytearray()
    for piece in pieces:
        if piece is None:
            yield None
            continue
        *ended, rest = piece.split(b"\n")
        for part in ended:
            number, position = number + 1, position + len(part) + 1
            begun += part
            yield from _line(number, begun, position)
            begun = bytearray()
        position += len(rest)
        # One byte over the limit shows that it is too long.
        begun += rest[: max(0, LONGEST_BYTES + 1 - len(begun))]
    yield from _line(number + 1, begun, position)


def with_key(line: JobLine, salt: str) -> JobLine | BadLine:
    """The line with a key; another `salt` gives other keys."""
    try:
        known = _decoder.decode(line.content).idempotency_key
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return BadLine(line.number, f"is not a JSON object: {error}", line.end)
    key = derive_key(line, salt)
    if known is UNSET:
        rest = line.content[1:].lstrip()
        comma = b"" if rest.startswith(b"}") else b","
        return line._replace(content=b'{"idempotencyKey":"%s"%s%s' % (key.encode(), comma, rest))
    if known is None:
        job = {**json.loads(line.content), "idempotencyKey": key}
        return line._replace(content=json.dumps(job).encode())
    return line


def derive_key(line: JobLine, salt: str) -> str:
    """A key that depends on the salt, the line's number and its content."""
    return "line-" + sha256(b"%s\0%d\0%s" % (salt.encode(), line.number, line.content)).hexdigest()[:_KEY_LENGTH]


def _line(number: int, begun: bytearray, end: int) -> Iterator[JobLine | BadLine]:
    if number == 1 and begun.startswith(_BYTE_ORDER_MARK):
        del begun[: len(_BYTE_ORDER_MARK)]
    if len(begun) > LONGEST_BYTES:
        yield BadLine(number, f"is longer than {LONGEST_BYTES:,} bytes", end)
        return
    # JSON strings have no raw carriage returns; elsewhere one equals a space.
    content = bytes(begun.replace(b"\r", b" ").strip())
    if content:
        yield JobLine(number, content, end)
