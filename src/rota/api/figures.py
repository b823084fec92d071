"""Figures as answers: their history, and those of single tasks and jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from rota.api.fresh_looks import FreshLooks
from rota.contract.figures import FigureHistory, Figures, HistoryPoint, HistoryRange, Quantiles, RecentRun, RunFigures
from rota.domain.figures import HOUR, MINUTE, PORTION, Totals, added, share_of
from rota.domain.ids import show_run
from rota.domain.lag_histogram import exact_quantile, quantile
from rota.store.measure import MINUTES_KEPT, FigureReader, Point

RANGES: dict[HistoryRange, tuple[timedelta, timedelta]] = {
    "10m": (timedelta(minutes=10), PORTION),
    "1h": (timedelta(hours=1), MINUTE),
    "24h": (timedelta(hours=24), MINUTE),
    "7d": (timedelta(days=7), HOUR),
    "30d": (timedelta(days=30), HOUR),
}
LATEST_RUNS = 100
_FRESH_SECONDS = 5.0
_SHARES = (0.5, 0.95, 0.99)


class HistoryQuestion(NamedTuple):
    """Of what, and how far back; pool and task are not both given."""

    namespace: str
    range: HistoryRange
    pool: str | None = None
    task: str | None = None


class FigureHistories:
    """Reads figures over time, and keeps each answer for some seconds."""

    def __init__(self, reader: FigureReader, *, now: Callable[[], datetime]) -> None:
        self._reader = reader
        self._now = now
        self._looks = FreshLooks(self._look, seconds=_FRESH_SECONDS)

    async def of(self, question: HistoryQuestion) -> FigureHistory:
        return await self._looks.of(question)

    async def _look(self, question: HistoryQuestion) -> FigureHistory:
        back, step = RANGES[question.range]
        if question.task is not None:
            step = max(step, MINUTE)  # workers tell of tasks no more often
        now = self._now()
        return FigureHistory(
            time=now,
            range=question.range,
            step_seconds=round(step.total_seconds()),
            pool=question.pool,
            task=question.task,
            points=[show_point(point, question) for point in await self._points(question, now - back, step, now)],
        )

    async def _points(self, question: HistoryQuestion, since: datetime, step: timedelta, now: datetime) -> list[Point]:
        if step == PORTION:
            return await self._reader.portions(question.namespace, question.pool, since)
        kind = "pool" if question.pool is not None else "task" if question.task is not None else "namespace"
        subject = (question.namespace, kind, question.pool or question.task or "")
        points = await self._reader.figures(*subject, step, since)
        if step == HOUR:
            # The hour that is not over yet.
            rest = points[-1].at + HOUR if points else max(since, now - MINUTES_KEPT)
            points += _by_hour(await self._reader.figures(*subject, MINUTE, rest))
        return points


def _by_hour(minutes: Sequence[Point]) -> list[Point]:
    hours: dict[datetime, list[Totals]] = {}
    for point in minutes:
        hours.setdefault(point.at.astimezone(UTC).replace(minute=0, second=0, microsecond=0), []).append(point.totals)
    return [Point(at, added(some)) for at, some in hours.items()]


def show_point(point: Point, question: HistoryQuestion) -> HistoryPoint:
    """A point; what pools and tasks don't have is null."""
    totals = point.totals
    ended = totals.succeeded + totals.failed + totals.retried
    is_task = question.task is not None
    of_all = question.pool is None and not is_task
    return HistoryPoint(
        time=point.at,
        started=totals.started,
        succeeded=totals.succeeded,
        failed=totals.failed,
        retried=totals.retried,
        success_rate=totals.success_rate,
        start_lag=show_quantiles(totals.lags),
        queue_depth=None if is_task else totals.per_look(totals.queued),
        worker_utilisation=totals.utilisation,
        retry_rate=totals.retry_rate,
        dead_letters=totals.per_look(totals.dead_letters) if of_all else None,
        run_seconds=show_quantiles(totals.durations),
        mean_run_seconds=round(totals.run_seconds / ended, 6) if ended else None,
        most_queued=None if is_task or not totals.looks else totals.most_queued,
        running=None if is_task else totals.per_look(totals.running),
        slots=totals.per_look(totals.slots) if totals.slots else None,
        blocked={gate: totals.per_look(runs) or 0.0 for gate, runs in sorted(totals.blocked.items())},
    )


def show_figures(totals: Totals, *, dead_letters: int | None) -> Figures:
    """The six of one moment: of the last minutes, and what there is now (one look)."""
    return Figures(
        success_rate=totals.success_rate,
        start_lag=show_quantiles(totals.lags),
        queue_depth=totals.queued,
        worker_utilisation=totals.utilisation,
        retry_rate=totals.retry_rate,
        dead_letters=dead_letters,
    )


def show_quantiles(counts: Sequence[int]) -> Quantiles:
    p50, p95, p99 = (quantile(counts, share) for share in _SHARES)
    return Quantiles(p50=p50, p95=p95, p99=p99, samples=sum(counts))


def show_run_figures(rows: Sequence[Any]) -> RunFigures:
    """Numbers of runs that have ended, from their rows."""
    runs = [_show_run(row) for row in rows]
    took = sorted(run.seconds for run in runs if run.seconds is not None)
    p50, p95, p99 = (exact_quantile(took, share) for share in _SHARES)
    statuses = Counter(run.status for run in runs)
    attempts = sum(run.attempts for run in runs)
    tried = sum(run.attempts > 0 for run in runs)
    return RunFigures(
        success_rate=share_of(statuses["success"], statuses["success"] + statuses["failed"]),
        retry_rate=share_of(attempts - tried, attempts),
        run_seconds=Quantiles(p50=p50, p95=p95, p99=p99, samples=len(took)),
        mean_run_seconds=round(sum(took) / len(took), 6) if took else None,
        statuses=dict(statuses),
        runs=runs,
    )


def _show_run(row: Any) -> RecentRun:
    started, finished = row["started_at"], row["finished_at"]
    return RecentRun(
        run_id=show_run(row["id"]),
        status=row["status"],
        start_time=started,
        seconds=None if started is None else max(0.0, (finished - started).total_seconds()),
        attempts=row["attempt"],
    )
