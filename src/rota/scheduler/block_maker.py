"""Makes blocks for the index of logs out of logs that are in object storage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from rota.domain.ids import day_of
from rota.domain.log_index import IndexedLog, is_shared, labels_of, make_blocks, read_members
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
    return await asyncio.to_thread(blocks_of, logs, runs)


def blocks_of(logs: Sequence[CopiedLog], runs: Mapping[tuple[str, UUID], Any]) -> list[PlacedBlock]:
    """The blocks of these logs: each of one namespace and owner, and of one object if the logs share it."""

    def group(log: CopiedLog) -> tuple[str, str, str]:
        run = runs.get((log.namespace, log.run_id))
        # Those with objects of their own are one group for each day.
        return log.namespace, run["owner"] if run else "", log.blob if is_shared(log.blob) else day_of(log.run_id)

    def indexed(log: CopiedLog, first: int) -> IndexedLog:
        run = runs.get((log.namespace, log.run_id))
        return IndexedLog(log.run_id, log.claim, log.attempt, first, log.body, labels_of(run) if run else ())

    ordered = sorted((log for log in logs if log.body), key=lambda log: (group(log), log.first, log.run_id, log.claim))
    placed = []
    for (namespace, owner, _), some in groupby(ordered, group):
        together, first = [], 0
        for log in some:
            # Logs with objects of their own are searched as if they lay one after the other.
            together.append((log, indexed(log, log.first if is_shared(log.blob) else first)))
            first += len(log.body)
        blobs = {(log.run_id, log.claim): log.blob for log, _ in together}
        for block in make_blocks(log for _, log in together):
            begin = read_members(block.members)[0]
            placed.append(PlacedBlock(namespace, owner or None, blobs[begin.run_id, begin.claim], block))
    return placed
