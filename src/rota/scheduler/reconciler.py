"""Turns schedules declared in code into jobs."""

from __future__ import annotations

from collections.abc import Callable

from rota.errors import BadInputError, DatabaseUnavailableError
from rota.scheduler.set_aside import SetAside
from rota.service import Service
from rota.store.declare import DeclaredJobs, PendingApp, Reconciled
from rota.telemetry import get_logger

_LISTENING_SECONDS = 4.5  # with its jitter, less than five
_log = get_logger("reconciling")


class Reconciler(Service):
    """Reconciles applications whose current version has changed."""

    interval_seconds = 2.0

    def __init__(self, *, declaring: DeclaredJobs, is_listening: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._is_listening = is_listening
        self._declaring = declaring
        self._aside = SetAside("the schedules of an application could not be reconciled")

    @property
    def pause_seconds(self) -> float:
        """Longer where a wake-up tells of a worker with another version."""
        return _LISTENING_SECONDS if self._is_listening() else self.interval_seconds

    async def tick(self) -> int:
        """Returns how many applications were reconciled."""
        self._aside.begin()
        count = 0
        for app in await self._declaring.pending():
            done = await self._reconcile(app)
            if done is None:
                continue
            count += not done.unreadable
            _log.info(
                "schedules reconciled",
                app=app.app,
                version=done.version,
                made=list(done.made.values()),
                changed=list(done.changed.values()),
                paused=list(done.paused.values()),
            )
        return count

    async def _reconcile(self, app: PendingApp) -> Reconciled | None:
        """One application; its errors must not stop the others. What can't be read is tried again later."""
        if self._aside.passes_over(app):
            return None
        try:
            done = await self._declaring.reconcile(app.namespace, app.app)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - logged, and tried again
            self._set_aside(app, error)
            return None
        if done and done.unreadable:
            self._set_aside(app, BadInputError("; ".join(f"{name}: {why}" for name, why in done.unreadable.items())))
        return done

    def _set_aside(self, app: PendingApp, error: Exception) -> None:
        self._aside.add(app, error, app=app.app, namespace=app.namespace, version=app.version)
