"""How a day of history is laid out in object storage.

    archive/year=2026/month=11/day=18/1-5f0c…/jobs-0001.parquet      runs of jobs with many, job by job
                                              once-0001.parquet      runs of jobs that ran once, in the order of ids
                                              ids-0001.parquet       the ids of the former, in order, with their groups
                                              attempts-0001.parquet  attempts that did not succeed, run by run
                                              logs-0001.parquet      where logs are, run by run
                                              index.msgpack          the row groups of all files

The directory's name is another for each try, so that two processes, or a second try, never write over objects that a
record names. A look-up reads the index (kept in memory afterwards), the end of one file, which describes it, and a row
group: never a whole day. Any tool that reads Parquet can read the files.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.retention import days_of
from rota.errors import SetupError

GROUP_ROWS = 5000
IDS_ROWS = 20_000
GROUP_BYTES = 8 * 1024 * 1024  # of text in a row group, about
_MOST_FILTER_BYTES = 2048
_PROBES = 5
_TAIL_BYTES = 8  # the length of the description, and the magic word
_UUIDS = frozenset({"id", "job_id", "payload_id", "retry_of", "root_id", "worker_id", "run_id"})
_MOMENTS = frozenset({"nominal_at", "run_at", "created_at", "expires_at", "started_at", "finished_at"})
_INTEGERS = frozenset(
    {"job_version", "priority", "shard", "attempt", "losses", "snoozes", "claim", "number", "group"}
    | {"position", "first", "length"}
)
RUN_COLUMNS = (
    *("namespace", "id", "job_id", "job_version", "owner", "name", "task", "pool", "priority", "tags", "payload"),
    *("payload_id", "options", "cause", "retry_of", "root_id", "shard", "nominal_at", "run_at", "attempt", "losses"),
    *("created_at", "status", "started_at", "finished_at", "worker_id", "claim", "progress", "progress_note"),
    *("cancel_requested", "error", "traceback", "result", "reason", "expires_at", "checkpoint", "snoozes"),
    *("result_blob", "policies", "large_payload", "payload_blob"),
)
LARGE_COLUMNS = frozenset({"payload", "large_payload", "result", "traceback", "checkpoint", "policies"})
COLUMNS = {
    "jobs": RUN_COLUMNS,
    "once": RUN_COLUMNS,
    "ids": ("namespace", "id", "group"),
    "attempts": (
        *("namespace", "run_id", "claim", "number", "worker_id", "started_at", "finished_at", "outcome"),
        *("error", "traceback"),
    ),
    "logs": ("namespace", "run_id", "claim", "attempt", "position", "blob", "first", "length"),
}


class ArchivedObject(msgspec.Struct, array_like=True):
    """An object of an archive."""

    key: str
    size: int
    hash: str  # SHA-256
    rows: int
    footer: int  # where its description begins


class RowGroup(msgspec.Struct, array_like=True):
    """A row group: where it is, and what can be in it."""

    kind: str
    object: int  # which object
    number: int  # which of its row groups
    rows: int
    start: int
    length: int
    first: tuple[str, bytes, bytes]  # the first row: namespace, job (or run), run
    last: tuple[str, bytes, bytes]
    lowest: bytes  # id
    highest: bytes
    owners: bytes = b""  # a Bloom filter


class DayIndex(msgspec.Struct):
    """What is where in an archive."""

    objects: list[ArchivedObject]
    groups: list[RowGroup]


@cache
def arrow() -> Any:
    """The library, loaded when it is needed first: it is large, and few processes read archives.

    Raises SetupError if it is not there.
    """
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise SetupError(
            "archiving history needs the extra `archive`: pip install 'rota[archive]' on hosts that run schedulers and "
            "API servers; or set `archive: false` in the retention policy, which drops runs without a copy"
        ) from None


def directory_of(period: str, number: int, token: str) -> str:
    """Where an archive's objects are."""
    first, before = days_of(period)
    day = f"{first:%d}" if (before - first).days == 1 else "all"
    return f"archive/year={first:%Y}/month={first:%m}/day={day}/{number}-{token}"


def make_table(kind: str, rows: Sequence[Any]) -> Any:
    """The rows as an Arrow table."""
    arrays = [_make_array(name, [row[name] for row in rows]) for name in COLUMNS[kind]]
    return arrow().Table.from_arrays(arrays, schema=schema_of(kind))


def schema_of(kind: str) -> Any:
    pa = arrow()
    return pa.schema([pa.field(name, _type_of(name)) for name in COLUMNS[kind]])


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of an Arrow table, as those of the database are."""
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def describe_file(body: bytes) -> Any:
    """What Parquet says about a file; its last bytes are enough."""
    return arrow().parquet.read_metadata(io.BytesIO(body))


def footer_of(body: bytes) -> int:
    """Where the description of a file begins."""
    return len(body) - _TAIL_BYTES - int.from_bytes(body[-_TAIL_BYTES : -_TAIL_BYTES + 4], "little")


def span_of(description: Any, number: int) -> tuple[int, int]:
    """The first byte of a row group, and how many it has."""
    group = description.row_group(number)
    columns = [group.column(at) for at in range(group.num_columns)]
    starts = [min(one.dictionary_page_offset or one.data_page_offset, one.data_page_offset) for one in columns]
    ends = [start + one.total_compressed_size for start, one in zip(starts, columns, strict=True)]
    return min(starts), max(ends) - min(starts)


def read_group(group: RowGroup, size: int, body: bytes, footer: bytes, names: Iterable[str]) -> Any:
    """A row group of a file of which only its bytes, and those of the description, are at hand."""
    file = arrow().parquet.ParquetFile(_Piece(size, group.start, body), metadata=describe_file(footer))
    return file.read_row_group(group.number, columns=list(names), use_threads=False)


def owner_filter(owners: Iterable[str]) -> bytes:
    """A Bloom filter, of 16 bits per owner."""
    distinct = {*owners}
    found = bytearray(min(_MOST_FILTER_BYTES, max(8, 2 * len(distinct))))
    for owner in distinct:
        for bit in _bits(owner, len(found)):
            found[bit >> 3] |= 1 << (bit & 7)
    return bytes(found)


def may_have_owner(group: RowGroup, owner: str) -> bool:
    return all(group.owners[bit >> 3] >> (bit & 7) & 1 for bit in _bits(owner, len(group.owners)))


def _bits(owner: str, size: int) -> list[int]:
    digest = blake2b(owner.encode(), digest_size=4 * _PROBES).digest()
    return [int.from_bytes(digest[at : at + 4], "little") % (size * 8) for at in range(0, 4 * _PROBES, 4)]


def _type_of(name: str) -> Any:
    pa = arrow()
    if name in _UUIDS:
        return pa.uuid()
    if name in _MOMENTS:
        return pa.timestamp("us", tz="UTC")
    if name in _INTEGERS:
        return pa.int64()
    simple = {"tags": pa.list_(pa.string()), "progress": pa.float32(), "cancel_requested": pa.bool_()}
    return simple.get(name) or pa.string()


def _make_array(name: str, values: list[Any]) -> Any:
    pa = arrow()
    if name in _UUIDS:
        stored = pa.array([None if one is None else one.bytes for one in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(pa.uuid(), stored)
    return pa.array(values, _type_of(name))


class _Piece(io.RawIOBase):
    """A file of which a piece is in memory; reading elsewhere is an error of ours."""

    def __init__(self, size: int, start: int, body: bytes) -> None:
        super().__init__()
        self._size = size
        self._start = start
        self._body = body
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        size = self._size - self._at if size < 0 else min(size, self._size - self._at)
        start = self._at - self._start
        if start < 0 or start + size > len(self._body):
            raise ValueError(f"bytes {self._at} to {self._at + size} were not fetched")
        self._at += size
        return self._body[start : start + size]


def key_of(namespace: str, *ids: UUID) -> tuple[str, bytes, bytes]:
    """A row's place in its file."""
    first = ids[0].bytes
    return namespace, first, ids[1].bytes if len(ids) > 1 else first
