"""The index of logs: blocks of text in object storage, and what can be in them (domain/log_index.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from rota.domain.ids import LAST_ID
from rota.domain.log_index import BLOCK_SPAN_MILLISECONDS, Block, Member, label, read_members
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements
from rota.store.schema.partitions import with_days

_BLOCKS_PER_LOOK = 20_000
_LAST = LAST_ID.int
_PAST_ALL = "\U0010ffff"  # behind every key of an object

# The log of an attempt: (run id, claim).
LogKey = tuple[UUID, int]


class PlacedBlock(NamedTuple):
    """A block with its object, and whose it is (None: not known)."""

    namespace: str
    owner: str | None
    blob: str
    block: Block


class FoundBlock(NamedTuple):
    """A block that can contain what is searched for."""

    last_run: UUID
    blob: str
    first: int
    length: int
    members: list[Member]


class LogFilter(msgspec.Struct, frozen=True):
    """Which runs are searched or followed; None: all."""

    owner: str | None = None
    task: str | None = None
    job_id: UUID | None = None
    pool: str | None = None
    name: str | None = None
    tag: str | None = None

    @property
    def labels(self) -> list[bytes]:
        """What the filters of blocks know of these runs."""
        wanted = {"task": self.task, "pool": self.pool, "name": self.name, "job": self.job_id, "tag": self.tag}
        return [label(kind, str(value)) for kind, value in wanted.items() if value is not None]


class LogBlocks:
    """Finds blocks, and adds them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(
        self, namespace: str, owner: str | None, first: UUID, last: UUID, entries: Sequence[int], limit: int
    ) -> tuple[list[FoundBlock], UUID | None]:
        """Blocks with runs from `first` to `last` whose filters have all entries, latest first, and the run above which
        they are all there is (None: they are all)."""
        below = (_above(last), _PAST_ALL, 0)
        rows = await self._database.fetch(
            "find_log_blocks",
            namespace=namespace,
            owner=owner,
            first=first,
            last=last,
            below_run=below[0],
            below_blob=below[1],
            below_first=below[2],
            entries=list(entries),
            look=_BLOCKS_PER_LOOK,
            limit=limit + 1,
        )
        found = [row for row in rows if row["found"]]
        stopped = rows[-1]["last_run"] if rows and (len(rows) > limit or rows[-1]["n"] >= _BLOCKS_PER_LOOK) else None
        return [
            FoundBlock(row["last_run"], row["blob"], row["first"], row["length"], read_members(row["members"]))
            for row in found[:limit]
        ], stopped

    async def fresh(
        self, namespace: str, owner: str | None, first: UUID, last: UUID, limit: int
    ) -> tuple[list[LogKey], UUID | None]:
        """Logs that are not in object storage yet, latest first, and the run above which they are all there is."""
        rows = await self._database.fetch(
            "fresh_logs", namespace=namespace, owner=owner, first=first, last=last, limit=limit
        )
        keys = [(row["run_id"], row["claim"]) for row in rows]
        return keys, keys[-1][0] if len(keys) == limit else None

    async def texts(self, namespace: str, keys: Sequence[LogKey], text: str) -> list[Any]:
        """The logs among these fresh ones that can contain a text whose case was taken away."""
        if not keys:
            return []
        ids = [run_id for run_id, _ in keys]
        return await self._database.fetch(
            "fresh_texts",
            namespace=namespace,
            text=text,
            first=min(ids),
            last=max(ids),
            **columns(keys, "run_ids claims"),
        )

    async def matching(self, namespace: str, run_ids: Sequence[UUID], wanted: LogFilter) -> set[UUID]:
        """Which of these runs the filter lets through."""
        if not run_ids:
            return set()
        rows = await self._database.fetch(
            "runs_of_filter",
            namespace=namespace,
            run_ids=list(run_ids),
            first=min(run_ids),
            last=max(run_ids),
            owner=wanted.owner,
            task=wanted.task,
            job_id=wanted.job_id,
            pool=wanted.pool,
            name=wanted.name,
            tag=wanted.tag,
        )
        return {row["id"] for row in rows}

    async def is_indexing(self, namespace: str) -> bool:
        """Whether logs of earlier releases are not in the index yet."""
        return bool(await self._database.fetch_value("is_indexing", namespace=namespace))

    async def runs_of(self, logs: Sequence[Any]) -> dict[tuple[str, UUID], Any]:
        """The runs of logs, by namespace and id."""
        if not logs:
            return {}
        wanted = sorted({(log["namespace"], log["run_id"]) for log in logs})
        ids = [run_id for _, run_id in wanted]
        rows = await self._database.fetch(
            "runs_of_logs", first=min(ids), last=max(ids), **columns(wanted, "namespaces run_ids")
        )
        return {(row["namespace"], row["id"]): row for row in rows}

    async def unindexed(self, limit: int) -> list[Any]:
        """Logs that an older release has copied to object storage beside this one."""
        return await self._database.fetch("unindexed", limit=limit)

    async def add_unindexed(self, logs: Sequence[Any], blocks: Sequence[PlacedBlock]) -> None:
        """Adds the blocks of such logs."""
        keys = [(log["namespace"], log["run_id"], log["claim"]) for log in logs]

        async def add(statements: Statements) -> None:
            await add_blocks(statements, blocks)
            await statements.fetch("forget_unindexed", **columns(keys, "namespaces run_ids claims"))

        await with_days(self._database, [key[1] for key in keys], lambda: self._database.transact(add))

    async def walked(self) -> Any:
        """How far the logs from before the index are in it."""
        return await self._database.fetch_row("log_walk")

    async def walk(self, walked: Any, limit: int) -> list[Any]:
        """The next of them."""
        return await self._database.fetch(
            "walk_kept_logs", namespace=walked["namespace"], run_id=walked["run_id"], claim=walked["claim"], limit=limit
        )

    async def move_walk(self, walked: Any, logs: Sequence[Any], blocks: Sequence[PlacedBlock]) -> None:
        """Adds the blocks of these logs and goes on behind them, unless another process has; no logs: it has ended."""
        last = logs[-1] if logs else walked

        async def move(statements: Statements) -> None:
            moved = await statements.fetch(
                "move_log_walk",
                old_namespace=walked["namespace"],
                old_run_id=walked["run_id"],
                old_claim=walked["claim"],
                namespace=last["namespace"],
                run_id=last["run_id"],
                claim=last["claim"],
                ended=not logs,
            )
            if moved:
                await add_blocks(statements, blocks)

        await with_days(self._database, [log["run_id"] for log in logs], lambda: self._database.transact(move))


async def add_blocks(statements: Statements, blocks: Sequence[PlacedBlock]) -> None:
    """Adds blocks to the index, in a transaction that does more."""
    if not blocks:
        return
    rows = [
        (it.namespace, it.owner, it.blob, it.block.last_run, it.block.first, it.block.length, it.block.first_run)
        for it in blocks
    ]
    await statements.fetch(
        "add_log_blocks",
        **columns(rows, "namespaces owners blobs last_runs firsts lengths first_runs"),
        members=[it.block.members for it in blocks],
        filters=[it.block.filter for it in blocks],
    )


def _above(last: UUID) -> UUID:
    """No block with a run up to this one ends later."""
    return UUID(int=min(_LAST, last.int + (BLOCK_SPAN_MILLISECONDS + 1 << 80)))
