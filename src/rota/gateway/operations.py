"""What people do with backfills, replays and bulk acts: preview, create, look, pause, resume, abort.

`only` is the owner whose jobs, runs and operations a caller may touch; None: all of the namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any
from uuid import UUID

import msgspec

from rota.contract.operations import (
    BackfillIn,
    OperationCounts,
    OperationFailure,
    OperationIn,
    OperationList,
    OperationOut,
    OperationPreview,
    ReplayIn,
)
from rota.domain.backfills import FrozenCalendar, is_wanted
from rota.domain.ids import (
    FIRST_ID,
    LAST_ID,
    floor_id,
    new_id,
    parse_operation,
    parse_workflow,
    shard_of,
    show_job,
    show_operation,
    show_run,
    show_workflow,
)
from rota.domain.operations import MOST_OPEN, MOST_RUNS, seconds_for, usual_concurrency
from rota.domain.rights import Caller
from rota.domain.run import ENDED_STATUSES
from rota.errors import BadInputError, ConflictError, NotFoundError
from rota.service import in_turns
from rota.store.flow.workflows import Workflows
from rota.store.operate import Kind, NewOperation, OperationFilter, Operations, calendar_of, filter_of
from rota.store.operate.pages import OperationPages, seconds_of
from rota.store.postgres.database import Database
from rota.store.read.jobs import Jobs
from rota.store.read.runs import RunFilter, Runs
from rota.store.read.timetables import timetable_of

_EARLIEST = datetime(1970, 1, 2, tzinfo=UTC)
_USUAL_RANGE = timedelta(hours=24)
_OPEN_STATUSES = ("scheduled", "blocked", "queued", "running", "retrying")
_MOST_SHOWN = 20
_SHOWN_AT_AN_END = 10
_TIMED_RUNS = 20
_PAGE = 500
MOST_AT_ONCE = 5000  # that a request acts on itself; it hands over the rest
# From which state to which, by what people ask for.
_ACTS = {
    "pause": ("paused", ("running", "stopped")),
    "resume": ("running", ("paused", "stopped")),
    "abort": ("aborting", ("running", "paused", "stopped")),
}


class _Target(msgspec.Struct, frozen=True):
    """The job that a backfill is about, and the workflow that it fires."""

    job: Any
    workflow_id: UUID | None


class _Survey(msgspec.Struct):
    """What a backfill would meet."""

    made: int = 0
    existing: int = 0
    open: int = 0
    unknown: int = 0
    first: list[datetime] = msgspec.field(default_factory=list)
    last: list[datetime] = msgspec.field(default_factory=list)

    def add(self, moment: datetime) -> None:
        self.made += 1
        if len(self.first) < _SHOWN_AT_AN_END:
            self.first.append(moment)
            return
        self.last = [*self.last[-_SHOWN_AT_AN_END + 1 :], moment]


class OperationGateway:
    """Operations of one database."""

    def __init__(self, database: Database, *, shards: int, now: Callable[[], datetime]) -> None:
        self._operations = Operations(database)
        self._pages = OperationPages(database)
        self._workflows = Workflows(database)
        self._jobs = Jobs(database)
        self._runs = Runs(database)
        self._shards = shards
        self._now = now

    async def preview_backfill(self, wanted: BackfillIn, caller: Caller, only: str | None) -> OperationPreview:
        """What a backfill would do now."""
        target = await self._target(wanted, caller, only)
        calendar = self._calendar(wanted, target.job)
        survey = _Survey()
        async for times in in_turns(calendar.pieces()):
            known = await self._operations.known(
                caller.namespace, calendar, times, job_made_at=target.job["created_at"]
            )
            for moment in times:
                ending = known.ending(moment)
                survey.existing += ending in ("success", "failed")
                survey.open += ending == "open"
                survey.unknown += ending == "unknown"
                if is_wanted(ending, wanted.existing, wanted.unknown):
                    survey.add(moment)
            _check_size(survey.made + survey.existing + survey.open + survey.unknown)
        concurrency = await self._concurrency(wanted.concurrency, caller, target.job["pool"])
        took = await self._usual_seconds(caller.namespace, target.job["id"])
        return OperationPreview(
            runs=survey.made,
            times=[*survey.first, *survey.last],
            existing=survey.existing,
            open=survey.open,
            unknown=survey.unknown,
            concurrency=concurrency,
            seconds=seconds_for(survey.made, concurrency, wanted.rate_per_second, took),
        )

    async def create_backfill(self, wanted: BackfillIn, caller: Caller, only: str | None) -> OperationOut:
        """Creates a backfill; raises NotFoundError for a job that is not there, ConflictError if one is open."""
        target = await self._target(wanted, caller, only)
        seen = self._calendar(wanted, target.job)
        total, has_unknown = await self._count(seen, target.job["created_at"])
        if has_unknown and wanted.unknown is None:
            raise BadInputError(
                "required, because the history of some of these times was removed: run or skip", field="unknown"
            )
        concurrency = await self._concurrency(wanted.concurrency, caller, target.job["pool"])

        def check(open_ones: Sequence[Any], job: Any | None) -> NewOperation:
            if job is None or job["state"] == "cancelled":
                raise ConflictError("the job was cancelled")
            if job["version"] != target.job["version"]:
                raise ConflictError("the job was changed just now; look again")
            for one in open_ones:
                if one["job_id"] == job["id"]:
                    raise ConflictError(f"a backfill of this job is open: {show_operation(one['id'])}")
            calendar = msgspec.structs.replace(seen, last=min(seen.last, self._calendar(wanted, job).last))
            return NewOperation(
                **self._new("backfill", caller, open_ones),
                concurrency=concurrency,
                rate=wanted.rate_per_second,
                stop_share=wanted.stop_at_failure_share,
                calendar=calendar,
                job_made_at=job["created_at"],
                workflow_id=target.workflow_id,
                name=job["name"],
                existing=wanted.existing,
                unknown=wanted.unknown,
                total=total,
            )

        return _shown(await self._operations.create(caller.namespace, check, target.job["id"]))

    async def preview(self, kind: Kind, wanted: ReplayIn | OperationIn, caller: Caller, owner: str | None) -> Any:
        """What a replay, redrive or cancel would do now; `owner`: of which owner's runs."""
        chosen = await self._filter(kind, wanted, caller, owner)
        most = min(chosen.most or MOST_RUNS, MOST_RUNS)
        ids: list[UUID] = []
        seconds: list[float] = []
        count, position, since, is_over = 0, None, self._now(), False
        while not is_over:
            page = await self._pages.read(caller.namespace, kind, chosen, since=since, position=position, limit=_PAGE)
            taken, _ = page.take(most - count)
            count += len(taken)
            ids += taken[: _MOST_SHOWN - len(ids)]
            seconds += page.seconds[: _TIMED_RUNS - len(seconds)]
            is_over = page.is_last or count >= most
            position = page.ids[-1] if page.ids else position
        concurrency = None if kind == "cancel" else await self._concurrency(wanted.concurrency, caller, None)
        took = median(seconds) if seconds else None
        return OperationPreview(
            runs=count,
            is_more=count >= most and chosen.most is None,
            run_ids=[show_run(run_id) for run_id in ids],
            concurrency=concurrency,
            seconds=seconds_for(count, concurrency or _PAGE, wanted.rate_per_second, took),
        )

    async def create(
        self, kind: Kind, wanted: ReplayIn | OperationIn, caller: Caller, owner: str | None
    ) -> OperationOut:
        """Creates a replay, redrive or cancel."""
        chosen = await self._filter(kind, wanted, caller, owner)
        concurrency = 1 if kind == "cancel" else await self._concurrency(wanted.concurrency, caller, None)
        return await self.create_of(
            kind, chosen, caller, concurrency, rate=wanted.rate_per_second, stop_share=wanted.stop_at_failure_share
        )

    async def create_of(
        self,
        kind: Kind,
        chosen: OperationFilter,
        caller: Caller,
        concurrency: int | None = None,
        *,
        rate: float | None = None,
        stop_share: float | None = None,
    ) -> OperationOut:
        """Creates an operation on what a filter matches."""
        most = concurrency or await self._concurrency(None, caller, None)

        def check(open_ones: Sequence[Any], _job: Any | None) -> NewOperation:
            return NewOperation(
                **self._new(kind, caller, open_ones),
                concurrency=most,
                rate=rate,
                stop_share=stop_share,
                filter=chosen,
            )

        return _shown(await self._operations.create(caller.namespace, check))

    async def show(self, operation: str, caller: Caller, only: str | None, kind: Kind | None = None) -> OperationOut:
        """An operation with some of its runs that did not succeed."""
        row = await self._get(operation, caller, only, kind)
        shown = _shown(row)
        shown.failures = [
            OperationFailure(run_id=show_run(one["run_id"]), nominal_time=one["nominal_at"], status=one["outcome"])
            for one in await self._operations.failures(caller.namespace, row["id"], _MOST_SHOWN)
        ]
        return shown

    async def show_all(
        self, caller: Caller, only: str | None, *, kind: str | None, status: str | None, before: UUID, limit: int
    ) -> OperationList:
        """A page of operations with ids below `before`, latest first."""
        rows = await self._operations.find_all(
            caller.namespace, kind=kind, owner=only, state=status, before=before, limit=limit + 1
        )
        more = rows[limit - 1]["id"].hex if len(rows) > limit else None
        return OperationList(items=[_shown(row) for row in rows[:limit]], next_cursor=more)

    async def act(
        self, act: str, operation: str, caller: Caller, only: str | None, kind: Kind | None = None
    ) -> OperationOut:
        """Pauses, resumes or aborts an operation; raises ConflictError if it has ended. What it is already is fine."""
        row = await self._get(operation, caller, only, kind)
        state, states = _ACTS[act]
        reason = f"aborted by {caller.owner}" if act == "abort" else None
        changed = await self._operations.change(caller.namespace, row["id"], state, states=states, reason=reason)
        if changed is None:
            changed = await self._get(operation, caller, only, kind)
            if changed["state"] != state and not (act == "abort" and changed["state"] == "aborted"):
                raise ConflictError(f"the operation is {changed['state']}")
        return _shown(changed)

    def _new(self, kind: Kind, caller: Caller, open_ones: Sequence[Any]) -> dict[str, Any]:
        if len(open_ones) >= MOST_OPEN:
            raise ConflictError(f"{len(open_ones)} operations of this namespace are open, as many as there may be")
        operation = new_id(self._now().timestamp())
        return {"id": operation, "kind": kind, "owner": caller.owner, "shard": shard_of(operation, self._shards)}

    async def _target(self, wanted: BackfillIn, caller: Caller, only: str | None) -> _Target:
        if (wanted.job is None) == (wanted.workflow is None):
            raise BadInputError("give a job or a workflow", field="job")
        if wanted.workflow is not None:
            return await self._workflow(wanted.workflow, caller, only)
        assert wanted.job is not None  # noqa: S101 - one of them is given
        job_id = await self._jobs.find_id(caller.namespace, wanted.job)
        row = None if job_id is None else await self._jobs.get(caller.namespace, job_id)
        if row is None:
            row = await self._job_named(wanted.job, caller, only)
        if row is None or (only is not None and row["owner"] != only):
            raise NotFoundError("there is no such recurring job")
        return _Target(row, None)

    async def _job_named(self, name: str, caller: Caller, only: str | None) -> Any | None:
        wanted = RunFilter(owner=only, name=name, statuses=["scheduled", "paused", "completed"])
        named = await self._jobs.find(caller.namespace, wanted, 2)
        if len(named) > 1:
            raise ConflictError(f"several schedules have the name {name!r}: give the id of one")
        return await self._jobs.get(caller.namespace, named[0]["id"]) if named else None

    async def _workflow(self, text: str, caller: Caller, only: str | None) -> _Target:
        by_id = parse_workflow(text) if text.startswith("wf_") else None
        row = await self._workflows.find(caller.namespace, workflow_id=by_id, name=None if by_id else text)
        if row is None or row["state"] == "deleted" or (only is not None and row["owner"] != only):
            raise NotFoundError("there is no such workflow")
        job = await self._jobs.get(caller.namespace, row["job_id"])
        if job is None:
            raise ConflictError("the workflow has no schedule: there is no calendar to take times from")
        return _Target(job, row["id"])

    def _calendar(self, wanted: BackfillIn, job: Any) -> FrozenCalendar:
        """The times that the schedule has passed: later ones are its own."""
        last = min(job["fired_through"], self._now())
        if wanted.to is not None:
            if wanted.to < wanted.from_:
                raise BadInputError("is before from", field="to")
            last = min(last, wanted.to)
        if wanted.from_ < _EARLIEST:
            raise BadInputError(f"must not be before {_EARLIEST:%Y-%m-%d}", field="from")
        return FrozenCalendar(job["id"], timetable_of(job), wanted.from_, last, wanted.order == "newest")

    async def _count(self, calendar: FrozenCalendar, job_made_at: datetime) -> tuple[int, bool]:
        """How many times there are, and whether what happened at some of them is unknown."""
        total, has_unknown = 0, False
        async for times in in_turns(calendar.pieces()):
            total += len(times)
            _check_size(total)
            has_unknown = has_unknown or bool(await self._operations.unknown_times(times, job_made_at))
        return total, has_unknown

    async def _concurrency(self, given: int | None, caller: Caller, pool: str | None) -> int:
        return given or usual_concurrency(await self._operations.slots(caller.namespace, pool))

    async def _usual_seconds(self, namespace: str, job_id: UUID) -> float | None:
        rows = await self._runs.list_of_job(namespace, job_id, LAST_ID, _TIMED_RUNS)
        seconds = [took for row in rows if (took := seconds_of(row)) is not None]
        return median(seconds) if seconds else None

    async def _filter(
        self, kind: Kind, wanted: ReplayIn | OperationIn, caller: Caller, owner: str | None
    ) -> OperationFilter:
        given = {name: getattr(wanted, name) for name in ("owner", "status", "name", "tag", "task")}
        more: dict[str, Any] = {"start_time": wanted.start_time, "end_time": wanted.end_time}
        job_id = error = None
        if isinstance(wanted, OperationIn):
            more |= {"job_id": wanted.job_id, "error": wanted.error, "all": wanted.all or None}
            job_id, error = await self._job_of(wanted.job_id, caller), wanted.error
            _check_fields(wanted)
        if not any(value is not None for value in (given | more).values()):
            raise BadInputError("give at least one field to select runs by")
        start = wanted.start_time or (self._now() - _USUAL_RANGE if kind == "replay" else None)
        return OperationFilter(
            first=floor_id(start) if start else FIRST_ID,
            before=floor_id(wanted.end_time) if wanted.end_time else LAST_ID,
            owner=owner,
            statuses=None if kind == "redrive" else _statuses(wanted.status, kind),
            name=wanted.name,
            tag=wanted.tag,
            task=wanted.task,
            job_id=job_id,
            error=error,
            most=wanted.most,
        )

    async def _job_of(self, text: str | None, caller: Caller) -> UUID | None:
        """The job to filter by. One that is not there has no dead letters: FIRST_ID is no job's."""
        return None if text is None else await self._jobs.find_id(caller.namespace, text) or FIRST_ID

    async def _get(self, operation: str, caller: Caller, only: str | None, kind: Kind | None) -> Any:
        row = await self._operations.get(caller.namespace, parse_operation(operation))
        if row is None or (only is not None and row["owner"] != only) or (kind is not None and row["kind"] != kind):
            raise NotFoundError(f"there is no such {kind or 'operation'}")
        return row


def _check_size(count: int) -> None:
    if count > MOST_RUNS:
        raise BadInputError(f"the range has more than {MOST_RUNS:,} times: choose a shorter one", field="from")


def _check_fields(wanted: OperationIn) -> None:
    """Refuses what does not belong to the kind."""
    of_others: dict[str, dict[str, Any]] = {
        "redrive": {"status": wanted.status, "tag": wanted.tag},
        "cancel": {
            "jobId": wanted.job_id,
            "error": wanted.error,
            "concurrency": wanted.concurrency,
            "stopAtFailureShare": wanted.stop_at_failure_share,
        },
    }
    others = of_others[wanted.kind]
    wrong = [(name, f"can't be used with kind {wanted.kind!r}") for name, value in others.items() if value is not None]
    if wrong:
        raise BadInputError.of(wrong)


def _statuses(status: str | None, kind: Kind) -> list[str]:
    known = _OPEN_STATUSES if kind == "cancel" else sorted(ENDED_STATUSES)
    if status is not None and status not in known:
        raise BadInputError(f"must be one of {', '.join(known)}", field="status")
    return [status] if status else list(known)


def _shown(row: Any) -> OperationOut:
    is_backfill, ended = row["kind"] == "backfill", row["ended"]
    shown = OperationOut(
        operation_id=show_operation(row["id"]),
        kind=row["kind"],
        status=row["state"],
        reason=row["reason"],
        owner=row["owner"],
        concurrency=None if row["kind"] == "cancel" else row["concurrency"],
        rate_per_second=row["rate"],
        stop_at_failure_share=None if row["stop_share"] is None else round(row["stop_share"], 6),
        counts=OperationCounts(
            total=row["total"],
            made=row["made"],
            left_out=row["left_out"],
            running=row["made"] - ended,
            success=ended - row["failed"] - row["cancelled"] if row["kind"] != "cancel" else 0,
            failed=row["failed"],
            cancelled=row["cancelled"] if row["kind"] != "cancel" else row["made"],
        ),
        created_at=row["created_at"],
        end_time=row["ended_at"],
    )
    if not is_backfill:
        shown.filter = _shown_filter(filter_of(row))
        return shown
    calendar = calendar_of(row)
    shown.job_id = show_job(calendar.job_id)
    shown.workflow_id = None if row["workflow_id"] is None else show_workflow(row["workflow_id"])
    shown.name = row["name"]
    shown.from_, shown.to, shown.position = calendar.first, calendar.last, row["position_at"]
    shown.order = "newest" if calendar.newest_first else "oldest"
    shown.existing, shown.unknown = row["existing"], row["unknown"]
    return shown


def _shown_filter(chosen: OperationFilter) -> dict[str, Any]:
    fields = {
        "owner": chosen.owner,
        "statuses": chosen.statuses,
        "name": chosen.name,
        "tag": chosen.tag,
        "task": chosen.task,
        "jobId": None if chosen.job_id is None else show_job(chosen.job_id),
        "error": chosen.error,
        "startTime": None if chosen.first == FIRST_ID else _moment_of(chosen.first),
        "endTime": None if chosen.before == LAST_ID else _moment_of(chosen.before),
        "most": chosen.most,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _moment_of(floor: UUID) -> datetime:
    return datetime.fromtimestamp((floor.int >> 80) / 1000, UTC)
