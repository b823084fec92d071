"""Checks of workers, pools and schedulers, with data from the API or the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rota.domain.fleet import LIVE, offer_of
from rota.domain.job import HTTP_TASK, SCRIPT_TASK, SHELL_TASK
from rota.domain.text import nearest
from rota.ops.doctor.findings import Finding, ok, problem, warning
from rota.settings import DEFAULT_NAMESPACE

_MOST_NAMED = 5
# Tasks that no application has, and the command for a worker that runs them.
_OF_NO_APP = {
    SHELL_TASK: "ROTA_ALLOW_SHELL=on rota worker",
    SCRIPT_TASK: "rota worker",
    HTTP_TASK: "rota worker",
}


_LOOK_AGAIN = "look with the key of an operator or admin"


def check_fleet(seen: Mapping[str, Any], *, owner: str) -> Iterator[Finding]:
    """Checks the workers, waiting runs and shards (None: we can't see them), and says what can't be seen.

    `whose`: the owner whose runs are all that we see; None if we see everyone's.
    """
    if seen["workers"] is None:
        yield warning("workers", "this token can't see them", _LOOK_AGAIN)
    else:
        yield from _check_workers(seen["workers"])
        if seen["queued"] is not None:
            yield from _check_waiting(seen["queued"], seen["workers"], seen.get("whose"))
    if seen["queued"] is None:
        yield warning("waiting", "this token can't see runs", _LOOK_AGAIN)
    elif whose := seen.get("whose"):
        yield warning("waiting", f"this token sees {whose}'s runs only: others may wait unseen", _LOOK_AGAIN)
    if seen["shards"] is None:
        yield warning("schedulers", "this token can't see them", _LOOK_AGAIN)
    else:
        yield from check_shards(seen["shards"], owner)


def _check_workers(workers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
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
    for worker in workers:
        if worker["status"] == "silent":
            yield warning("workers", f"{worker['host']}, pid {worker['pid']}, has been silent longer than its lease")


def _check_waiting(
    queued: Sequence[Mapping[str, Any]], workers: Sequence[Mapping[str, Any]], whose: str | None
) -> Iterator[Finding]:
    """Paused pools, unserved pools and unknown tasks of waiting runs."""
    live = [worker for worker in workers if worker["status"] in LIVE]
    paused = sorted({run["pool"] for run in queued if run["paused"]})
    for pool in paused[:_MOST_NAMED]:
        yield warning("waiting", f"pool {pool} is paused, and runs wait in it", f"resume it: rota pool {pool} --resume")
    unserved, unknown, misplaced = set(), set(), set()
    for run in queued:
        # A server shows one namespace and its workers.
        offer = offer_of(live, task=run["task"], pool=run["pool"], namespace=run.get("namespace"))
        if not offer.serving_pool:
            unserved.add((run.get("namespace"), run["pool"]))
        elif not offer.knowing_task:
            unknown.add(run["task"])
        elif not offer.able:
            misplaced.add((run["task"], run["pool"]))
    yield from _tell_unserved(unserved)
    yield from _tell_unknown(unknown, {task for worker in live for task in worker["tasks"]})
    yield from _tell_misplaced(misplaced)
    if not (paused or unserved or unknown or misplaced):
        nothing = f"nothing of {whose}'s waits" if whose else "nothing waits"
        yield ok("waiting", "a worker can run each waiting run" if queued else nothing)


def _tell_unserved(pools: set[tuple[str | None, str]]) -> Iterator[Finding]:
    for namespace, pool in sorted(pools, key=str)[:_MOST_NAMED]:
        where = f" of namespace {namespace}" if namespace else ""
        setting = f"ROTA_NAMESPACES={namespace} " if namespace and namespace != DEFAULT_NAMESPACE else ""
        fix = f"start a worker for it: {setting}rota worker --pools {pool}"
        yield problem("waiting", f"runs wait in pool {pool}{where}, which no live worker serves", fix)


def _tell_unknown(tasks: set[str], known: set[str]) -> Iterator[Finding]:
    for task in sorted(tasks)[:_MOST_NAMED]:
        if task in _OF_NO_APP:
            words = f"{task} jobs wait, and no live worker runs such jobs"
            yield problem("waiting", words, f"start one that does: {_OF_NO_APP[task]}")
            continue
        near = nearest(task, known)
        fix = f"did you mean {near}?" if near else "start a worker that has it: rota worker --app MODULE:APP"
        yield problem("waiting", f"runs wait for task {task}, which no live worker knows", fix)


def _tell_misplaced(runs: set[tuple[str, str]]) -> Iterator[Finding]:
    for task, pool in sorted(runs)[:_MOST_NAMED]:
        command = _OF_NO_APP.get(task, "rota worker --app MODULE:APP")
        words = f"{task} waits in pool {pool}, and no live worker of that pool runs it, though others do"
        yield problem("waiting", words, f"start one there: {command} --pools {pool}")


def check_shards(shards: Sequence[Mapping[str, Any]], owner: str) -> Iterator[Finding]:
    """Whether every shard has a scheduler; `owner` is the name of its field."""
    unowned = [shard["shard"] for shard in shards if shard[owner] is None]
    schedulers = len({shard[owner] for shard in shards if shard[owner] is not None})
    if not schedulers:
        yield problem("schedulers", "none is running: no job becomes due", "start one: rota scheduler, or rota up")
    elif unowned:
        count = f"{len(unowned)} of {len(shards)} shards have"
        yield warning(
            "schedulers", f"{count} no scheduler just now", "check again in a moment, or start one: rota scheduler"
        )
    else:
        who = "1 scheduler owns" if schedulers == 1 else f"{schedulers} schedulers own"
        yield ok("schedulers", f"{who} all {len(shards)} shards")
