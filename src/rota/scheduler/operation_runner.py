"""Operations on many runs, moved on piece by piece: backfills, replays, bulk redrives and cancels.

A round counts the ends of their runs, stops operations of which too much has failed, makes more runs where the window
(`concurrency`) and the rate leave room, and ends what is done. A piece is read first, and done in a transaction that
moves the operation's position, if that is still where it was (store/operate). So a scheduler that dies loses nothing,
and two of them do nothing twice.

How much of a pool an operation can take follows from its window: never more of its runs wait and run at a time.
Reports wake this service when such a run ends; it makes at most a round every SHORTEST_PAUSE_SECONDS, so that many
short runs cost the scheduler little.

An operation that can't be dealt with is set aside and tried again later: it stops no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rota.domain.backfills import Ending, is_wanted
from rota.domain.operations import has_failed_too_often, paced
from rota.errors import DatabaseUnavailableError
from rota.scheduler.lease_keeper import LeaseKeeper
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import ShardService
from rota.store.operate import Operations, Piece, calendar_of, filter_of
from rota.store.operate.pages import OperationPages

MOST_AT_ONCE = 500
LEAST_LOOKED_AT = 100
SHORTEST_PAUSE_SECONDS = 0.1


class OperationRunner(ShardService):
    """Moves operations on."""

    interval_seconds = 0.5
    full_round = 1

    def __init__(self, *, operations: Operations, pages: OperationPages, leases: LeaseKeeper) -> None:
        super().__init__(leases=leases)
        self._operations = operations
        self._pages = pages
        self._aside = SetAside("an operation can't be carried out and is set aside")
        self._rested_at = 0.0

    async def serve(self, owned: Mapping[int, int]) -> int:
        """One round; returns how many operations have more to do at once."""
        await asyncio.sleep(max(0.0, self._rested_at + SHORTEST_PAUSE_SECONDS - time.monotonic()))
        shards = list(owned)
        more = await self._round(shards) if await self._operations.count_open(shards) else 0
        self._rested_at = time.monotonic()
        return more

    async def _round(self, shards: Sequence[int]) -> int:
        for row in await self._operations.count_ends(shards):
            await self._judge(row)
        passed = self._aside.begin()
        for row in await self._operations.aborting(shards, passed):
            await self._guarded_act(row, self._sweep)
        more = 0
        for row in await self._operations.due(shards, passed):
            more += await self._guarded_act(row, self._move_on)
        await self._operations.settle(shards)
        return more

    async def _guarded_act(self, row: Any, act: Callable[[Any], Awaitable[bool]]) -> bool:
        """Acts on an operation; one that fails is set aside."""
        if self._aside.passes_over(row["id"]):
            return False
        try:
            return await act(row)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - one bad operation must not stop the others
            self._aside.add(row["id"], error, operation=str(row["id"]), kind=row["kind"])
            return False

    async def _sweep(self, row: Any) -> bool:
        await self._operations.sweep(row["namespace"], row["id"])
        return False

    async def _judge(self, row: Any) -> None:
        """Stops an operation of which too much has failed."""
        ended, failed = row["ended"] - row["judged_ended"], row["failed"] - row["judged_failed"]
        if row["state"] == "running" and has_failed_too_often(ended, failed, row["stop_share"]):
            words = f"{failed} of {ended} runs failed, more than a share of {row['stop_share']:g}"
            await self._operations.change(row["namespace"], row["id"], "stopped", states=["running"], reason=words)

    async def _move_on(self, row: Any) -> bool:
        """Does a piece of an operation's work; whether there is more to do at once."""
        room = row["concurrency"] - (row["made"] - row["ended"]) if row["kind"] != "cancel" else MOST_AT_ONCE
        wanted, _ = paced(row["rate"], row["paced_to"], row["database_time"], min(room, MOST_AT_ONCE))
        if wanted <= 0:
            return False
        if row["kind"] == "backfill":
            return await self._backfill(row, wanted)
        return await self._act_on_page(row, wanted)

    async def _backfill(self, row: Any, wanted: int) -> bool:
        calendar, looked_at = calendar_of(row), max(LEAST_LOOKED_AT, 2 * wanted)
        times = calendar.times(row["position_at"], looked_at)
        known = await self._operations.known(
            row["namespace"], calendar, times, job_made_at=row["job_made_at"], operation=row["id"]
        )
        endings = [(moment, known.ending(moment)) for moment in times]
        dealt_with, made = _first_wanted(endings, row["existing"], row["unknown"], wanted)
        left = [moment for moment, ending in endings[:dealt_with] if ending == "open"]
        position = times[dealt_with - 1] if dealt_with else row["position_at"]
        is_made = dealt_with == len(times) < looked_at
        piece = _piece(row, made=len(made), dealt_with=dealt_with, is_made=is_made)
        await self._operations.make_backfill(row, made, left, position, piece)
        return not is_made and (len(made) < wanted or wanted == MOST_AT_ONCE)

    async def _act_on_page(self, row: Any, wanted: int) -> bool:
        chosen = filter_of(row)
        if chosen.most is not None:
            wanted = min(wanted, chosen.most - row["made"])
        page = await self._pages.read(
            row["namespace"],
            row["kind"],
            chosen,
            since=row["created_at"],
            position=row["position_id"],
            limit=max(LEAST_LOOKED_AT, wanted),
        )
        ids, dealt_with = page.take(wanted)
        is_full = chosen.most is not None and row["made"] + len(ids) >= chosen.most
        is_made = is_full or (page.is_last and dealt_with == len(page.ids))
        position = page.ids[dealt_with - 1] if dealt_with else row["position_id"]
        piece = _piece(row, made=len(ids), dealt_with=dealt_with, is_made=is_made)
        act = self._operations.cancel if row["kind"] == "cancel" else self._operations.make_again
        await act(row, ids, position, piece)
        return not is_made and (len(ids) < wanted or wanted == MOST_AT_ONCE)


def _first_wanted(
    endings: Sequence[tuple[datetime, Ending]], existing: Any, unknown: Any, most: int
) -> tuple[int, list[datetime]]:
    """How many times can be dealt with now, and those of them for which runs are made, at most so many."""
    made: list[datetime] = []
    for number, (moment, ending) in enumerate(endings):
        if is_wanted(ending, existing, unknown):
            if len(made) == most:
                return number, made
            made.append(moment)
    return len(endings), made


def _piece(row: Any, *, made: int, dealt_with: int, is_made: bool) -> Piece:
    _, paced_to = paced(row["rate"], row["paced_to"], row["database_time"], made)
    return Piece(left_out=dealt_with - made, is_made=is_made, paced_to=paced_to)
