"""Unique keys of a batch: which items are written, which are duplicates of a job, and which jobs they replace.

Items are decided in order, as if the items before were committed, but all in one transaction: lock the keys, write the
items, reassign the keys, cancel the jobs that are replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.ids import show_job
from rota.domain.job import Recurring, Submission, Unique, show_job_of
from rota.errors import RotaError
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Statements
from rota.store.postgres.settling import until_settled


class DecidedAnewError(RotaError):
    """The facts behind the decision changed: roll back and repeat the transaction."""


class Duplicate(msgspec.Struct, frozen=True):
    """The job that already has an item's unique key. `kept`: answer with this job, instead of an error."""

    job_id: UUID
    status: str
    recurring: bool
    kept: bool
    shown_id: str


class _KeyHolder(msgspec.Struct, frozen=True):
    """The job that has a unique key. `unseen`: our database role can't reach it."""

    job_id: UUID
    status: str
    recurring: bool
    waits: bool
    unseen: bool
    in_window: bool
    shown_id: str


class UniqueKeys:
    """Decides about the items of a batch that have a unique key."""

    def __init__(self, items: Sequence[Submission]) -> None:
        self._items = items
        self._unseen: set[UUID] = set()
        self.repeated: set[UUID] = set()
        self.replaced: list[UUID] = []
        self._forget()

    def _forget(self) -> None:
        self.duplicates: dict[UUID, Duplicate] = {}
        self.replaced.clear()
        self._going: dict[UUID, Submission] = {}
        self._owners: dict[tuple[str, str], Submission] = {}
        self._met: list[tuple[Submission, _KeyHolder]] = []
        self._replacing: dict[tuple[str, UUID], Submission] = {}

    async def take(self, statements: Statements, refused: Collection[UUID]) -> list[Submission]:
        """Locks the keys of all but the refused items; returns the items to write. Raises DecidedAnewError."""
        self._forget()
        items = [item for item in self._items if item.id not in self.repeated and item.id not in refused]
        if not items:
            return []
        firsts: dict[tuple[str, str], Submission] = {}
        for item in items:
            firsts.setdefault(_key(item), item)
        holders = await _holders(statements, [firsts[key] for key in sorted(firsts)])
        # We waited for the unique keys. If the same request was sent twice, the other one has been written by now.
        self._leave_out(await find_repeated(statements, items))
        for item in items:
            holder = holders.get(_key(item))
            if holder is not None and _is_in_the_way(item, holder):
                self._met.append((item, holder))
                continue
            if holder is not None:
                self._owners[_key(item)] = item
                if holder.waits:
                    self._replacing[item.namespace, holder.job_id] = item
            self._going[item.id] = item
            holders[_key(item)] = _KeyHolder(
                item.id,
                status="",  # read after the item is written
                recurring=isinstance(item, Recurring),
                waits=True,
                unseen=item.id in self._unseen,
                in_window=False,
                shown_id=item.chosen_id or show_job(item.id),
            )
        self.replaced += (job_id for _, job_id in self._replacing)
        return list(self._going.values())

    async def settle(self, statements: Statements, left_out: Iterable[UUID]) -> None:
        """Once the items are written: reassigns keys and cancels replaced jobs. Raises DecidedAnewError."""
        self._leave_out(self._going.keys() & {*left_out})
        statuses = await self._look_at_own(statements)
        for item, holder in self._met:
            status = statuses.get(holder.job_id, holder.status)
            self.duplicates[item.id] = Duplicate(
                holder.job_id, status, holder.recurring, _unique(item).on_duplicate == "keep", holder.shown_id
            )
        if self._owners:
            await statements.fetch("reassign_unique_keys", **_unique_columns(self._owners.values()))
        await _replace(statements, self._replacing)

    def _leave_out(self, ids: Iterable[UUID]) -> None:
        """Items whose idempotency key is taken are repeats, not duplicates: decide again without them."""
        if repeated := {*ids}:
            self.repeated |= repeated
            raise DecidedAnewError("another process wrote the same request at the same time")

    async def _look_at_own(self, statements: Statements) -> dict[UUID, str]:
        """The statuses of our own items that later items of the batch duplicate or replace."""
        met = {holder.job_id for _, holder in self._met} | {job_id for _, job_id in self._replacing}
        rows = await _look(statements, [(item.namespace, item.id) for item in self._going.values() if item.id in met])
        if unseen := {row["id"] for row in rows if row["unseen"]} - self._unseen:
            self._unseen |= unseen
            raise DecidedAnewError("our database role can't reach a job of this batch, so it can't be replaced")
        return {row["id"]: _status(row) for row in rows}


async def _look(statements: Statements, jobs: Sequence[tuple[str, UUID]]) -> list[Any]:
    return await statements.fetch("unique_holders", **columns(jobs, "namespaces job_ids")) if jobs else []


async def find_repeated(statements: Statements, items: Sequence[Submission]) -> set[UUID]:
    """Items whose idempotency key is taken: they get the first answer."""
    keyed = [(item, item.key) for item in items if item.key]
    if not keyed:
        return set()
    rows = await statements.fetch(
        "find_submission_keys", namespaces=[item.namespace for item, _ in keyed], keys=[key.key for _, key in keyed]
    )
    known = {(row["namespace"], row["key"]) for row in rows}
    return {item.id for item, key in keyed if (item.namespace, key.key) in known}


async def _holders(statements: Statements, items: Sequence[Submission]) -> dict[tuple[str, str], _KeyHolder]:
    """Takes the keys, in the order given; returns the other jobs that hold some of them."""
    rows = await statements.fetch("take_unique_keys", **_unique_columns(items))
    mine = {item.id for item in items}
    others = [row for row in rows if row["job_id"] not in mine]
    found = await _look(statements, [(row["namespace"], row["job_id"]) for row in others])
    how = {(row["namespace"], row["id"]): row for row in found}
    holders = {}
    for row in others:
        it = how[row["namespace"], row["job_id"]]
        holders[row["namespace"], row["key"]] = _KeyHolder(
            row["job_id"],
            _status(it),
            it["recurring"],
            it["waits"],
            it["unseen"],
            row["in_window"],
            show_job_of(row["job_id"], it["options"]),
        )
    return holders


def _status(row: Any) -> str:
    return row["status"] or ("queued" if row["waits"] else "gone")


def _is_in_the_way(item: Submission, holder: _KeyHolder) -> bool:
    if _unique(item).on_duplicate == "replace":
        # A waiting job is replaced, unless it is a schedule or our role can't reach it.
        return holder.waits and (holder.recurring or holder.unseen)
    return holder.waits or holder.in_window


async def _replace(statements: Statements, replacing: Mapping[tuple[str, UUID], Submission]) -> None:
    """Cancels the waiting jobs that items replace."""
    waiting = {
        key: f"replaced by {show_job(item.id)}, which has the same unique key" for key, item in replacing.items()
    }

    async def look() -> bool:
        if waiting:
            rows = [(*key, reason) for key, reason in waiting.items()]
            await statements.fetch("replace_waiting", **columns(rows, "namespaces run_ids reasons"))
            # A job that was just moving is tried again, until it is cancelled or no longer waits.
            for row in await _look(statements, list(waiting)):
                if not row["waits"]:
                    del waiting[row["namespace"], row["id"]]
        return not waiting

    await until_settled(look)


def _unique_columns(items: Iterable[Submission]) -> dict[str, Any]:
    rows = ((item.namespace, _unique(item).key, item.id, _unique(item).seconds) for item in items)
    return columns(rows, "namespaces keys job_ids seconds")


def _unique(item: Submission) -> Unique:
    assert item.unique is not None  # noqa: S101 - callers pass only items that have one
    return item.unique


def _key(item: Submission) -> tuple[str, str]:
    return (item.namespace, _unique(item).key)
