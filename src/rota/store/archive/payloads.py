"""Payloads whose runs have left history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.blobs import Blobs
from rota.store.archive import Archives, ArchiveTask
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database


class UnusedPayloads:
    """Removes payloads that nothing needs any more, and puts those back that a restored run needs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def remove(self, task: ArchiveTask, archives: Archives, blobs: Blobs) -> None:
        """Removes those of a detached period. Archived runs have small ones in their rows; large ones stay for them.

        An object whose deletion fails or is cut off has no row any more, and is collected later.
        """
        after: Any = None
        while rows := await archives.payloads_of(task, after):
            after = rows[-1]
            some = [
                (row["namespace"], row["id"], row["job_id"], row["payload_id"], not task.kept.get(row["namespace"]))
                for row in rows
                if row["payload_id"] is not None
            ]
            if some:
                removed = await self._database.fetch(
                    "remove_payloads", **columns(some, "namespaces run_ids job_ids payload_ids stored")
                )
                for row in removed:
                    if row["blob"]:
                        await blobs.delete(row["blob"])

    async def put_back(self, rows: Sequence[dict[str, Any]]) -> None:
        """Puts back the payloads of archived runs."""
        some = [
            (row["namespace"], row["payload_id"], row["large_payload"], row["payload_blob"])
            for row in rows
            if row["payload_id"] is not None and (row["large_payload"] is None) != (row["payload_blob"] is None)
        ]
        if some:
            await self._database.fetch("put_payloads", **columns(some, "namespaces payload_ids bodies blobs"))
