"""Files of jobs, one JSON object per line: read piece by piece, and made safe to send again.

Every line gets an idempotency key, unless it has one: a hash of its number and its content. So the same file sent again
makes nothing twice, and a line that was corrected, or added at the end, is a new one. Lines are passed on as they were
written: the server checks what is in them.
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
LONGEST_BYTES = 11 * 1024 * 1024  # what the server takes as one job
_IDLE_SECONDS = 0.5  # what was read is not held back for longer while nothing more comes
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_KEY_LENGTH = 40


class JobLine(NamedTuple):
    """A line that holds something: its number, what is in it, and how far into the file it reaches."""

    number: int
    content: bytes
    end: int


class BadLine(NamedTuple):
    """A line that is not worth sending, and why."""

    number: int
    reason: str
    end: int


class _Keyed(msgspec.Struct, rename="camel"):
    """What is read of a line: it must be an object, and can have a key of its own."""

    idempotency_key: Any = UNSET


_decoder = msgspec.json.Decoder(_Keyed)


def read_pieces(descriptor: int) -> Iterator[bytes | None]:
    """What a file or pipe holds, as it comes; None: nothing has come for a moment."""
    while True:
        if not select.select([descriptor], [], [], _IDLE_SECONDS)[0]:
            yield None
        elif piece := os.read(descriptor, _PIECE_BYTES):
            yield piece
        else:
            return


def split_lines(pieces: Iterable[bytes | None]) -> Iterator[JobLine | BadLine | None]:
    """The lines that hold something. However long one is, no more than the longest that can be sent is kept of it."""
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
        # One byte too many is enough to know that it is too long.
        begun += rest[: max(0, LONGEST_BYTES + 1 - len(begun))]
    yield from _line(number + 1, begun, position)


def with_key(line: JobLine, salt: str) -> JobLine | BadLine:
    """The line with a key; `salt` makes other keys of the same lines."""
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
    """A key that is always the same for this content on this line."""
    return "line-" + sha256(b"%s\0%d\0%s" % (salt.encode(), line.number, line.content)).hexdigest()[:_KEY_LENGTH]


def _line(number: int, begun: bytearray, end: int) -> Iterator[JobLine | BadLine]:
    if number == 1 and begun.startswith(_BYTE_ORDER_MARK):
        del begun[: len(_BYTE_ORDER_MARK)]
    if len(begun) > LONGEST_BYTES:
        yield BadLine(number, f"is longer than {LONGEST_BYTES:,} bytes", end)
        return
    # No JSON string holds a carriage return as it is; anywhere else it is as good as a blank.
    content = bytes(begun.replace(b"\r", b" ").strip())
    if content:
        yield JobLine(number, content, end)
