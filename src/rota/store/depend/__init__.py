"""Dependencies between jobs: adding them, and who depends on a job.

Locks are taken in one order: the keys of a submission, which another program may hold for long; the lock of the
namespace's dependencies; the rows of schedules in the order of their ids; their runs. So the check for cycles sees
every dependency that was added before; a cancel of a schedule that others begin to depend on comes wholly before, and
is seen, or wholly after, and is refused; no two transactions wait for each other in a circle; and no schedule is kept
from firing while a submission waits for a key.

The other one may end while a dependency on it is added. Nothing depends on the order of the two: the run that waits is
looked at after it was committed, and sees the end if there is one by then. If there is none, the other's runs have
their mark by then, so that their end leaves a note.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from rota.domain.job import Recurring, SingleJob, Submission, show_job_of
from rota.errors import BadInputError, ConflictError, RotaError
from rota.store.depend.needs import read_one_shots, read_states
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Statements

_NAMED = 5
# A run that is being claimed can be marked a moment later. One that is held for longer must not keep us here.
_TRIES, _PAUSE_SECONDS = 4, 0.005
FIELD = "dependencies"
_Job = tuple[str, UUID]  # with its namespace


class NewDependencies:
    """The dependencies of jobs that are submitted."""

    def __init__(self, items: Sequence[Submission]) -> None:
        self._items: list[SingleJob] = [item for item in items if item.needs]  # type: ignore[misc]
        self.refused: dict[UUID, RotaError] = {}

    async def look(self, statements: Statements) -> set[UUID]:
        """Looks at what the items depend on; returns those that can't, because it is gone or has ended."""
        self.refused = {}
        if not self._items:
            return set()
        schedules = [item for item in self._items if isinstance(item, Recurring)]
        others = [item for item in self._items if not isinstance(item, Recurring)]
        self._refuse(schedules, await read_states(statements, _needed(schedules)))
        runs = await read_one_shots(statements, _needed(others))
        self._refuse(others, {job: run.status for job, run in runs.items()})
        return set(self.refused)

    async def add(self, statements: Statements, written: Iterable[Submission]) -> bool:
        """Writes the dependencies of items that were written; False if what they depend on changed since the look."""
        ids = {item.id for item in written}
        items = [item for item in self._items if item.id in ids]
        if not items:
            return True
        await lock_dependencies(statements, {item.namespace for item in items})
        schedules = [item for item in items if isinstance(item, Recurring)]
        self._refuse(schedules, await lock_schedules(statements, _needed(schedules)))
        if ids & self.refused.keys():
            return False
        await add_dependencies(
            statements,
            {(item.namespace, item.id): item.needs for item in schedules},
            {(item.namespace, item.id): item.needs for item in items if not isinstance(item, Recurring)},
        )
        return True

    def _refuse(self, items: Iterable[SingleJob], states: Mapping[_Job, str]) -> None:
        for item in items:
            for need in item.needs:
                if problem := check_state(need, states.get((item.namespace, need))):
                    self.refused.setdefault(item.id, problem)


def check_state(need: UUID, state: str | None) -> BadInputError | None:
    """Why nothing can depend on a job in this state; None: there is no such job."""
    if state is None:
        return BadInputError(f"there is no job {show_job_of(need, None)}", field=FIELD)
    if state in ("cancelled", "completed", "failed", "skipped"):
        return BadInputError(f"{show_job_of(need, None)} is {state}: waiting for it would never end", field=FIELD)
    return None


async def lock_dependencies(statements: Statements, namespaces: Iterable[str]) -> None:
    """Lets no other transaction add dependencies in these namespaces until ours has ended."""
    await statements.fetch("lock_dependencies", namespaces=sorted(namespaces))


async def lock_schedules(statements: Statements, jobs: Iterable[_Job]) -> dict[_Job, str]:
    """Locks the rows of schedules, in the order of ids; returns the state of each that there is."""
    asked = set(jobs)
    if not asked:
        return {}
    rows = await statements.fetch(
        "lock_needed",
        namespaces=sorted({namespace for namespace, _ in asked}),
        job_ids=sorted({job_id for _, job_id in asked}),
    )
    return {(row["namespace"], row["id"]): row["state"] for row in rows}


async def add_dependencies(
    statements: Statements, schedules: Mapping[_Job, Iterable[UUID]], one_shots: Mapping[_Job, Iterable[UUID]]
) -> None:
    """Writes what jobs depend on, and marks that: its ends are noted from now on."""
    rows = [(*job, need, False) for job, needs in schedules.items() for need in needs]
    rows += [(*job, need, True) for job, needs in one_shots.items() for need in needs]
    await statements.fetch("add_dependencies", **columns(rows, "namespaces job_ids needs once"))
    for _ in range(_TRIES):
        passed_over = 0
        if schedules:
            passed_over += await statements.fetch_value("mark_schedules", **_marks(schedules))
        if one_shots:
            passed_over += await statements.fetch_value("mark_one_shots", **_marks(one_shots))
        if passed_over <= 0:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


class ChangedDependencies:
    """What a schedule shall depend on, in the transaction that changes it."""

    def __init__(self, namespace: str, job_id: UUID, needs: Mapping[UUID, str]) -> None:
        """`needs`: with the ids that people know them by."""
        self._namespace = namespace
        self._job_id = job_id
        self._needs = needs

    async def lock(self, statements: Statements) -> None:
        """Locks what it depends on, and itself; raises BadInputError if it can't, also because of a cycle."""
        await lock_dependencies(statements, [self._namespace])
        states = await lock_schedules(statements, [(self._namespace, one) for one in (self._job_id, *self._needs)])
        for need in self._needs:
            if problem := check_state(need, states.get((self._namespace, need))):
                raise problem
        first = await statements.fetch_value(
            "cycle_of", namespace=self._namespace, job_id=self._job_id, needs=list(self._needs)
        )
        if first is not None:
            words = "a job can't depend on itself" if first == self._job_id else "that one depends on this job already"
            raise BadInputError(f"{self._needs[first]} would make a cycle: {words}", field=FIELD)

    async def replace(self, statements: Statements) -> None:
        """Writes the dependencies in place of those before."""
        job = (self._namespace, self._job_id)
        await forget(statements, *job)
        if self._needs:
            await add_dependencies(statements, {job: self._needs}, {})


async def forget(statements: Statements, namespace: str, job_id: UUID) -> None:
    """The job depends on none any more."""
    await statements.fetch("forget_dependents", namespaces=[namespace], job_ids=[job_id])


async def refuse_while_needed(statements: Statements, namespace: str, job_id: UUID) -> None:
    """Raises ConflictError if other jobs depend on this one."""
    rows: list[Any] = await statements.fetch("dependents_of", namespace=namespace, job_id=job_id, limit=_NAMED + 1)
    if not rows:
        return
    names = ", ".join(show_job_of(row["job_id"], row["options"]) for row in rows[:_NAMED])
    more = ", …" if len(rows) > _NAMED else ""
    raise ConflictError(
        f"other jobs depend on it: {names}{more}; change them first, or cancel it with force=true: then their runs that"
        " wait for it are skipped"
    )


def _needed(items: Iterable[SingleJob]) -> set[_Job]:
    return {(item.namespace, need) for item in items for need in item.needs}


def _marks(jobs: Mapping[_Job, Iterable[UUID]]) -> dict[str, Any]:
    """What these jobs depend on, in the order of ids."""
    needed = {(namespace, need) for (namespace, _), needs in jobs.items() for need in needs}
    return columns(sorted(needed, key=lambda job: job[1]), "namespaces job_ids")
