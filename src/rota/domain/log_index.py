"""The index of logs: which blocks of text can contain what is searched for.

A block has the whole logs of some attempts, of one owner and about one time: a stretch of an object in object storage
that many logs share, or logs that have an object each. Its filter is a set of bits. Each sequence of three and of five
bytes within a word sets one bit, and so does each label of its runs (task, job, pool, name, tag). A search has bits,
too: a block that lacks one of them does not have the text. A block that has them all is read, since different words may
have set them.

Sequences of three find any part of a word. Those of five tell numbers and ids apart: every block with a few hundred
numbers has all sequences of three digits.

Case is ignored by `fold`, in what is indexed, searched and verified alike; no other place may do it differently.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

from rota.domain.ids import day_of, show_run

BLOCK_BYTES = 512 * 1024  # of text, unless one log is larger
BLOCK_SPAN_MILLISECONDS = 120_000  # between its runs: a search of a time reads little beside it
_SHORT, _LONG = 3, 5
_BITS_PER_ENTRY = 6  # a sixth of the bits is set
_BITS_PER_BYTE = 2  # the budget: a filter has at most a quarter of the size of its text
_FEWEST_BITS = 512
_SHARED = "/together/"
_MEMBER = struct.Struct(">16sqHI")
_MOST_ATTEMPTS = 0xFFFF


class Member(NamedTuple):
    """The log of one attempt within a block: `first` is its first byte there."""

    run_id: UUID
    claim: int
    attempt: int
    first: int
    length: int


class IndexedLog(NamedTuple):
    """The log of one attempt that is to be indexed: where it begins in its object, its text, and its run's labels."""

    run_id: UUID
    claim: int
    attempt: int
    first: int
    body: bytes
    labels: tuple[bytes, ...]


class Block(NamedTuple):
    """Logs that are searched together, with the earliest and the latest of their runs."""

    first_run: UUID
    last_run: UUID
    first: int
    length: int
    members: bytes
    filter: bytes


def own_key(namespace: str, run_id: UUID, claim: int) -> str:
    """The key of the object of a log that has one of its own."""
    return f"logs/{day_of(run_id)}/{namespace}/{show_run(run_id)}-{claim}.log"


def shared_key(day: str, name: str) -> str:
    """The key of an object that logs of this day share."""
    return f"logs/{day}{_SHARED}{name}.log"


def is_shared(key: str) -> bool:
    """Whether logs share the object."""
    return _SHARED in key


def fold(text: str) -> str:
    """The text with its case taken away: 'Straße' and 'STRASSE' are the same."""
    return text.casefold()


def label(kind: str, value: str) -> bytes:
    """An entry for what a run is: no text contains a NUL."""
    return f"\0{kind}\0{value}".encode()


def labels_of(run: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The labels of a run's row."""
    kinds = ("task", "pool", "name")
    return (
        *(label(kind, str(run[kind])) for kind in kinds),
        label("job", str(run["job_id"])),
        *(label("tag", str(tag)) for tag in run["tags"]),
    )


def searched_entries(text: str, labels: Iterable[bytes] = ()) -> list[int]:
    """What a filter must contain for a text and labels; the most telling first."""
    words = [word.encode("utf-8", "replace") for word in fold(text).split()]
    longs = {word[at : at + _LONG] for word in words for at in range(len(word) - _LONG + 1)}
    shorts = {word[at : at + _SHORT] for word in words for at in range(len(word) - _SHORT + 1)}
    entries = [*sorted(labels), *sorted(longs), *sorted(shorts)]
    return [crc32(entry) for entry in entries]


def make_blocks(logs: Iterable[IndexedLog]) -> Iterator[Block]:
    """Blocks of logs, in the order in which they lie in their object."""
    portion: list[IndexedLog] = []
    for log in logs:
        if portion and not _belongs(log, portion):
            yield _make_block(portion)
            portion = []
        portion.append(log)
    if portion:
        yield _make_block(portion)


def _belongs(log: IndexedLog, portion: Sequence[IndexedLog]) -> bool:
    """Whether a log lies right behind these, and the block may get that large and that wide."""
    begin, end = portion[0].first, portion[-1].first + len(portion[-1].body)
    times = [_milliseconds(one) for one in (log, *portion)]
    return log.first == end and end - begin < BLOCK_BYTES and max(times) - min(times) <= BLOCK_SPAN_MILLISECONDS


def pack_members(logs: Iterable[tuple[UUID, int, int, int]]) -> bytes:
    """Run, claim, attempt and length of each log of a block."""
    return b"".join(
        _MEMBER.pack(run_id.bytes, claim, min(attempt, _MOST_ATTEMPTS), length)
        for run_id, claim, attempt, length in logs
    )


def read_members(packed: bytes) -> list[Member]:
    """The logs of a block."""
    members, first = [], 0
    for run_id, claim, attempt, length in _MEMBER.iter_unpack(packed):
        members.append(Member(UUID(bytes=run_id), claim, attempt, first, length))
        first += length
    return members


def make_filter(text: str, labels: Iterable[bytes]) -> bytes:
    """The filter of a text and labels."""
    entries = _entries(text)
    size = len(text)
    entries.update(labels)
    bits = max(_FEWEST_BITS, min(_BITS_PER_ENTRY * len(entries), _BITS_PER_BYTE * size))
    made = bytearray((bits + 7) // 8)
    bits = len(made) * 8
    for entry in entries:
        bit = crc32(entry) % bits
        made[bit >> 3] |= 1 << (bit & 7)
    return bytes(made)


def _entries(text: str) -> set[bytes]:
    entries: set[bytes] = set()
    for word in {word.encode("utf-8", "replace") for word in fold(text).split()}:
        if len(word) >= _SHORT:
            entries.update([word[at : at + _SHORT] for at in range(len(word) - _SHORT + 1)])
            entries.update([word[at : at + _LONG] for at in range(len(word) - _LONG + 1)])
    return entries


def _make_block(logs: Sequence[IndexedLog]) -> Block:
    packed = pack_members((log.run_id, log.claim, log.attempt, len(log.body)) for log in logs)
    text = "\n".join(_said(log.body) for log in logs)
    labels = {entry for log in logs for entry in log.labels}
    length = sum(len(log.body) for log in logs)
    runs = [log.run_id for log in logs]
    return Block(min(runs), max(runs), logs[0].first, length, packed, make_filter(text, labels))


def _said(body: bytes) -> str:
    """The lines without their times and streams, which are not searched."""
    return "\n".join(line.split(" ", 2)[-1] for line in body.decode("utf-8", "replace").split("\n"))


def _milliseconds(log: IndexedLog) -> int:
    return log.run_id.int >> 80
