"""How the dependencies of runs stand: the jobs and runs that they depend on, judged (domain/dependencies.py).

Who tells a run that waits. The job that it waits for has a mark in its policies and in those of its runs, so the end of
each leaves a note (departures), and admission looks at the gate of that run. Both take the lock of the other job's
gates: a run that is being held there because the other one had not ended is seen by whoever takes the note. What
leaves no note (another calendar, a pause, a run that was claimed before it was marked, a statement of an older release)
is found by the complete look (store/admit/overlooked.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from rota.domain.dependencies import (
    NeededRun,
    NeededSchedule,
    NeedState,
    judge_all,
    judge_one_shot,
    judge_schedule,
    time_needed,
)
from rota.domain.gates import Candidate, Gate, dependency_gate
from rota.domain.ids import fire_id
from rota.domain.job import show_job_of
from rota.service import in_turns
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database, Statements
from rota.store.read.timetables import timetable_of

_Job = tuple[str, UUID]  # with its namespace
_Run = tuple[str, UUID, UUID]  # namespace, job, run


class _Need(NamedTuple):
    """One dependency of a candidate. `moment`: the time of the other schedule; None: it has none, or runs once."""

    shown: str
    job_id: UUID
    moment: datetime | None
    run: _Run | None


class NeededJob(NamedTuple):
    """A job that others may depend on. `schedule`: of a recurring job, or why that can't be read."""

    shown: str
    owner: str
    state: str
    schedule: NeededSchedule | Exception | None = None


class NeededJobs:
    """Looks up jobs that others may depend on."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def may_be_added(self) -> bool:
        """Whether our database role can make jobs that depend on others."""
        return bool(await self._database.fetch_value("may_depend"))

    async def schedules(self, namespace: str, job_ids: Iterable[UUID]) -> dict[UUID, NeededJob]:
        """Those that are schedules."""
        rows = await _read_jobs(self._database, [(namespace, job_id) for job_id in job_ids])
        return {
            row["id"]: NeededJob(show_job_of(row["id"], row["options"]), row["owner"], row["state"], _schedule(row))
            for row in rows
        }

    async def one_shots(self, namespace: str, job_ids: Iterable[UUID]) -> dict[UUID, NeededJob]:
        """Those that run once."""
        rows = await _read_run_rows(self._database, [(namespace, job_id, job_id) for job_id in job_ids])
        return {
            row["job_id"]: NeededJob(show_job_of(row["job_id"], row["options"]), row["owner"], row["status"])
            for row in rows
        }

    async def waited_for(self, candidate: Candidate) -> NeedState:
        """The dependency that a run at its gate waits for."""
        found = (await read_needs(self._database, [candidate]))[candidate.id]
        if isinstance(found, Exception):
            raise found
        return found[0]


Needs = dict[UUID, tuple[NeedState, Gate | None] | Exception]


async def read_needs(statements: Statements | Database, candidates: Iterable[Candidate]) -> Needs:
    """Of each candidate that depends on others: the dependency that decides, and the gate at which to wait for it.

    What can't be computed is the candidate's alone: the exception is its answer, and the others have theirs.
    """
    dependents = [candidate for candidate in candidates if candidate.depends]
    if not dependents:
        return {}
    rows = await _read_jobs(statements, _needed_jobs(dependents))
    jobs = {(row["namespace"], row["id"]): _schedule(row) for row in rows}
    found: Needs = {}
    wanted: dict[UUID, list[_Need]] = {}
    async for candidate in in_turns(dependents):
        try:
            needed = candidate.policies.after.items()
            wanted[candidate.id] = [_need(candidate, key, shown, jobs) for key, shown in needed]
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
            found[candidate.id] = error
    runs = await _read_runs(statements, [need.run for needs in wanted.values() for need in needs if need.run])
    for candidate in dependents:
        if candidate.id in wanted:
            found[candidate.id] = _judge(candidate, wanted[candidate.id], jobs, runs)
    return found


async def read_states(statements: Statements | Database, jobs: Iterable[_Job]) -> dict[_Job, str]:
    """The states of schedules."""
    return {(row["namespace"], row["id"]): row["state"] for row in await _read_jobs(statements, jobs)}


async def read_one_shots(statements: Statements | Database, jobs: Iterable[_Job]) -> dict[_Job, NeededRun]:
    """How jobs that run once stand: their own runs, or the newest retries of these."""
    runs = await _read_runs(statements, [(namespace, job_id, job_id) for namespace, job_id in jobs])
    return {(namespace, job_id): run for (namespace, job_id, _), run in runs.items()}


async def forget_dependents(statements: Statements, decided: Iterable[Candidate]) -> None:
    """Jobs that run once and were let go or skipped depend on none any more."""
    jobs = sorted({(one.namespace, one.job_id) for one in decided if one.depends and one.id == one.job_id})
    if jobs:
        await statements.fetch("forget_dependents", **columns(jobs, "namespaces job_ids"))


def _needed_jobs(dependents: Iterable[Candidate]) -> set[_Job]:
    return {(one.namespace, UUID(hex=key)) for one in dependents if one.id != one.job_id for key in one.policies.after}


def _need(candidate: Candidate, key: str, shown: str, jobs: dict[_Job, NeededSchedule | Exception]) -> _Need:
    job_id = UUID(hex=key)
    if candidate.id == candidate.job_id:
        return _Need(shown, job_id, None, (candidate.namespace, job_id, job_id))
    job = jobs.get((candidate.namespace, job_id))
    if isinstance(job, Exception):
        raise job
    window = candidate.policies.window
    moment = time_needed(job.schedule, candidate.nominal_at, window) if job else None
    # Without a window, the run of that time counts also if the calendar does not have the time any more.
    asked = candidate.nominal_at if window is None else moment
    run = None if asked is None else (candidate.namespace, job_id, fire_id(job_id, asked))
    return _Need(shown, job_id, moment, run)


def _judge(
    candidate: Candidate,
    needs: Sequence[_Need],
    jobs: dict[_Job, NeededSchedule | Exception],
    runs: dict[_Run, NeededRun],
) -> tuple[NeedState, Gate | None]:
    states = []
    for need in needs:
        run = runs.get(need.run) if need.run else None
        if candidate.id == candidate.job_id:
            states.append(judge_one_shot(need.shown, run))
            continue
        job = jobs.get((candidate.namespace, need.job_id))
        assert not isinstance(job, Exception)  # noqa: S101 - such a candidate has its answer already
        moment = need.moment if run is None else need.moment or candidate.nominal_at
        states.append(judge_schedule(need.shown, job, candidate.nominal_at, moment, run))
    found = judge_all(states)
    if found.run_id is None:
        return found, None
    return found, dependency_gate(candidate.namespace, needs[states.index(found)].job_id, found.run_id)


async def _read_jobs(statements: Statements | Database, jobs: Iterable[_Job]) -> list[Any]:
    asked = sorted(set(jobs))
    return await statements.fetch("needed_jobs", **columns(asked, "namespaces job_ids")) if asked else []


def _schedule(row: Any) -> NeededSchedule | Exception:
    """A schedule as it is now, or why it can't be read."""
    try:
        schedule = timetable_of(row).schedule(row["id"])
    except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
        return error
    return NeededSchedule(row["id"], row["state"], schedule, row["fired_through"], row["next_fire_at"])


async def _read_runs(statements: Statements | Database, runs: Iterable[_Run]) -> dict[_Run, NeededRun]:
    rows = await _read_run_rows(statements, runs)
    return {(row["namespace"], row["job_id"], row["asked_for"]): NeededRun(row["id"], row["status"]) for row in rows}


async def _read_run_rows(statements: Statements | Database, runs: Iterable[_Run]) -> list[Any]:
    asked = sorted(set(runs))
    return await statements.fetch("needed_runs", **columns(asked, "namespaces job_ids run_ids")) if asked else []
