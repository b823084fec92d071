"""What rules of alerts find: for which pools, jobs and processes their conditions hold, in words.

Each kind of rule is a function from a rule and what was measured to its findings. Measurements are of all namespaces,
and kept for a round: rules that ask the same ask once.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rota.domain.alerts import BURN_RATES, INSTALLATION, AlertFinding, AlertRule, Measured
from rota.domain.ids import floor_id
from rota.domain.job import show_job_of
from rota.domain.lag_histogram import step_of
from rota.domain.policies import show_key
from rota.store.alert.measures import MOST_READ, AlertMeasures

_HISTORY = timedelta(days=90)
_GIB = 1024**3
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class AlertFindings:
    """Finds for the rules of one round."""

    def __init__(self, measures: AlertMeasures, home: Path | None) -> None:
        self._measures = measures
        self._home = home
        self._kept: dict[tuple[Any, ...], Any] = {}

    async def of(self, rule: AlertRule) -> Measured:
        """Everything that the rule finds, in all namespaces."""
        found: Measured = await getattr(self, f"_{rule.kind}")(rule)
        return found

    async def _measure(self, ask: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        key = (ask.__name__, *arguments)
        if key not in self._kept:
            self._kept[key] = await ask(*arguments)
        return self._kept[key]

    async def _roll_up(self) -> None:
        await self._measure(self._measures.roll_up)

    async def _start_lag(self, rule: AlertRule) -> Measured:
        await self._roll_up()
        windows = tuple(sorted({seconds for _, *some in BURN_RATES for seconds in some}))
        # Steps are powers of two: the first late one is the first that begins at the threshold or above.
        first_late = step_of(rule.threshold) + 2
        rows = await self._measure(self._measures.late_starts, first_late, windows, rule.settings.pool)
        pools: dict[tuple[str, str], dict[float, tuple[int, int]]] = {}
        for row in rows:
            pools.setdefault((row["namespace"], row["pool"]), {})[row["seconds"]] = row["started"], row["late"]
        return Measured([each for place, counts in pools.items() for each in _burn(rule, place, counts)])

    async def _success_rate(self, rule: AlertRule) -> Measured:
        await self._roll_up()
        given = rule.settings
        rows = await self._measure(
            self._measures.poor_ends, rule.window, given.minimum, rule.threshold, rule.settings.pool
        )
        return Measured([_poor_ends(rule, row) for row in rows])

    async def _dead_letters(self, rule: AlertRule) -> Measured:
        given = rule.settings
        rows = await self._measure(self._measures.buried, rule.window, rule.threshold, given.task, given.job_id)
        what = f" of task {given.task}" if given.task else f" of job {given.job}" if given.job else ""
        return Measured(
            [
                AlertFinding(
                    namespace=row["namespace"],
                    key="dead-letters",
                    subject=f"dead letters{what}",
                    value=row["buried"],
                    threshold=rule.threshold,
                    title=f"{row['buried']} runs{what} were buried within {show_span(rule.window.total_seconds())}",
                    act="rota dead-letters",
                )
                for row in rows
            ]
        )

    async def _oldest_queued(self, rule: AlertRule) -> Measured:
        oldest: dict[tuple[str, str], float] = {}
        for row in await self._queued(rule):
            place = row["namespace"], row["pool"]
            oldest[place] = max(oldest.get(place, 0.0), row["seconds"])
        return Measured(
            [
                AlertFinding(
                    namespace=namespace,
                    key=f"pool:{pool}",
                    subject=f"pool {pool}",
                    value=round(seconds, 1),
                    threshold=rule.threshold,
                    title=f"A run in pool {pool} has waited {show_span(seconds)} for a worker",
                    act="rota runs --status queued",
                )
                for (namespace, pool), seconds in oldest.items()
            ]
        )

    async def _no_worker(self, rule: AlertRule) -> Measured:
        found: dict[tuple[str, str], AlertFinding] = {}
        for row in await self._queued(rule):
            if not row["able"]:
                finding = _unserved(rule, row)
                found.setdefault((finding.namespace, finding.key), finding)
        return Measured(list(found.values()))

    async def _queued(self, rule: AlertRule) -> list[Any]:
        waited = timedelta(seconds=rule.threshold)
        rows: list[Any] = await self._measure(self._measures.queued, waited, rule.settings.pool, rule.settings.task)
        return rows

    async def _schedule_overdue(self, rule: AlertRule) -> Measured:
        given, grace = rule.settings, timedelta(seconds=rule.threshold)
        rows = await self._measure(self._measures.overdue, grace, rule.window, given.pool, given.task, given.job_id)
        return Measured([_overdue(rule, row) for row in rows], not any(row["is_more"] for row in rows))

    async def _job_failures(self, rule: AlertRule) -> Measured:
        given, times = rule.settings, int(rule.threshold)
        rows = await self._measure(self._measures.failing_jobs, rule.window, given.task, given.job_id)
        if not rows:
            return Measured([])
        jobs = [(row["namespace"], row["job_id"]) for row in rows]
        first = floor_id(datetime.now(UTC) - _HISTORY)
        failed = await self._measures.failed_in_a_row(jobs, times, first)
        return Measured([_failing(rule, row) for row in rows if (row["namespace"], row["job_id"]) in failed])

    async def _breaker_open(self, rule: AlertRule) -> Measured:
        rows = await self._measure(self._measures.breakers)
        return Measured(
            [
                AlertFinding(
                    namespace=row["namespace"],
                    key=f"breaker:{row['key']}",
                    subject=f"breaker of {show_key(row['key'])}",
                    value=row["failures"] or 0,
                    threshold=rule.threshold,
                    title=f"The breaker of {show_key(row['key'])} is open",
                    act="rota events",
                )
                for row in rows
            ],
            len(rows) < MOST_READ,
        )

    async def _worker_lost(self, rule: AlertRule) -> Measured:
        rows = [
            row
            for row in await self._measure(self._measures.lost)
            if row["kind"] == "worker"
            and row["seconds"] < rule.window.total_seconds()
            and rule.settings.pool in (None, *row["pools"])
            and rule.namespace in (INSTALLATION, *row["namespaces"])
        ]
        if len(rows) < rule.threshold:
            return Measured([])
        return Measured(
            [
                AlertFinding(
                    namespace=_tenant_of(rule, row["namespaces"]),
                    key=f"worker:{row['id']}",
                    subject=f"worker {row['host']}, pid {row['pid']}",
                    value=len(rows),
                    threshold=rule.threshold,
                    title=f"Worker {row['id']} on {row['host']}, pid {row['pid']}, is lost",
                    act="rota workers",
                )
                for row in rows
            ]
        )

    async def _scheduler_lost(self, rule: AlertRule) -> Measured:
        return Measured(
            [
                AlertFinding(
                    namespace=INSTALLATION,
                    key=f"scheduler:{row['id']}",
                    subject=f"scheduler {row['host']}, pid {row['pid']}",
                    value=round(row["seconds"], 1),
                    threshold=rule.threshold,
                    title=f"The scheduler on {row['host']}, pid {row['pid']}, is lost",
                    act="rota doctor",
                )
                for row in await self._measure(self._measures.lost)
                if row["kind"] == "scheduler" and rule.threshold < row["seconds"] < rule.window.total_seconds()
            ]
        )

    async def _disk(self, rule: AlertRule) -> Measured:
        found: list[AlertFinding] = []
        if self._home is not None and self._home.exists():
            usage = shutil.disk_usage(self._home)
            share = usage.free / usage.total
            if share < rule.threshold:
                title = f"{share:.1%} of the disk with {self._home} is free: {usage.free / _GIB:.1f} GiB"
                where = f"disk of {self._home}"
                found.append(
                    AlertFinding(INSTALLATION, "disk", where, round(share, 4), rule.threshold, title, "rota doctor")
                )
        most = rule.settings.database_bytes
        if most is not None:
            size = await self._measure(self._measures.database_bytes)
            if size > most:
                title = f"The database has {size / _GIB:.1f} GiB"
                found.append(AlertFinding(INSTALLATION, "database", "database", size, most, title, "rota doctor"))
        return Measured(found)

    async def _clock_skew(self, rule: AlertRule) -> Measured:
        return Measured(
            [
                AlertFinding(
                    namespace=INSTALLATION,
                    key=f"{row['kind']}:{row['id']}",
                    subject=f"{row['kind']} {row['host']}, pid {row['pid']}",
                    value=round(row["clock_skew"], 3),
                    threshold=rule.threshold,
                    title=f"The clock of {row['host']} is {abs(row['clock_skew']):.1f} s "
                    f"{'ahead of' if row['clock_skew'] > 0 else 'behind'} the database's",
                    act=f"timedatectl  # on {row['host']}",
                )
                for row in await self._measure(self._measures.skewed, rule.threshold)
            ]
        )


def _burn(rule: AlertRule, place: tuple[str, str], counts: dict[float, tuple[int, int]]) -> Iterable[AlertFinding]:
    """How fast a pool uses up its budget of late starts, if that is too fast over a long and a short window."""
    budget = 1 - rule.settings.objective
    namespace, pool = place
    for most, long, short in BURN_RATES:
        if counts[long][0] < rule.settings.minimum or not counts[short][0]:
            continue
        rate = min(late / started / budget for started, late in (counts[long], counts[short]))
        if rate >= most:
            late, started = counts[long][1], counts[long][0]
            words = f"{late} of {started} runs in pool {pool} started more than {show_span(rule.threshold)} late"
            title = f"{words} within {show_span(long)}"
            yield AlertFinding(namespace, f"pool:{pool}", f"pool {pool}", round(rate, 2), most, title, "rota top")
            return


def _poor_ends(rule: AlertRule, row: Any) -> AlertFinding:
    ended = row["succeeded"] + row["failed"]
    share = row["succeeded"] / ended
    return AlertFinding(
        namespace=row["namespace"],
        key=f"pool:{row['pool']}",
        subject=f"pool {row['pool']}",
        value=round(share, 4),
        threshold=rule.threshold,
        title=f"{share:.1%} of {ended} runs in pool {row['pool']} succeeded within "
        f"{show_span(rule.window.total_seconds())}",
        act="rota runs --status failed",
    )


def _unserved(rule: AlertRule, row: Any) -> AlertFinding:
    pool, task = row["pool"], row["task"]
    if row["serving_pool"]:
        key, title = f"task:{pool}/{task}", f"No worker of pool {pool} knows task {task}"
    else:
        key, title = f"pool:{pool}", f"Pool {pool} has no workers"
    return AlertFinding(
        namespace=row["namespace"],
        key=key,
        subject=f"pool {pool}" if key.startswith("pool:") else f"task {task}",
        value=round(row["seconds"], 1),
        threshold=rule.threshold,
        title=title,
        act=f"ROTA_NAMESPACES={row['namespace']} rota worker --pools {pool}",
    )


def _overdue(rule: AlertRule, row: Any) -> AlertFinding:
    late = show_span(row["seconds"])
    words = {
        "unfired": f"Schedule {row['name']} is overdue by {late}",
        "waiting": f"The run of schedule {row['name']} has waited {late} and has not started",
        "late": f"Schedule {row['name']} fired {late} late",
    }
    return AlertFinding(
        namespace=row["namespace"],
        key=f"job:{row['job_id'].hex}",
        subject=row["name"],
        value=round(row["seconds"], 1),
        threshold=rule.threshold,
        title=words[row["how"]],
        act=f"rota job {show_job_of(row['job_id'], row['options'])}",
        job_id=row["job_id"],
        owner=row["owner"],
    )


def _failing(rule: AlertRule, row: Any) -> AlertFinding:
    times = int(rule.threshold)
    return AlertFinding(
        namespace=row["namespace"],
        key=f"job:{row['job_id'].hex}",
        subject=row["name"],
        value=times,
        threshold=rule.threshold,
        title=f"Job {row['name']} failed {times} times in a row" if times > 1 else f"Job {row['name']} failed",
        act=f"rota runs --job {show_job_of(row['job_id'], row['options'])}",
        job_id=row["job_id"],
        owner=row["owner"],
    )


def _tenant_of(rule: AlertRule, namespaces: list[str]) -> str:
    """Whose a worker is: the rule's, its only one, or the installation's if it serves several."""
    if rule.namespace != INSTALLATION:
        return rule.namespace
    return namespaces[0] if len(namespaces) == 1 else INSTALLATION


def show_span(seconds: float) -> str:
    """A duration in one or two units."""
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    whole = int(seconds)
    for unit, name, smaller, smaller_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name} {rest} {smaller_name}" if rest else f"{whole // unit} {name}"
    raise AssertionError("unreachable")
