"""Logs that are sent elsewhere: which are to be sent, and how much of each was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements


class SentLog(NamedTuple):
    """How much of a log was sent: so many lines, and all chunks before `chunk`. `whole`: nothing is left."""

    namespace: str
    run_id: UUID
    claim: int
    lines: int
    chunk: int
    whole: bool


class LogExports:
    """The queue of logs to send."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, limit: int) -> list[Any]:
        """Logs that have ended, oldest first."""
        return await self._database.fetch("exports_due", limit=limit)

    async def growing(self, seconds: float, limit: int) -> list[Any]:
        """Chunks that were not sent, of attempts that have been going on for some seconds."""
        return await self._database.fetch("growing_logs", seconds=seconds, limit=limit)

    async def note(self, logs: Sequence[SentLog]) -> None:
        """Records what has arrived; the last word on a log counts."""
        latest = {log[:3]: log for log in logs}.values()

        async def write(statements: Statements) -> None:
            parts = [log[:5] for log in latest if not log.whole]
            if parts:
                await statements.fetch("note_exported", **columns(parts, "namespaces run_ids claims lines chunks"))
            whole = [log[:3] for log in latest if log.whole]
            if whole:
                await statements.fetch("forget_exports", **columns(whole, "namespaces run_ids claims"))

        await self._database.transact(write)

    async def postpone(self, logs: Sequence[tuple[str, UUID, int]]) -> None:
        """Lets others go first: these can't be read at present."""
        await self._database.fetch("postpone_exports", **columns(logs, "namespaces run_ids claims"))

    async def end_lost(self) -> None:
        """Finds logs that are wholly in object storage and were noted as going on."""
        await self._database.fetch("end_lost_exports")


async def queue_exports(statements: Statements, logs: Sequence[tuple[str, UUID, int]]) -> None:
    """These logs are to be sent; in the transaction that records where they are."""
    await statements.fetch("queue_exports", **columns(logs, "namespaces run_ids claims"))
