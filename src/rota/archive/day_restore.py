"""Reads an archived day back into the database, for a while.

Rows go into tables beside history first, a row group at a time; then one transaction makes them a part of it. If the
process dies before, the next one writes the same rows again, which changes nothing.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from rota.archive import layout
from rota.archive.layout import ArchivedObject
from rota.blobs import Blobs
from rota.store.archive import Archives, ArchiveTask
from rota.store.archive.payloads import UnusedPayloads

_PARENTS = {"jobs": "finished_runs", "once": "finished_runs", "attempts": "attempts", "logs": "kept_logs"}
_ROWS = 500
_NOT_STORED = ("large_payload", "payload_blob")


async def restore_day(archives: Archives, payloads: UnusedPayloads, blobs: Blobs, task: ArchiveTask) -> bool:
    """Restores all archives of a period; false: a table is in use, and it is tried again."""
    for each in await archives.of_period(task.period):
        for one in msgspec.json.decode(each.objects or "[]", type=list[ArchivedObject]):
            kind = one.key.rpartition("/")[2].partition("-")[0]
            if kind in _PARENTS:
                async for rows in _rows_of(blobs, one):
                    if kind in ("jobs", "once"):
                        await payloads.put_back(rows)
                    await archives.restore(task.period, _PARENTS[kind], _encode(rows))
    await archives.restore(task.period, "finished_runs", "[]")  # makes the tables of a day without runs
    until = task.restored_until or datetime.now(UTC) + timedelta(days=1)
    return await archives.attach(task.period, until)


async def _rows_of(blobs: Blobs, one: ArchivedObject) -> AsyncIterator[list[dict[str, Any]]]:
    layout.arrow()
    file = layout.arrow().parquet.ParquetFile(io.BytesIO(await blobs.get(one.key)))
    for number in range(file.num_row_groups):
        table = await asyncio.to_thread(file.read_row_group, number, use_threads=False)
        rows = layout.rows_of(table)
        for at in range(0, len(rows), _ROWS):
            yield rows[at : at + _ROWS]


def _encode(rows: list[dict[str, Any]]) -> str:
    return msgspec.json.encode([_record(row) for row in rows]).decode()


def _record(row: dict[str, Any]) -> dict[str, Any]:
    record = {name: value for name, value in row.items() if name not in _NOT_STORED}
    if record.get("policies") is not None:
        record["policies"] = msgspec.Raw(record["policies"].encode())
    return record
