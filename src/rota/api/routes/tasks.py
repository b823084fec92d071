"""Tasks: what the fleet knows, with parameters and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rota.api.backend import Backend
from rota.api.figures import LATEST_RUNS, show_run_figures
from rota.api.operations import ApiRequest, Operation
from rota.api.paging import PAGE_PARAMETERS, read_limit, read_text
from rota.contract.figures import RunFigures
from rota.contract.tasks import TaskDefaults, TaskList, TaskOut, TaskVersionOut
from rota.domain.fleet import LIVE, hint_for_task
from rota.domain.ids import floor_id
from rota.domain.rights import Right
from rota.errors import NotFoundError
from rota.gateway.known_tasks import TaskRelease, read_defaults
from rota.store.read.runs import RunFilter

_RUNS_OF = timedelta(days=30)
_ENDED = ["success", "failed", "cancelled", "skipped"]


@Operation("GET", "/v1/tasks", Right.READ, query=PAGE_PARAMETERS)
async def list_tasks(services: Backend, call: ApiRequest) -> TaskList:
    """List the tasks that workers of the namespace know or announced lately, by name."""
    limit, after = read_limit(call.query), read_text(call.query, "cursor") or ""
    tasks = await _Tasks.read(services, call.namespace)
    names = [name for name in tasks.names if name > after][: limit + 1]
    cursor = names[limit - 1] if len(names) > limit else None
    return TaskList(items=[tasks.show(name) for name in names[:limit]], next_cursor=cursor)


@Operation("GET", "/v1/tasks/{task}", Right.READ, errors=(404,))
async def get_task(services: Backend, call: ApiRequest) -> TaskOut:
    """Read a task: its parameters, its defaults, and which releases have it."""
    return (await _find(services, call)).show(call.path["task"])


@Operation("GET", "/v1/tasks/{task}/stats", Right.READ, errors=(404,))
async def task_stats(services: Backend, call: ApiRequest) -> RunFigures:
    """Success rate, durations and retry rate of the task's latest 100 runs of 30 days, and these runs."""
    name = read_text(call.path, "task")
    wanted = RunFilter(first=floor_id(services.now - _RUNS_OF), owner=call.only, statuses=_ENDED, task=name)
    rows = await services.runs.find_soon(call.namespace, wanted, LATEST_RUNS)
    if not rows:
        await _find(services, call)
    return show_run_figures(rows)


async def _find(services: Backend, call: ApiRequest) -> _Tasks:
    """The tasks of the namespace; raises NotFoundError if the one in the path is none of them."""
    tasks = await _Tasks.read(services, call.namespace)
    name = call.path["task"]
    if name not in tasks.names:
        hint = hint_for_task(name, tasks.names)
        raise NotFoundError(f"no worker of the namespace has announced a task of this name{hint}")
    return tasks


class _Tasks:
    """The tasks of a namespace: as announced, and as live workers know them."""

    def __init__(self, releases: Mapping[str, Sequence[TaskRelease]], workers: Sequence[Any]) -> None:
        self._releases = releases
        self._workers = [worker for worker in workers if worker["status"] in LIVE]
        self.names = sorted({*releases, *(name for worker in self._workers for name in worker["tasks"])})

    @classmethod
    async def read(cls, services: Backend, namespace: str) -> _Tasks:
        return cls(await services.gateway.tasks.releases(namespace), await services.fleet.workers(namespace))

    def show(self, name: str) -> TaskOut:
        workers = [worker for worker in self._workers if name in worker["tasks"]]
        shown = TaskOut(
            task=name,
            workers=len(workers),
            pools=sorted({pool for worker in workers for pool in worker["pools"]}),
            versions=self._versions(name, workers),
        )
        if releases := self._releases.get(name):
            task = releases[0].task
            shown.description = task.description or None
            shown.parameters = dict(task.parameters)
            shown.defaults = TaskDefaults(**read_defaults(task.defaults))
            shown.computed = list(task.computed) or None
        return shown

    def _versions(self, name: str, workers: Sequence[Any]) -> list[TaskVersionOut]:
        """Releases that have it, the one in force first, then those that announce nothing."""
        counts: dict[tuple[Any, ...], int] = {}
        for worker in workers:
            key = (worker["app_namespace"], worker["app"], worker["app_version"], worker["announced"])
            counts[key] = counts.get(key, 0) + 1
        releases = self._releases.get(name, ())
        shown = [
            TaskVersionOut(
                app=one.key.app,
                version=one.key.version,
                workers=counts.pop(tuple(one.key), 0),
                in_force=one is releases[0],
            )
            for one in releases
        ]
        others = [(app, version, count) for (_, app, version, _), count in counts.items() if app is not None]
        return shown + [TaskVersionOut(app=app, version=version, workers=count) for app, version, count in others]


OPERATIONS = (list_tasks, get_task, task_stats)
