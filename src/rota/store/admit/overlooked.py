"""The second line of defence: a slow, complete look at gates where runs wait and nothing will call them.

Admission is called by notes, by moments written at gates and by runs that arrive (see __init__). If one of these is
lost, for whatever reason, the runs behind that gate would wait for ever. So one scheduler walks over all gates at which
runs wait, a bounded number at a time, and asks of the first run at each: would it still be held here? If not, the gate
is called. No locks are taken: the answer is only a hint, and calling a gate for nothing costs one look.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from rota.domain.gates import Gate, overlooked_gates
from rota.store.admit.gate_states import call_gates, candidate_of, gate_of, read_states
from rota.store.lease import leased
from rota.store.postgres.database import Database

GATES_PER_LOOK = 1000
_BEFORE_ALL = ("", "", "")


class OverlookedGates:
    """Finds gates that admission was not called to, and runs that were set aside."""

    def __init__(self, database: Database, scheduler_id: UUID) -> None:
        self._database = database
        self._scheduler_id = scheduler_id
        self._after = _BEFORE_ALL

    async def call(self) -> set[Gate]:
        """Looks at the next gates, from the beginning again after the last one; returns those it called."""
        namespace, gate, gate_key = self._after
        rows = await self._database.fetch(
            "parked_gates", namespace=namespace, gate=gate, gate_key=gate_key, limit=GATES_PER_LOOK
        )
        is_last = len(rows) < GATES_PER_LOOK
        self._after = _BEFORE_ALL if is_last else (rows[-1]["namespace"], rows[-1]["kind"], rows[-1]["key"])
        waiting = {
            gate_of(row): row for row in rows if row["kind"] not in ("new", "dependent")
        }  # those set aside have a look of their own
        early = {gate for gate, row in waiting.items() if not row["due"]}
        first = {gate: candidate_of(row) for gate, row in waiting.items() if gate not in early}
        states = await read_states(self._database, await self._database.time(), list(first.values()))
        called = early | overlooked_gates(first, states)
        await call_gates(self._database, called)
        if called:
            self._database.wake(gates=True)
        return called

    async def try_aside(self, owned: Mapping[int, int], limit: int) -> int:
        """Lets admission try runs again that were set aside, at most `limit` per shard; returns how many."""
        rows = await self._database.fetch("try_aside", **leased(self._scheduler_id, owned), limit=limit)
        if rows:
            self._database.wake(gates=True)
        return len(rows)
