"""Reads an archive back before anything is dropped: each object byte for byte, and each row."""

from __future__ import annotations

import asyncio
import io
from hashlib import sha256

import msgspec

from rota.archive import layout
from rota.archive.day_writer import Pacer
from rota.archive.layout import ArchivedObject, DayIndex
from rota.blobs import BlobMissingError, Blobs
from rota.errors import RotaError
from rota.store.archive import ArchiveTask


class ArchiveDamagedError(RotaError):
    """What object storage has is not what was written."""


async def check_archive(blobs: Blobs, task: ArchiveTask, *, share: float) -> None:
    """Raises ArchiveDamagedError unless everything is there as it was written."""
    if task.index_key is None:
        return
    layout.arrow()
    pacer = Pacer(share)
    objects = msgspec.json.decode(task.objects or "[]", type=list[ArchivedObject])
    index = msgspec.msgpack.decode(await _read(blobs, task.index_key, task.index_hash), type=DayIndex)
    if index.objects != objects:
        raise ArchiveDamagedError(f"{task.index_key} names other objects than the record")
    for one in objects:
        body = await _read(blobs, one.key, one.hash)
        if await asyncio.to_thread(_count_rows, body) != one.rows:
            raise ArchiveDamagedError(f"{one.key} does not have the rows that were written")
        await pacer.rest()


async def _read(blobs: Blobs, key: str, digest: str | None) -> bytes:
    try:
        body = await blobs.get(key)
    except BlobMissingError as error:
        raise ArchiveDamagedError(str(error)) from error
    if sha256(body).hexdigest() != digest:
        raise ArchiveDamagedError(f"{key} is not as it was written: its checksum differs")
    return body


def _count_rows(body: bytes) -> int:
    """Decodes every row, a group at a time."""
    file = layout.arrow().parquet.ParquetFile(io.BytesIO(body))
    return sum(file.read_row_group(at, use_threads=False).num_rows for at in range(file.num_row_groups))
