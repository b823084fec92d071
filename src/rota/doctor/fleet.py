"""Workers, pools and schedulers: whether somebody is there for what waits. From the API or the database, alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rota.doctor.findings import Finding, ok, problem, warning
from rota.domain.text import nearest

LIVE = ("live", "ailing")
MOST_NAMED = 5


def check_workers(workers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """How many are live in each pool."""
    live = [worker for worker in workers if worker["status"] in LIVE]
    if not live:
        yield warning("workers", "none is live: nothing runs", "start one: rota worker --app MODULE:APP")
        return
    pools = Counter(pool for worker in live for pool in worker["pools"])
    yield ok("workers", "live: " + ", ".join(f"{count} in pool {pool}" for pool, count in sorted(pools.items())))
    for worker in live:
        if worker["status"] == "ailing":
            yield warning("workers", f"{worker['host']}, pid {worker['pid']}, is ailing", "rota workers says why")
    silent = [worker for worker in workers if worker["status"] == "silent"]
    for worker in silent:
        yield warning(
            "workers", f"{worker['host']}, pid {worker['pid']}, has not been heard of for longer than its lease"
        )


def check_waiting(queued: Iterable[tuple[str, str]], workers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Pools and tasks (pool, task) of runs that wait, and for which nobody is there."""
    live = [worker for worker in workers if worker["status"] in LIVE]
    served = {pool for worker in live for pool in worker["pools"]}
    known = {task for worker in live for task in worker["tasks"]}
    waiting = sorted(set(queued))
    pools = sorted({pool for pool, _ in waiting} - served)
    for pool in pools[:MOST_NAMED]:
        mend = f"start a worker for it: rota worker --pools {pool}"
        yield problem("waiting", f"runs wait in pool {pool}, which no live worker serves", mend)
    tasks = sorted({task for pool, task in waiting if pool in served} - known)
    for task in tasks[:MOST_NAMED]:
        near = nearest(task, known)
        mend = (
            f"did you mean {near}?" if near else "start a worker with an app that has it: rota worker --app MODULE:APP"
        )
        yield problem("waiting", f"runs wait for task {task}, which no live worker knows", mend)
    if not pools and not tasks:
        yield ok("waiting", "for all that waits somebody is there" if waiting else "nothing waits")


def check_shards(shards: Sequence[Mapping[str, Any]], owner: str) -> Iterator[Finding]:
    """Whether every shard has a scheduler; `owner` names the field that says which."""
    lonely = [shard["shard"] for shard in shards if shard[owner] is None]
    schedulers = len({shard[owner] for shard in shards if shard[owner] is not None})
    if not schedulers:
        yield problem("schedulers", "none is there: nothing gets due", "start one: rota scheduler, or rota up")
    elif lonely:
        count = f"{len(lonely)} of {len(shards)} shards have"
        yield warning("schedulers", f"{count} no scheduler just now", "look again in a moment; else: rota scheduler")
    else:
        who = "1 scheduler owns" if schedulers == 1 else f"{schedulers} schedulers own"
        yield ok("schedulers", f"{who} all {len(shards)} shards")
