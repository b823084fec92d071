"""Statistics of a namespace, for dashboards and autoscalers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from rota.api.figures import show_figures
from rota.api.fresh_looks import FreshLooks
from rota.contract.fleet import Counts, Moment, PoolStats, Rates, StartLag, Stats
from rota.domain.figures import PORTION, Totals
from rota.domain.lag_histogram import STEPS, quantile
from rota.store.read.activity import Activity, Tallies
from rota.store.read.fleet import Fleet

FRESH_SECONDS = 1.0
MOST_COUNTED = 100_000
HISTORY = timedelta(minutes=10)
_ENDS = ("started", "succeeded", "failed", "retried")


class Statistics:
    """Reads statistics, and keeps each result for a second."""

    def __init__(self, tallies: Tallies, fleet: Fleet, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._tallies = tallies
        self._fleet = fleet
        self._looks = FreshLooks(self._look, seconds=FRESH_SECONDS, monotonic=monotonic)

    async def of(self, namespace: str, window_seconds: float) -> Stats:
        """Statistics of a namespace; rates and lags over the given window."""
        return await self._looks.of((namespace, window_seconds))

    async def _look(self, question: tuple[str, float]) -> Stats:
        namespace, window_seconds = question
        window = timedelta(seconds=window_seconds)
        activity = await self._tallies.look(namespace, window=window, history=HISTORY, most=MOST_COUNTED)
        pools = await self._fleet.pools(namespace)
        fleet = await self._fleet.workers(namespace)
        since, seconds = _span(activity.moment, window)
        recent = [row for row in activity.tallies if row["at"] >= since]
        return Stats(
            time=activity.moment,
            window_seconds=window_seconds,
            counted_up_to=MOST_COUNTED,
            counts=(counts := _counts(activity)),
            at_least=_at_least(counts),
            workers=dict(Counter(row["status"] for row in fleet if row["status"] != "gone")),
            oldest_queued_seconds=max((age for row in activity.live if (age := _age(activity, row))), default=None),
            per_second=_rates(recent, seconds),
            retry_rate=_retry_rate(recent),
            start_lag=_lag(activity.lags.values()),
            pools=_pool_stats(activity, pools, fleet, recent, seconds),
            history=_history(activity.tallies),
            figures=show_figures(
                _totals(recent, activity.lags.values(), activity.live, fleet), dead_letters=counts.dead_letters
            ),
        )


def _span(moment: datetime, window: timedelta) -> tuple[datetime, float]:
    """When the first whole portion of the window begins, and the seconds since then."""
    since = moment - window
    into = timedelta(seconds=since.timestamp() % PORTION.total_seconds())
    first = since - into + PORTION if into else since
    return first, max((moment - first).total_seconds(), 1.0)


def _rates(rows: Sequence[Any], seconds: float) -> Rates:
    return Rates(**{name: round(sum(row[name] for row in rows) / seconds, 3) for name in _ENDS})


def _retry_rate(rows: Sequence[Any]) -> float | None:
    """The share of ended attempts that will be retried."""
    return _totals(rows).retry_rate


def _totals(
    rows: Sequence[Any],
    lags: Iterable[Sequence[int]] = (),
    live: Iterable[Any] = (),
    workers: Iterable[Any] = (),
) -> Totals:
    """What went on of late, and what is there now."""
    there = [worker for worker in workers if worker["gone_at"] is None]
    return Totals(
        **{name: sum(row[name] for row in rows) for name in _ENDS},
        lags=_sum_steps(lags),
        queued=sum(row["queued"] for row in live),
        slots=sum(worker["slots"] for worker in there),
        busy=sum(worker["busy"] for worker in there),
    )


def _sum_steps(of_pools: Iterable[Sequence[int]]) -> list[int]:
    return [sum(step) for step in zip(*of_pools, strict=True)] or [0] * STEPS


def _counts(activity: Activity) -> Counts:
    return Counts(
        **{name: activity.counts[name] for name in ("scheduled", "retrying", "blocked", "dead_letters")},
        **{name: sum(row[name] for row in activity.live) for name in ("queued", "running")},
    )


def _at_least(counts: Counts) -> list[str]:
    """The names of counts that stopped at the limit. Queued and running are counted together."""
    reached = {name for name in ("scheduled", "retrying", "blocked") if getattr(counts, name) >= MOST_COUNTED}
    if counts.queued + counts.running >= MOST_COUNTED:
        reached |= {"queued", "running"}
    if counts.dead_letters >= MOST_COUNTED:
        reached.add("deadLetters")
    return sorted(reached)


def _age(activity: Activity, row: Any) -> float | None:
    oldest = None if row is None else row["oldest_at"]
    return None if oldest is None else max(0.0, (activity.moment - oldest).total_seconds())


def _lag(of_pools: Iterable[Sequence[int]]) -> StartLag:
    counts = _sum_steps(of_pools)
    p50, p90, p99 = (quantile(counts, share) for share in (0.5, 0.9, 0.99))
    return StartLag(p50=p50, p90=p90, p99=p99, samples=sum(counts))


def _pool_stats(
    activity: Activity, pools: Sequence[Any], fleet: Sequence[Any], recent: Sequence[Any], seconds: float
) -> list[PoolStats]:
    """Pools that have workers, settings, or recent runs."""
    known = {row["pool"]: row for row in pools}
    live = {row["pool"]: row for row in activity.live}
    names = sorted({*known, *live, *(row["pool"] for row in recent)})
    return [
        PoolStats(
            pool=name,
            paused=bool(name in known and known[name]["paused_at"]),
            workers=known[name]["workers"] if name in known else 0,
            slots=known[name]["slots"] if name in known else 0,
            queued=live[name]["queued"] if name in live else 0,
            running=live[name]["running"] if name in live else 0,
            oldest_queued_seconds=_age(activity, live.get(name)),
            per_second=_rates([row for row in recent if row["pool"] == name], seconds),
            start_lag=_lag([activity.lags[name]] if name in activity.lags else []),
            figures=show_figures(
                _totals(
                    [row for row in recent if row["pool"] == name],
                    [activity.lags[name]] if name in activity.lags else [],
                    [live[name]] if name in live else [],
                    [worker for worker in fleet if name in worker["pools"]],
                ),
                dead_letters=None,
            ),
        )
        for name in names
    ]


def _history(rows: Sequence[Any]) -> list[Moment]:
    by_time: dict[datetime, list[Any]] = {}
    for row in rows:
        by_time.setdefault(row["at"], []).append(row)
    return [Moment(time=at, **{name: sum(row[name] for row in some) for name in _ENDS}) for at, some in by_time.items()]
