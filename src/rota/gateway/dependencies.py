"""Dependencies between the API's fields and what travels with a run: which jobs are meant, and whether it can wait for
them. What is found here is looked at again, under locks, when it is written (store/depend)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from rota.contract.jobs import JobIn, JobPatch, Submitted
from rota.domain.dependencies import NeededSchedule, show_moment, unmeetable
from rota.domain.ids import find_job_id
from rota.domain.job import OneShot, Recurring, SingleJob, Timetable
from rota.domain.policies import decode_policies
from rota.domain.rights import Caller
from rota.errors import BadInputError
from rota.gateway.policy_fields import with_dependencies
from rota.service import Breather
from rota.store.depend.needs import NeededJob, NeededJobs
from rota.store.read.jobs import Jobs
from rota.store.read.runs import RunFilter

_FIELD = "dependencies"
_WINDOW = "dependencyWindowSeconds"
_TWO = 2


class PatchedNeeds(NamedTuple):
    """What a schedule depends on after a change, and with which window. `changed`: whether it depends on others now."""

    jobs: Mapping[UUID, NeededJob]
    window: float | None
    changed: bool

    @property
    def shown(self) -> dict[UUID, str]:
        return {job_id: job.shown for job_id, job in self.jobs.items()}

    def policies(self, policies: str | None) -> str | None:
        """Policies with these dependencies; if they did not change, with those that they have."""
        kept = {UUID(hex=key): shown for key, shown in decode_policies(policies).after.items()}
        return with_dependencies(policies, self.shown if self.changed else kept, self.window)


class Dependencies:
    """Finds the jobs that others depend on."""

    def __init__(self, jobs: Jobs, needed: NeededJobs, now: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._needed = needed
        self._now = now

    async def attach(self, item: SingleJob, answer: Submitted, wanted: JobIn, caller: Caller) -> SingleJob:
        """The job with its dependencies; the answer says that it waits. Raises BadInputError naming the field."""
        if not await self._needed.may_be_added():
            words = "this database role, of a worker, can't make jobs that depend on others: submit them over the API"
            raise BadInputError(words, field=_FIELD)
        window = wanted.dependency_window_seconds
        found = await self._find(wanted.dependencies or (), caller, once=isinstance(item, OneShot))
        if isinstance(item, Recurring):
            await _check_times(item.timetable, item.id, found, window, self._now())
        shown = {job_id: job.shown for job_id, job in found.items()}
        definition = msgspec.structs.replace(
            item.definition, policies=with_dependencies(item.definition.policies, shown, window)
        )
        if answer.status == "queued":
            answer.status = "blocked"
        return msgspec.structs.replace(item, definition=definition, needs=tuple(found))

    async def patched(self, policies: str | None, patch: JobPatch, caller: Caller) -> PatchedNeeds | None:
        """What a schedule with these policies depends on after a change; None: it depends on none, and did not before.
        Raises BadInputError naming the field."""
        before = decode_policies(policies)
        changed = patch.dependencies is not UNSET
        if changed:
            jobs = await self._find(patch.dependencies or (), caller, once=False)
        else:
            known = {UUID(hex=key): shown for key, shown in before.after.items()}
            found = await self._needed.schedules(caller.namespace, known)
            jobs = {job_id: found[job_id]._replace(shown=shown) for job_id, shown in known.items() if job_id in found}
        window = before.window if patch.dependency_window_seconds is UNSET else patch.dependency_window_seconds
        if not jobs and patch.dependency_window_seconds not in (UNSET, None):
            raise BadInputError("needs dependencies", field=_WINDOW)
        return PatchedNeeds(jobs, window, changed) if jobs or changed else None

    def check_patched(self, needs: PatchedNeeds, timetable: Timetable, job_id: UUID) -> None:
        """Raises BadInputError if a changed schedule could never wait for what it depends on."""
        for job in needs.jobs.values():
            _check_time(timetable, job_id, job, needs.window, self._now())

    async def _find(self, given: Sequence[str], caller: Caller, *, once: bool) -> dict[UUID, NeededJob]:
        """The jobs that are meant, each once."""
        ids = {text: await self._id_of(text, caller) for text in given}
        asked = [job_id for job_id in ids.values() if job_id is not None]
        schedules = await self._needed.schedules(caller.namespace, asked)
        one_shots = await self._needed.one_shots(caller.namespace, [one for one in asked if one not in schedules])
        found: dict[UUID, NeededJob] = {}
        for place, text in enumerate(given):
            job_id = ids[text]
            job = None if job_id is None else schedules.get(job_id) or one_shots.get(job_id)
            field = f"{_FIELD}[{place}]"
            if job is None or job_id is None or caller.only not in (None, job.owner):
                raise BadInputError(f"there is no job {text!r}", field=field)
            if once and job_id in schedules:
                raise BadInputError(f"{text} is a schedule; a job that runs once waits for such jobs", field=field)
            if not once and job_id in one_shots:
                raise BadInputError(f"{text} runs once; a schedule waits for schedules", field=field)
            if job.state in ("cancelled", "completed", "failed", "skipped"):
                raise BadInputError(f"{text} is {job.state}: it can't be waited for", field=field)
            found[job_id] = job
        return found

    async def _id_of(self, text: str, caller: Caller) -> UUID | None:
        """The generated id of the job with this id or, if only one schedule has it, this name. The id wins."""
        job_id = find_job_id(text) or await self._jobs.find_id(caller.namespace, text)
        if job_id is not None:
            return job_id
        wanted = RunFilter(name=text, statuses=["scheduled", "paused"], owner=caller.only)
        named = await self._jobs.find(caller.namespace, wanted, _TWO)
        if len(named) == _TWO:
            raise BadInputError(f"several schedules have the name {text!r}: give an id", field=_FIELD)
        return named[0]["id"] if named else None


async def _check_times(
    timetable: Timetable, job_id: UUID, found: Mapping[UUID, NeededJob], window: float | None, now: datetime
) -> None:
    breather = Breather()
    for job in found.values():
        await breather.breathe()
        _check_time(timetable, job_id, job, window, now)


def _check_time(timetable: Timetable, job_id: UUID, job: NeededJob, window: float | None, now: datetime) -> None:
    if not isinstance(job.schedule, NeededSchedule):
        raise BadInputError(f"{job.shown} has a schedule that can't be read: {job.schedule}", field=_FIELD)
    missed = unmeetable(timetable.schedule(job_id), {job.shown: job.schedule.schedule}, window, now)
    if missed is None:
        return
    how = "at the same time as this one" if window is None else "in the window before a time of this one"
    raise BadInputError(
        f"{job.shown} never runs {how}, of which the next is {show_moment(missed[1])}: give both the same times and"
        f" zone, or another {_WINDOW}",
        field=_FIELD,
    )
