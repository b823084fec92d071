"""Ids that submitters choose: of a namespace's jobs only one can have each, for as long as the database knows the job.

The primary key of rota.chosen_ids decides. An item takes its id in the transaction that writes it, after everything
else: what is not written, a repeat or a duplicate of a unique key, must not have an id. Nearly all ids that are taken
were taken long ago; a look before anything is written finds those. If another transaction takes one meanwhile, ours
begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from rota.domain.job import Submission
from rota.errors import ConflictError
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements
from rota.store.submit.unique_keys import DecidedAnewError, find_repeated


class ChosenIds:
    """Decides about the items of a batch that have a chosen id."""

    def __init__(self, items: Sequence[Submission]) -> None:
        self._items = items
        self._second: set[UUID] = set()  # another item of the batch has the id
        self.repeated: set[UUID] = set()
        self.conflicts: dict[UUID, ConflictError] = {}

    async def look(self, statements: Statements) -> set[UUID]:
        """Finds the items whose id another job has: repeats of their requests, and conflicts. Returns both."""
        if not self._items:
            return set()
        found = await find_chosen(statements, [_pair(item) for item in self._items])
        taken = [item for item in self._items if item.id in self._second or _pair(item) in found]
        self.repeated = await find_repeated(statements, taken)
        self.conflicts = {
            item.id: ConflictError(f"another job has the jobId {item.chosen_id!r} already")
            for item in taken
            if item.id not in self.repeated
        }
        return {item.id for item in taken}

    async def take(self, statements: Statements, written: Iterable[Submission]) -> None:
        """Takes the ids of the items that were written. Raises DecidedAnewError if another job has got one of them."""
        wanted = sorted((item for item in written if item.chosen_id), key=_pair)
        if not wanted:
            return
        rows = ((*_pair(item), item.id) for item in wanted)
        taken = await statements.fetch("take_chosen_ids", **columns(rows, "namespaces chosen_ids job_ids"))
        ours = {row["job_id"] for row in taken}
        own_pairs = {_pair(item) for item in wanted if item.id in ours}
        if missed := [item for item in wanted if item.id not in ours]:
            self._second |= {item.id for item in missed if _pair(item) in own_pairs}
            raise DecidedAnewError("another job took the same id at the same time")


async def find_chosen(
    statements: Statements | Database, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], UUID]:
    """The jobs that have these ids, by namespace and chosen id."""
    rows = await statements.fetch("find_chosen_ids", **columns(wanted, "namespaces chosen_ids"))
    return {(row["namespace"], row["chosen_id"]): row["job_id"] for row in rows}


def _pair(item: Submission) -> tuple[str, str]:
    return (item.namespace, item.chosen_id or "")
