"""What workers offer, and why none of them can take a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from rota.domain.application import Application
from rota.domain.job import SHELL_TASK
from rota.domain.text import nearest

LIVE = ("live", "ailing")  # statuses of workers that take runs


# Of what a worker can hold that serves several namespaces, the part that one of them may have.
NAMESPACE_SHARE = 0.8


class WorkerProfile(msgspec.Struct, frozen=True):
    """What a worker offers."""

    host: str
    pid: int
    namespaces: tuple[str, ...]
    pools: tuple[str, ...]
    tasks: tuple[str, ...]
    slots: int
    weights: tuple[int, ...] = ()  # of its pools, in order; empty: all equal
    application: Application | None = None
    weights_of_namespaces: tuple[int, ...] = ()  # in order; empty: all equal

    @property
    def pool_weights(self) -> dict[str, int]:
        return dict(zip(self.pools, self.weights or (1,) * len(self.pools), strict=True))

    @property
    def namespace_weights(self) -> dict[str, int]:
        weights = self.weights_of_namespaces or (1,) * len(self.namespaces)
        return dict(zip(self.namespaces, weights, strict=True))


class FleetOffer(NamedTuple):
    """How many live workers there are: in all, by what they serve and know, and able to take a run."""

    live: int
    serving_namespace: int
    serving_pool: int
    knowing_task: int
    able: int


def offer_of(workers: Iterable[Mapping[str, Any]], *, task: str, pool: str, namespace: str | None = None) -> FleetOffer:
    """What these live workers offer to a run; without a namespace, all count as serving it."""
    live = list(workers)
    serving = [worker for worker in live if namespace is None or namespace in worker["namespaces"]]
    in_pool = [worker for worker in serving if pool in worker["pools"]]
    knowing = [worker for worker in serving if task in worker["tasks"]]
    able = [worker for worker in in_pool if task in worker["tasks"]]
    return FleetOffer(len(live), len(serving), len(in_pool), len(knowing), len(able))


def explain_misfit(
    offer: FleetOffer, *, task: str, pool: str, namespace: str | None = None, hint: str = ""
) -> str | None:
    """Why no live worker can take the run; None if one can. `hint` is added for an unknown task."""
    if offer.live and not offer.serving_namespace:
        return f"no live worker serves namespace {namespace}"
    if not offer.knowing_task:
        return f"no live worker knows task {task}{hint}"
    if not offer.serving_pool:
        return f"no live worker serves pool {pool}"
    return None if offer.able else f"no live worker both serves pool {pool} and knows task {task}"


def hint_for_task(task: str, known: Iterable[str]) -> str:
    """A suggestion for a task that no worker knows; may be empty."""
    if task == SHELL_TASK:
        return " (ROTA_ALLOW_SHELL=on lets a worker run shell jobs)"
    near = nearest(task, known)
    return f"; did you mean {near}?" if near else ""
