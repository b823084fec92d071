"""Turns schedules declared in code into jobs."""

from __future__ import annotations

from rota.errors import DatabaseUnavailableError
from rota.service import Service
from rota.store.declare import DeclaredJobs, Reconciled
from rota.telemetry import get_logger

_log = get_logger("reconciling")


class Reconciler(Service):
    """Reconciles applications whose current version has changed."""

    interval_seconds = 2.0

    def __init__(self, *, declaring: DeclaredJobs) -> None:
        super().__init__()
        self._declaring = declaring

    async def tick(self) -> int:
        """Returns how many applications were reconciled."""
        count = 0
        for namespace, app in await self._declaring.pending():
            done = await self._reconcile(namespace, app)
            if done is None:
                continue
            count += 1
            _log.info(
                "schedules reconciled",
                app=app,
                version=done.version,
                made=list(done.made.values()),
                changed=list(done.changed.values()),
                paused=list(done.paused.values()),
            )
        return count

    async def _reconcile(self, namespace: str, app: str) -> Reconciled | None:
        """One application; its errors must not stop the others."""
        try:
            return await self._declaring.reconcile(namespace, app)
        except DatabaseUnavailableError:
            raise
        except Exception:  # noqa: BLE001 - logged, and tried again
            _log.exception("the schedules of an application could not be reconciled", app=app, namespace=namespace)
            return None
