"""Making members: the items of a map become runs, a window of them ahead of the workers.

A page of items is read first, then one transaction makes the runs and moves the map's position: if that is still where
it was read, and the workflow run is not stopped. So no item is made twice, whatever dies in between, and a million
items never are a million waiting rows. Members that failed, and run again after a resume, are made of what they were
given before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rota.blobs import BlobMissingError, Blobs
from rota.domain.ids import FIRST_ID, new_id
from rota.domain.job import Definition
from rota.domain.workflows.references import (
    MissingValueError,
    Values,
    holds,
    references_in,
    stored_values,
    with_option,
    with_stored,
)
from rota.errors import BadInputError, RotaError
from rota.gateway.job_builder import JobBuilder
from rota.gateway.workflow_plans import MOST_LEVELS, NodePlan, Pin, WorkflowPlan, decode_pins
from rota.scheduler.conductor import Plans
from rota.scheduler.flow_step import key_of, key_prefix, payload_of, values_of
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.store.flow import ChildOf, Flows, NewMembers

MOST_AT_ONCE = 2000
_MOST_ITEMS = 500_000  # that are remembered
_PIECE_BYTES = 256 * 1024
_LONGEST_LINE_BYTES = 1024 * 1024


class _Page(msgspec.Struct):
    """Items that were read (an error in place of one that can't be), the position behind them, and whether the source
    is at its end."""

    items: list[Any]
    position: int
    is_last: bool
    etag: str | None = None


class _SourceError(RotaError):
    """The items of a map can't be read, and never will."""


class MemberMaker(ShardService):
    """Makes members of maps."""

    interval_seconds = 0.5
    full_round = 1

    def __init__(
        self,
        *,
        flows: Flows,
        plans: Plans,
        builder: JobBuilder,
        blobs: Blobs | None,
        leases: LeaseKeeper,
        now: Callable[[], float],
    ) -> None:
        super().__init__(leases=leases)
        self._flows = flows
        self._plans = plans
        self._builder = builder
        self._blobs = blobs
        self._now = now
        self._aside = SetAside("a map can't be made and is set aside")
        self._after = FIRST_ID  # the last map that was looked at: in the next round it is the turn of those behind it
        self._lists: dict[tuple[Any, ...], list[Any]] = {}  # items of maps that have not been made, by (flow, node, …)

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round; returns how many maps got members."""
        self._aside.begin()
        made = 0
        rows = await self._flows.maps_to_make(owned, after=self._after)
        for row in rows:
            self._after = row["flow"]
            key = (row["flow"], row["node"])
            if self._aside.passes_over(key):
                continue
            try:
                made += await self._make(row)
            except _SourceError as error:
                await self._flows.fail_map(row, str(error))
            except Exception as error:  # noqa: BLE001 - one bad map must not stop the others
                self._aside.add(key, error, flow=str(row["flow"]), node=row["node"])
        return made

    async def _make(self, row: Any) -> bool:
        plan = await self._plans.of(row)
        node, rules = plan.nodes[row["node"]], plan.graph.nodes[row["node"]]
        if row["stop"] is not None and not rules.is_handler:
            return False
        room = min(MOST_AT_ONCE, row["member_window"] - (row["made"] - row["ended"]))
        child = self._child(row, node)
        values = await self._values(row, plan, node)
        definition = msgspec.structs.replace(
            node.definition,
            owner=node.definition.owner if child is None else child.owner,
            name=node.definition.name if child is None else node.child or "",
            options=with_stored(node.definition.options, stored_values(node.payload, values)),
        )
        if row["is_redone"]:
            return await self._flows.remake_members(
                row,
                definition,
                [new_id(self._now()) for _ in range(room)],
                is_handler=rules.is_handler,
                is_child=child is not None,
                key_prefix=key_prefix(row["flow"], node.key, row["inputs_of"]),
            )
        members = self._members(row, node, definition, await self._read(row, room), values)
        of = None if child is None else ChildOf(child.workflow_id, child.version, child.deadline_seconds)
        return await self._flows.make_members(row, definition, members, is_handler=rules.is_handler, child=of)

    def _child(self, row: Any, node: NodePlan) -> Pin | None:
        """The workflow that members are runs of."""
        if node.child is None:
            return None
        pin = decode_pins(row["pins"]).get(node.child)
        if pin is None:
            raise _SourceError(f"there is no workflow named {node.child!r}")
        if row["depth"] + 1 > MOST_LEVELS:
            raise _SourceError(f"workflows are nested deeper than {MOST_LEVELS} levels")
        return pin

    async def _values(self, row: Any, plan: WorkflowPlan, node: NodePlan) -> Values:
        """What members can refer to, but for their items."""
        keys = {it["$from"] for it in references_in([node.payload, node.when]) if "$from" in it}
        numbers = {plan.graph.number_of[key]: key for key in keys}
        found = await self._flows.results(row["namespace"], row["flow"], numbers) if keys else {}
        results = {numbers[number]: result for number, (result, _) in found.items()}
        stored = {numbers[number]: blob for number, (_, blob) in found.items() if blob is not None}
        return values_of(row["inputs"], row["nominal_at"], row["timezone"], results.get, stored)

    async def _read(self, row: Any, most: int) -> _Page:
        if row["object"] is None:
            items = await self._items(row)
            end = min(row["position"] + most, len(items))
            return _Page(items[row["position"] : end], end, end == len(items))
        try:
            return await self._read_object(row, most)
        except BlobMissingError:
            raise _SourceError(f"there is no object {row['object']!r} in storage") from None

    async def _items(self, row: Any) -> list[Any]:
        """The list of a map. Large ones are remembered, some of them: a map with a small window reads it many times."""
        key = (row["flow"], row["node"], row["generation"])
        items = self._lists.get(key)
        if items is None:
            items = msgspec.json.decode(await self._flows.items_of(row) or "[]")
            while self._lists and sum(len(it) + 1 for it in (items, *self._lists.values())) > _MOST_ITEMS:
                self._lists.pop(next(iter(self._lists)))
            self._lists[key] = items
        return items

    async def _read_object(self, row: Any, most: int) -> _Page:
        """The next lines of an object."""
        if self._blobs is None:
            raise RotaError("this scheduler has no object storage (ROTA_BLOBS)")
        key = f"inputs/{row['namespace']}/{row['object']}"
        size, etag = await self._blobs.describe(key)
        if row["etag"] not in (None, etag):
            raise _SourceError(f"the object {row['object']!r} was changed while it was being read")
        position: int = row["position"]
        text = b""
        while text.count(b"\n") < most and position + len(text) < size:
            if len(text) > _LONGEST_LINE_BYTES and b"\n" not in text[-_LONGEST_LINE_BYTES:]:
                raise _SourceError(f"a line of {row['object']!r} has more than {_LONGEST_LINE_BYTES} bytes")
            text += await self._blobs.get_piece(
                key, position + len(text), min(_PIECE_BYTES, size - position - len(text))
            )
        at_end = position + len(text) >= size
        lines = text.split(b"\n")  # of a binary text splitlines() would also split at carriage returns
        if not lines[-1] or not at_end:
            lines.pop()
        taken = lines[:most]
        read = min(sum(map(len, taken)) + len(taken), len(text))
        items = [_item_of(line) for line in taken if line.strip()]
        return _Page(items, position + read, at_end and len(taken) == len(lines), etag)

    def _members(self, row: Any, node: NodePlan, definition: Definition, page: _Page, values: Values) -> NewMembers:
        now, skipped = self._now(), 0
        runs: list[tuple[Any, str | None, str, Any]] = []
        bad: list[tuple[int, str]] = []
        for number, item in enumerate(page.items, row["next_item"]):
            if isinstance(item, _Unreadable):
                bad.append((number, item.reason))
                continue
            own = msgspec.structs.replace(values, item=item, index=number)
            try:
                if node.when is not None and not holds(node.when, own):
                    skipped += 1
                    continue
                payload = payload_of(node, own, self._builder)
            except (MissingValueError, BadInputError) as error:
                bad.append((number, f"its payload could not be made: {error}"))
                continue
            options = with_option(definition.options, "item", str(number))
            runs.append((new_id(now), payload, options, key_of(row["flow"], node.key, row["inputs_of"], number)))
        next_item = row["next_item"] + len(page.items)
        return NewMembers(runs, bad, page.position, next_item, skipped, page.is_last, page.etag)


class _Unreadable(msgspec.Struct, frozen=True):
    """A line that is no JSON."""

    reason: str


def _item_of(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        return _Unreadable(f"its line is no JSON ({error}): {_shown(line)}")


def _shown(line: bytes) -> str:
    """The beginning of a line, as the database can keep it."""
    return line[:100].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
