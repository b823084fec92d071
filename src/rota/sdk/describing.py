"""What an application is, as workers tell it; and whether it can be run at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rota.domain.application import Application, Declared
from rota.domain.job import STORED_BYTES
from rota.errors import BadInputError, SetupError
from rota.gateway.job_builder import Preparer
from rota.sdk.app import App
from rota.worker.runners.process import check_importable


def check_app(app: App) -> None:
    """Raises SetupError for what would keep a worker from starting."""
    describe_app(app, (app.caller.namespace,))
    for name, task in app.tasks.items():
        if task.isolation:
            check_importable(name, task.function)


def describe_app(app: App, namespaces: Sequence[str]) -> Application:
    """What a worker says of its application; raises SetupError for a schedule that can't be."""
    caller, declared = app.caller, app.declarations.jobs()
    if declared and not app.has_name:
        raise SetupError('An application that declares schedules needs a name of its own: rota.App("shop").')
    if declared and caller.namespace not in namespaces:
        raise SetupError(
            f"The schedules of {app.name} belong to namespace {caller.namespace!r}, which this worker does not serve: "
            "ROTA_NAMESPACES, or rota.App(namespace=…)."
        )
    preparer = Preparer(shards=1, payload_limit_bytes=STORED_BYTES, now=lambda: datetime.now(UTC))
    schedules: list[Declared] = []
    for job in declared:
        try:
            schedules.append(preparer.declared(job, caller, app.name))
        except BadInputError as error:
            raise SetupError(f"The schedule {job.name!r}: {error}") from error
    return Application(caller.namespace, app.name, app.declarations.version, tuple(schedules))
