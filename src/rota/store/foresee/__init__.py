"""Foreseeing: when the services of a scheduler have something to do next."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from rota.store.postgres.database import Database


class ForeseenWork(msgspec.Struct, frozen=True):
    """In how many seconds something is to be done: infinity if nothing is known, negative if it is late."""

    fires_in: float
    starts_in: float
    expires_in: float
    is_recalled: bool  # whether recalled runs are to be decided
    is_held: bool  # whether runs wait at a gate


class Foresight:
    """One look at everything that schedulers wait for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, shards: Iterable[int]) -> ForeseenWork:
        """What there is to do on these shards."""
        row = await self._database.fetch_row("foresee_work", shards=list(shards))
        assert row is not None  # noqa: S101 - the statement always gives one
        moments = (row["fires_in"], row["starts_in"], row["expires_in"])
        return ForeseenWork(
            *(math.inf if seconds is None else seconds for seconds in moments), row["is_recalled"], row["is_held"]
        )
