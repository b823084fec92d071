"""Foreseeing: when the services of a scheduler have something to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from rota.store.admit import Gates
from rota.store.postgres.database import Database


class ForeseenWork(msgspec.Struct, frozen=True, kw_only=True):
    """In how many seconds something is to be done: infinity if nothing is known, at most zero if it is due."""

    fires_in: float  # a schedule
    starts_in: float  # an upcoming run
    expires_in: float  # a run that may expire
    admits_in: float  # a gate, or a run that came to its gates
    is_recalled: bool  # whether recalled runs are to be decided
    is_held: bool  # whether runs wait at a gate
    conducts_in: float  # a workflow run
    is_mapped: bool  # whether members of maps are to be made
    is_operating: bool  # whether operations on many runs are open


class Foresight:
    """One look at everything that schedulers wait for."""

    def __init__(self, database: Database, gates: Gates) -> None:
        self._database = database
        self._gates = gates

    async def look(self, owned: Mapping[int, int]) -> ForeseenWork:
        """What there is to do on these shards."""
        row = await self._database.fetch_row("foresee_work", shards=list(owned))
        assert row is not None  # noqa: S101 - the statement gives one row
        is_due, admits_in = await self._gates.next_due_in(owned, whole=True)
        return ForeseenWork(
            fires_in=_or_never(row["fires_in"]),
            starts_in=_or_never(row["starts_in"]),
            expires_in=_or_never(row["expires_in"]),
            admits_in=0.0 if is_due else admits_in,
            is_recalled=row["is_recalled"],
            is_held=row["is_held"],
            conducts_in=_or_never(row["conducts_in"]),
            is_mapped=row["is_mapped"],
            is_operating=row["is_operating"],
        )


def _or_never(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds
