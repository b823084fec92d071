"""Workflow runs: their state, and the transaction in which a conductor moves them on.

Whoever makes or stops runs of a workflow run locks its row first. Notes of ends are deleted in the transaction that
acts on them: a second scheduler waits at the row, or passes it over, and finds the notes gone; one that dies leaves all
as it was. The lease of a shard only spreads the work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.job import INLINE_PAYLOAD_BYTES, Definition
from rota.store.cancel import cancel_runs
from rota.store.flow.rows import (
    NOTES_PER_ROUND,
    Advance,
    FlowNote,
    Round,
    read_maps,
    read_results,
    take_notes,
    write_round,
)
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements
from rota.store.schema.partitions import with_days

_FLOWS_PER_ROUND = 50
_STOPPED_AT_ONCE = 1000
_WAITS_AT_ONCE = 1000
_MAPS_AT_ONCE = 20


class NewMembers(msgspec.Struct):
    """Members to be made, each with its id, payload, options and key, and how far the source was read. `bad`: items of
    which none can be made, and why."""

    runs: list[tuple[UUID, str | None, str, UUID]]
    bad: list[tuple[int, str]]
    next_position: int
    next_item: int
    skipped: int
    is_made: bool
    etag: str | None = None


class ChildOf(msgspec.Struct, frozen=True):
    """The workflow that members are runs of."""

    workflow_id: UUID
    version: str
    deadline_seconds: float | None


Decide = Callable[[Statements, Sequence[Any], Sequence[FlowNote]], Awaitable[list[Advance]]]


class Flows:
    """The statements of schedulers on workflow runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def conduct(self, shards: Iterable[int], aside: Sequence[UUID], decide: Decide, most: int) -> Round:
        """Locks some workflow runs that have notes, and writes what `decide` says of them, all or nothing."""
        opened: list[UUID] = []

        async def round_of_flows(statements: Statements) -> Round:
            rows = await statements.fetch(
                "lock_noted_flows", shards=list(shards), aside=list(aside), notes=NOTES_PER_ROUND, flows=most
            )
            if not rows:
                return Round()
            opened[:] = [row["id"] for row in rows]
            notes = await take_notes(statements, opened)
            if signalled := sorted({note.flow for note in notes if note.is_signalled}):
                names = sorted({row["namespace"] for row in rows})
                if await statements.fetch("match_signals", namespaces=names, flows=signalled):
                    notes += await take_notes(statements, signalled)
            advanced = await decide(statements, rows, notes)
            done = Round(advanced, len(notes))
            await write_round(statements, done)
            opened.extend(run.id for one in advanced for run in one.children)
            return done

        done = await with_days(self._database, opened, lambda: self._database.transact(round_of_flows))
        ended = [(one.row["namespace"], one.row["carrier_id"]) for one in done.advanced if one.outcome is not None]
        failed = any(one.outcome == "failed" for one in done.advanced)
        self._database.wake(pools=done.pools, gates=done.gated or bool(ended), ended=ended, events=failed)
        return done

    async def stop_overdue(self, shards: Iterable[int]) -> int:
        """Stops workflow runs whose deadline has passed; returns how many."""
        return len(await self._database.fetch("overdue_flows", shards=list(shards), limit=_FLOWS_PER_ROUND))

    async def end_waits(self, shards: Iterable[int]) -> int:
        """Ends waits whose time has come; returns how many."""
        return len(await self._database.fetch("end_due_waits", shards=list(shards), limit=_WAITS_AT_ONCE))

    async def unswept(self, shards: Iterable[int]) -> list[Any]:
        """Workflow runs and maps that stop, whose runs were not all told yet."""
        return await self._database.fetch("unswept_flows", shards=list(shards), limit=_FLOWS_PER_ROUND)

    async def sweep(self, row: Any, nodes: Sequence[int] | None, reason: str) -> None:
        """Cancels the runs of these nodes (None: of all), and notes that it was done."""
        namespace, flow = row["namespace"], row["flow"]
        given = {"namespace": namespace, "flow": flow, "generation": row["generation"]}
        while await self._stop_runs(row, nodes, reason):
            pass
        if row["node"] is None:
            await self._database.fetch("stop_waits", **given, nodes=nodes, reason=reason)

        async def note(statements: Statements) -> None:
            await lock_flow(statements, row)
            await statements.fetch("swept", **given, node=row["node"], stop=row["stop"])

        await self._database.transact(note)

    async def _stop_runs(self, row: Any, nodes: Sequence[int] | None, reason: str) -> int:
        """Cancels some runs; returns how many there were."""
        namespace = row["namespace"]
        rows = await self._database.fetch(
            "runs_of_flow",
            namespace=namespace,
            flow=row["flow"],
            generation=row["generation"],
            nodes=nodes,
            started=row["started"],
            limit=_STOPPED_AT_ONCE,
        )
        ids = [row["id"] for row in rows]
        if ids:
            hit = await with_days(
                self._database,
                ids,
                lambda: self._database.transact(lambda it: cancel_runs(it, namespace, ids, reason)),
            )
            self._database.wake(workers={worker for worker in hit.values() if worker}, gates=True, flows=True)
        return len(rows)

    async def results(self, namespace: str, flow: UUID, nodes: Iterable[int]) -> dict[int, tuple[Any, str | None]]:
        """The results of nodes, with their keys in object storage if they are there, and the counts of maps."""

        async def read(statements: Statements) -> dict[int, tuple[Any, str | None]]:
            found = await read_results(statements, namespace, flow, nodes)
            maps = (await read_maps(statements, [{"namespace": namespace, "id": flow}]))[flow]
            return {
                number: (maps[number].handle, None)
                if number in maps
                else (None if text is None else msgspec.json.decode(text), blob)
                for number, (text, blob) in found.items()
            }

        return await self._database.transact(read)

    async def maps_to_make(self, shards: Iterable[int], after: UUID) -> list[Any]:
        """Maps whose members are to be made, those of workflow runs behind `after` first."""
        return await self._database.fetch("maps_to_make", shards=list(shards), after=after, limit=_MAPS_AT_ONCE)

    async def items_of(self, row: Any) -> str | None:
        """The list of a map's items (JSON)."""
        items: str | None = await self._database.fetch_value(
            "items_of_map", namespace=row["namespace"], flow=row["flow"], node=row["node"]
        )
        return items

    async def make_members(
        self, row: Any, definition: Definition, members: NewMembers, *, is_handler: bool, child: ChildOf | None
    ) -> bool:
        """Makes members of a map; False if it is not where it was any more."""

        async def make(statements: Statements) -> list[Any]:
            await lock_flow(statements, row)
            return await statements.fetch(
                "make_members",
                namespace=row["namespace"],
                flow=row["flow"],
                node=row["node"],
                generation=row["generation"],
                position=row["position"],
                next_position=members.next_position,
                next_item=members.next_item,
                skipped=members.skipped,
                is_made=members.is_made,
                etag=members.etag,
                is_handler=is_handler,
                **_shared(definition),
                inline_bytes=INLINE_PAYLOAD_BYTES,
                child_id=child and child.workflow_id,
                child_version=child and child.version,
                child_seconds=child and child.deadline_seconds,
                **columns(members.runs, "ids payloads options root_ids"),
                **columns(members.bad, "bad_items reasons"),
            )

        rows = await with_days(self._database, [row["flow"]], lambda: self._database.transact(make))
        if rows:
            self._wake(definition, child=child is not None, noted=members.is_made or bool(members.bad))
        return bool(rows)

    async def remake_members(
        self,
        row: Any,
        definition: Definition,
        ids: Sequence[UUID],
        *,
        is_handler: bool,
        is_child: bool,
        key_prefix: str,
    ) -> bool:
        """Makes some members that failed once more; False if there was nothing to do."""

        async def remake(statements: Statements) -> list[Any]:
            await lock_flow(statements, row)
            return await statements.fetch(
                "remake_members",
                namespace=row["namespace"],
                flow=row["flow"],
                node=row["node"],
                generation=row["generation"],
                made=row["made"],
                is_handler=is_handler,
                is_child=is_child,
                ids=list(ids),
                limit=len(ids),
                key_prefix=key_prefix,
                options=definition.options,
                **_shared(definition),
            )

        rows = await self._database.transact(remake)
        if rows:
            self._wake(definition, child=is_child, noted=True)
        return bool(rows)

    async def fail_map(self, row: Any, error: str) -> None:
        """Makes a map fail for good, because its items can't be read."""

        async def fail(statements: Statements) -> None:
            await lock_flow(statements, row)
            await statements.fetch(
                "fail_map",
                namespace=row["namespace"],
                flow=row["flow"],
                node=row["node"],
                generation=row["generation"],
                error=error,
            )

        await self._database.transact(fail)
        self._database.wake(flows=True)

    def _wake(self, definition: Definition, *, child: bool, noted: bool) -> None:
        plain = definition.policies is None and not child
        self._database.wake(pools=[definition.pool] if plain else [], gates=not plain, flows=child or noted)

    async def definition(self, namespace: str, workflow_id: UUID, version: str) -> tuple[str, str] | None:
        """The text of a version, and the owner of the workflow."""
        row = await self._database.fetch_row(
            "workflow_definition", namespace=namespace, workflow_id=workflow_id, version=version
        )
        return None if row is None else (row["definition"], row["owner"])


async def lock_flow(statements: Statements, row: Any) -> None:
    """Before rows of a workflow run are written: in a statement of its own (see lock_flow.sql)."""
    await statements.fetch("lock_flow", namespace=row["namespace"], flow=row["flow"])


def _shared(definition: Definition) -> dict[str, Any]:
    """What all members of a map have alike."""
    return {
        "owner": definition.owner,
        "name": definition.name,
        "task": definition.task,
        "pool": definition.pool,
        "priority": definition.priority,
        "tags": ",".join(definition.tags),
        "policies": definition.policies,
    }
