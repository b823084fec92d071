"""The columns of submit_plain: what a batch of plain jobs looks like to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from asyncpg.pgproto import pgproto

from rota.domain.ids import LOW_MASK
from rota.domain.job import SURELY_INLINE, JobSet, OneShot, PlainSet, Submission
from rota.store.postgres.batches import columns

_SHAPE = (
    "namespaces owners names tasks pools priorities tags options key_numbers first_shards shard_counts firsts lasts"
)
_ID_BYTES = 16


def is_plain(item: Submission) -> bool:
    """Whether submit_plain can write it."""
    if isinstance(item, PlainSet):
        return True
    if isinstance(item, JobSet):
        return all(map(is_plain, item.items))
    if not isinstance(item, OneShot) or item.run_at is not None or item.unique or item.chosen_id:
        return False
    it = item.definition
    return it.policies is None and it.blob is None and (it.payload is None or len(it.payload) <= SURELY_INLINE)


class PlainRuns:
    """The runs of plain jobs and sets. What many have alike is a shape, which stands once."""

    def __init__(self, items: Sequence[Submission], key_number_of: Callable[[Any], int | None]) -> None:
        self._ids: list[UUID] = []
        self._payloads: list[str | None] = []
        self._shards: list[int] = []
        self._shapes: list[tuple[Any, ...]] = []
        self._names_shards = not all(isinstance(item, PlainSet) for item in items)
        for item in items:
            first = len(self._ids) + 1
            shape = (*_alike(item), key_number_of(item))
            if isinstance(item, PlainSet):
                shape += self._add_set(item)
            else:
                self._add(item.items if isinstance(item, JobSet) else [item])  # type: ignore[list-item]
                shape += (0, 1)
                if self._shapes and self._shapes[-1][:-2] == shape:
                    first = self._shapes.pop()[-2]
            self._shapes.append((*shape, first, len(self._ids)))

    @property
    def columns(self) -> dict[str, Any]:
        """By the names of the statement's parameters."""
        alike = columns(self._shapes, _SHAPE)
        return {"ids": self._ids, "payloads": self._payloads, "shards": self._shards, **alike}

    def _add_set(self, item: PlainSet) -> tuple[int, int]:
        """Adds its runs; returns the shard of the first one, and how many shards there are."""
        self._ids += [pgproto.UUID(number.to_bytes(_ID_BYTES, "big")) for number in item.ids]
        self._payloads += item.payloads
        first = item.ids[0] & LOW_MASK
        if self._names_shards:
            self._shards += [number % item.shards for number in range(first, first + len(item.ids))]
        return first % item.shards, item.shards

    def _add(self, runs: Sequence[OneShot]) -> None:
        self._ids += [run.id for run in runs]
        self._payloads += [run.definition.payload for run in runs]
        self._shards += [run.shard for run in runs]


def _alike(item: Submission) -> tuple[Any, ...]:
    it = item.definition
    return (item.namespace, it.owner, it.name, it.task, it.pool, it.priority, ",".join(it.tags), it.options)
