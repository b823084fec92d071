"""What is said to somebody who submits what no worker knows: it is accepted all the same, and waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.cli.terminal.output import say
from rota.client import AnswerError, Client, ServerUnreachableError
from rota.domain.text import nearest
from rota.settings import DEFAULT_POOL

MOST_NAMED = 5
_GONE = ("gone", "silent", "draining")
_BUILT_IN = ("rota.", "http", "script", "shell")


def warn_of_unknown(client: Client, body: Mapping[str, Any]) -> None:
    """Says on standard error that nobody could run this now, and why; nothing when somebody could, or when the key
    may not look at the fleet."""
    try:
        workers = client.call("GET", "/v1/workers")["items"]
    except (AnswerError, ServerUnreachableError):
        return  # it is submitted: that the fleet can't be seen is no reason to say anything else
    live = [worker for worker in workers if worker["status"] not in _GONE]
    task = body.get("task") or "script"
    if words := words_about(task, body.get("pool") or DEFAULT_POOL, live):
        end = "" if words.endswith("?") else "."
        say(f"warning: {words}{end} The job waits until one does.", "yellow")


def words_about(task: str, pool: str, workers: Sequence[Mapping[str, Any]]) -> str | None:
    """Why none of these workers can run such a job; None: one can."""
    knowing = [worker for worker in workers if task in worker["tasks"]]
    if any(pool in worker["pools"] for worker in knowing):
        return None
    if not workers:
        return f"no worker is live that could run {task} (start one: rota worker --app MODULE:APP)"
    if not knowing:
        return f"no live worker knows task {task}{_hint(task, workers)}"
    pools = sorted({name for worker in knowing for name in worker["pools"]})
    return f"no live worker that knows task {task} serves pool {pool} (they serve {', '.join(pools[:MOST_NAMED])})"


def _hint(task: str, workers: Sequence[Mapping[str, Any]]) -> str:
    known = sorted({name for worker in workers for name in worker["tasks"]})
    if near := nearest(task, known):
        return f"; did you mean {near}?"
    own = [name for name in known if not name.startswith(_BUILT_IN)]
    more = ", …" if len(own) > MOST_NAMED else ""
    return f" (they know {', '.join(own[:MOST_NAMED])}{more})" if own else " (they were started without --app)"
