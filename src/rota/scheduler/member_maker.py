"""Making members: the items of a map become runs, a window of them ahead of the workers.

A page of items is read first, then one transaction makes the runs and moves the map's position: if that is still where
it was read, and the workflow run is not stopped. So no item is made twice, whatever dies in between, and a million
items never are a million waiting rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rota.blobs import BlobError, BlobMissingError, Blobs
from rota.domain.ids import new_id
from rota.domain.workflows.references import MissingValueError, holds, references_in, render
from rota.errors import RotaError
from rota.gateway.workflow_plans import NodePlan, WorkflowPlan
from rota.scheduler.conductor import Plans, key_of, values_of
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.store.flow import Flows, NewMembers

MOST_AT_ONCE = 2000
_PIECE_BYTES = 1024 * 1024


class _Page(msgspec.Struct):
    """Items that were read, the position behind them, and whether the source is at its end."""

    items: list[Any]
    position: int
    is_last: bool


class MemberMaker(ShardService):
    """Makes members of maps."""

    interval_seconds = 0.5
    full_round = 1

    def __init__(self, *, flows: Flows, plans: Plans, blobs: Blobs | None, leases: LeaseKeeper, now: Any) -> None:
        super().__init__(leases=leases)
        self._flows = flows
        self._plans = plans
        self._blobs = blobs
        self._now = now
        self._aside = SetAside("a map can't be made and is set aside")

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round; returns how many maps got members."""
        self._aside.begin()
        made = 0
        for row in await self._flows.maps_to_make(owned):
            key = (row["flow"], row["node"])
            if self._aside.passes_over(key):
                continue
            try:
                made += await self._make(row)
            except Exception as error:  # noqa: BLE001 - one bad map must not stop the others
                self._aside.add(key, error, flow=str(row["flow"]), node=row["node"])
        return made

    async def _make(self, row: Any) -> bool:
        plan = await self._plans.of(row)
        node, rules = plan.nodes[row["node"]], plan.graph.nodes[row["node"]]
        if row["stop"] is not None and not rules.is_handler:
            return False
        room = min(MOST_AT_ONCE, row["member_window"] - (row["made"] - row["ended"]))
        page = await self._read(row, room)
        members = self._members(row, node, page, await self._results(row, plan, node))
        return await self._flows.make_members(row, node.definition, members, is_handler=rules.is_handler)

    async def _results(self, row: Any, plan: WorkflowPlan, node: NodePlan) -> Mapping[str, Any]:
        """The results of other nodes that members refer to."""
        keys = {it["$from"] for it in references_in([node.payload, node.when]) if "$from" in it}
        if not keys:
            return {}
        numbers = {plan.graph.number_of[key]: key for key in keys}
        found = await self._flows.results(row["namespace"], row["flow"], numbers)
        return {numbers[number]: result for number, result in found.items()}

    async def _read(self, row: Any, most: int) -> _Page:
        if row["items"] is not None:
            items = msgspec.json.decode(row["items"])
            end = min(row["position"] + most, len(items))
            return _Page(items[row["position"] : end], end, end == len(items))
        return await self._read_object(row, most)

    async def _read_object(self, row: Any, most: int) -> _Page:
        """The next lines of an object."""
        if self._blobs is None:
            raise RotaError("this scheduler has no object storage (ROTA_BLOBS)")
        key = f"inputs/{row['namespace']}/{row['object']}"
        text = b""
        position: int = row["position"]
        is_last = False
        while text.count(b"\n") < most and not is_last:
            try:
                piece = await self._blobs.get_piece(key, position + len(text), _PIECE_BYTES)
            except BlobMissingError:
                raise
            except BlobError:
                if not text:
                    raise
                piece = b""
            text += piece
            is_last = len(piece) < _PIECE_BYTES
        lines = text.splitlines(keepends=True)
        if lines and not is_last and not lines[-1].endswith(b"\n"):
            lines.pop()
        taken = lines[:most]
        ends = is_last and len(taken) == len(lines)
        items = [_item_of(line) for line in taken if line.strip()]
        return _Page(items, position + sum(map(len, taken)), ends)

    def _members(self, row: Any, node: NodePlan, page: _Page, results: Mapping[str, Any]) -> NewMembers:
        values = values_of(row["inputs"], row["nominal_at"], results.get)
        now, skipped = self._now(), 0
        runs = []
        for number, item in enumerate(page.items, row["next_item"]):
            own = msgspec.structs.replace(values, item=item, index=number)
            if node.when is not None and not holds(node.when, own):
                skipped += 1
                continue
            payload = _payload_of(node, own)
            options = _with_item(node.definition.options, number)
            runs.append((new_id(now), payload, options, key_of(row["flow"], node.key, row["generation"], number)))
        next_item = row["next_item"] + len(page.items)
        return NewMembers(runs, page.position, next_item, skipped, page.is_last)


def _payload_of(node: NodePlan, values: Any) -> str | None:
    if node.payload is None:
        return None
    try:
        return msgspec.json.encode(render(node.payload, values)).decode()
    except MissingValueError as error:
        # The worker finds that its parameters are missing: the member fails, and says why.
        return msgspec.json.encode({"$missing": str(error)}).decode()


def _with_item(options: str, number: int) -> str:
    separator = "" if options == "{}" else ","
    return f'{options[:-1]}{separator}"item":{number}}}'


def _item_of(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {"$unreadable": line[:200].decode(errors="replace").strip()}
