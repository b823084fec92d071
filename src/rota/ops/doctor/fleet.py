"""Workers, pools and schedulers: whether somebody is there for what waits. From the API or the database, alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rota.domain.text import nearest
from rota.ops.doctor.findings import Finding, ok, problem, warning
from rota.settings import DEFAULT_NAMESPACE

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


def check_waiting(queued: Sequence[Mapping[str, Any]], workers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Pools that are paused, and pools and tasks of runs that wait and for which nobody is there."""
    live = [worker for worker in workers if worker["status"] in LIVE]
    paused = sorted({run["pool"] for run in queued if run["paused"]})
    for pool in paused[:MOST_NAMED]:
        yield warning(
            "waiting", f"pool {pool} is paused, and runs wait in it", f"let it go on: rota pool {pool} --resume"
        )
    lonely, unknown = set(), set()
    for run in queued:
        there = [worker for worker in live if _serves(worker, run)]
        if not there:
            lonely.add((run.get("namespace"), run["pool"]))
        elif not any(run["task"] in worker["tasks"] for worker in there):
            unknown.add(run["task"])
    yield from _tell_lonely(lonely)
    yield from _tell_unknown(unknown, {task for worker in live for task in worker["tasks"]})
    if not (paused or lonely or unknown):
        yield ok("waiting", "for all that waits somebody is there" if queued else "nothing waits")


def _serves(worker: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Whether it takes from the run's pool. A server tells us of one namespace, and of the workers that serve it."""
    namespace = run.get("namespace")
    return run["pool"] in worker["pools"] and (namespace is None or namespace in worker["namespaces"])


def _tell_lonely(pools: set[tuple[str | None, str]]) -> Iterator[Finding]:
    for namespace, pool in sorted(pools, key=str)[:MOST_NAMED]:
        where = f" of namespace {namespace}" if namespace else ""
        setting = f"ROTA_NAMESPACES={namespace} " if namespace and namespace != DEFAULT_NAMESPACE else ""
        mend = f"start a worker for it: {setting}rota worker --pools {pool}"
        yield problem("waiting", f"runs wait in pool {pool}{where}, which no live worker serves", mend)


def _tell_unknown(tasks: set[str], known: set[str]) -> Iterator[Finding]:
    for task in sorted(tasks)[:MOST_NAMED]:
        near = nearest(task, known)
        mend = (
            f"did you mean {near}?" if near else "start a worker with an app that has it: rota worker --app MODULE:APP"
        )
        yield problem("waiting", f"runs wait for task {task}, which no live worker knows", mend)


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
