"""Makes blocks for the index of logs out of logs that are in object storage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from rota.domain.log_index import IndexedLog, labels_of, make_blocks
from rota.store.logs.blocks import PlacedBlock


class CopiedLog(NamedTuple):
    """The log of an attempt, and where it is in object storage."""

    namespace: str
    run_id: UUID
    claim: int
    attempt: int
    blob: str
    first: int
    body: bytes


def owner_of(log: Any, runs: Mapping[tuple[str, UUID], Any]) -> str:
    """Whose log it is; '' if its run is no longer known."""
    run = runs.get((log["namespace"], log["run_id"]))
    return run["owner"] if run else ""


async def place_blocks(logs: Sequence[CopiedLog], runs: Mapping[tuple[str, UUID], Any]) -> list[PlacedBlock]:
    """The blocks of these logs. In a thread: a megabyte takes about a tenth of a second."""
    return await asyncio.to_thread(_place, [log for log in logs if log.body], runs)


def _place(logs: list[CopiedLog], runs: Mapping[tuple[str, UUID], Any]) -> list[PlacedBlock]:
    def group(log: CopiedLog) -> tuple[str, str, str]:
        run = runs.get((log.namespace, log.run_id))
        return log.namespace, run["owner"] if run else "", log.blob

    def indexed(log: CopiedLog) -> IndexedLog:
        run = runs.get((log.namespace, log.run_id))
        return IndexedLog(log.run_id, log.claim, log.attempt, log.first, log.body, labels_of(run) if run else ())

    logs.sort(key=lambda log: (group(log), log.first))
    return [
        PlacedBlock(namespace, owner, blob, block)
        for (namespace, owner, blob), some in groupby(logs, group)
        for block in make_blocks(map(indexed, some))
    ]
