"""Why a run is not running, in words."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from rota.contract.jobs import BreakerState
from rota.domain.fleet import FleetOffer, explain_misfit, hint_for_task
from rota.domain.ids import show_run
from rota.domain.policies import Policies, decode_policies, show_key
from rota.store.admit.gate_states import candidate_of
from rota.store.depend.needs import NeededJobs
from rota.store.read.fleet import Fleet
from rota.store.read.waiting import Waiting

_NAMED = 5
_RUN_IDS = re.compile(r"run_[0-9a-f]{32}(, run_[0-9a-f]{32})*(, …)?")


class WaitingReasons:
    """Explains what a run waits for."""

    def __init__(self, *, waiting: Waiting, needed: NeededJobs, fleet: Fleet) -> None:
        self._needed = needed
        self._waiting = waiting
        self._fleet = fleet

    async def explain(self, row: Any, *, naming: bool = True) -> str | None:
        """Why a run waits; None when it does not. Without `naming`, other owners' runs are not named."""
        match row["status"]:
            case "scheduled":
                return f"not due until {_show_time(row['run_at'])}"
            case "retrying":
                return f"waits to be tried again, not due until {_show_time(row['run_at'])}"
            case "blocked":
                return await self._explain_blocked(row, naming=naming)
            case "queued":
                return await self._explain_queued(row)
            case _:
                return None

    async def breaker_state(self, row: Any) -> BreakerState | None:
        """The state of a job's or run's breaker, if it has one."""
        key = decode_policies(row["policies"]).breaker
        if key is None:
            return None
        gate = await self._waiting.gate(row["namespace"], "breaker", key)
        if gate is None:
            return BreakerState(state="closed", failures=0, open_until=None)
        return BreakerState(state=gate["state"], failures=gate["failures"], open_until=gate["until"])

    async def _explain_blocked(self, row: Any, *, naming: bool) -> str:
        at_gate = {
            "order": self._explain_order,
            "limit": self._explain_limit,
            "rate": self._explain_rate,
            "breaker": self._explain_breaker,
            "overlap": self._explain_overlap,
            "dependency": self._explain_dependency,
        }.get(row["gate"])
        if at_gate is None:
            return f"{_SET_ASIDE}: {row['gate_key']}" if row["gate_key"] else _PLAIN_GATES[row["gate"]]
        words = await at_gate(row, decode_policies(row["policies"]))
        return words if naming or row["gate"] == "overlap" else _RUN_IDS.sub("another run", words)

    async def _explain_order(self, row: Any, policies: Policies) -> str:
        line = await self._waiting.line(row["namespace"], policies.order or "")
        other = line["holder"] or line["head"]
        if other is None or other == row["id"]:
            return f"its turn in ordering key {policies.order!r} has come; the scheduler is looking at it"
        return f"behind {show_run(other)} of ordering key {policies.order!r}"

    async def _explain_limit(self, row: Any, policies: Policies) -> str:
        live = await self._waiting.live_of_limit(row["namespace"], policies.limit or "", _NAMED + 1)
        used = live[0]["used"] if live else 0
        names = ", ".join(show_run(run["id"]) for run in live[:_NAMED])
        more = ", …" if used > _NAMED else ""
        where = show_key(policies.limit or "")
        return f"limit {used}/{policies.most} of {where} reached by {names}{more}" if used else f"limit of {where}"

    async def _explain_rate(self, row: Any, policies: Policies) -> str:
        gate = await self._waiting.gate(row["namespace"], "rate", policies.rate or "")
        until = f": the next token comes at {_show_time(gate['wakes_at'])}" if gate and gate["wakes_at"] else ""
        rate = f"{policies.count} per {policies.per:g} s"
        return f"rate limit of {rate} for {show_key(policies.rate or '')}{until}"

    async def _explain_breaker(self, row: Any, policies: Policies) -> str:
        gate = await self._waiting.gate(row["namespace"], "breaker", policies.breaker or "")
        where = show_key(policies.breaker or "")
        if gate is not None and gate["state"] == "half-open" and gate["probe"]:
            return f"the breaker of {where} is half-open: {show_run(gate['probe'])} tries first"
        until = f" until {_show_time(gate['until'])}" if gate and gate["until"] else ""
        return f"the breaker of {where} is open{until}"

    async def _explain_overlap(self, row: Any, _policies: Policies) -> str:
        earlier = await self._waiting.earlier_run(row["namespace"], row["job_id"], row["id"])
        if earlier is None:
            return "an earlier run of its job has just ended; the scheduler is looking at it"
        return f"{show_run(earlier)}, an earlier run of its job, has not ended"

    async def _explain_dependency(self, row: Any, _policies: Policies) -> str:
        need = await self._needed.waited_for(candidate_of(row))
        if need.fate == "wait":
            return f"depends on another job: {need.words}"
        return "what it depends on has just been decided; the scheduler is looking at it"

    async def _explain_queued(self, row: Any) -> str:
        if row["run_at"] > row["database_time"]:
            return f"not due until {_show_time(row['run_at'])}"
        namespace, pool, task = row["namespace"], row["pool"], row["task"]
        fleet = await self._fleet.workers_for_run(namespace, pool, task)
        if fleet["paused"]:
            return f"pool {pool} is paused"
        offer = FleetOffer(*(fleet[name] for name in FleetOffer._fields))
        hint = "" if offer.knowing_task else await self._hint(namespace, task)
        if words := explain_misfit(offer, task=task, pool=pool, namespace=namespace, hint=hint):
            return words
        return "a worker takes it in a moment" if fleet["free"] else f"all slots of pool {pool} are busy"

    async def _hint(self, namespace: str, task: str) -> str:
        rows = await self._fleet.workers(namespace)
        return hint_for_task(task, (name for row in rows if row["gone_at"] is None for name in row["tasks"]))


_SET_ASIDE = "could not be let through its gates, and is tried again every minute"
_PLAIN_GATES = {
    "pause": "its job is paused",
    "recall": "its job changed; the scheduler is looking at it",
    "dependent": "came to its gates a moment ago; the scheduler is looking at it",
    "new": "came to its gates a moment ago; the scheduler is looking at it",
}


def _show_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
