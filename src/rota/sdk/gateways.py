"""Chooses the gateway of a submission: the worker's inside a run, else the database or HTTP."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary, WeakSet

from rota.domain.rights import Caller
from rota.errors import SetupError
from rota.gateway.protocol import JobGateway, SyncJobGateway
from rota.task.context import current_context

if TYPE_CHECKING:
    from rota.gateway.database import DatabaseGateway, SyncDatabaseGateway
    from rota.gateway.http import HttpGateway
    from rota.gateway.http_sync import SyncHttpGateway


class Gateways:
    """The gateways of one application: one for each event loop and process.

    `barred` is an error message while submissions are forbidden: tests must not submit to a server by mistake.
    """

    barred: ClassVar[str | None] = None

    def __init__(
        self,
        url: str | None,
        token: str | None,
        namespace: str | None,
        patience_seconds: float | None = None,
        *,
        database: str | None = None,
        caller: Caller | None = None,
    ) -> None:
        """With the address of a database, and a caller, submissions go there instead of to a server."""
        self._database = database
        self._caller = caller
        self._url = url
        self._token = token
        self._namespace = namespace
        self._patience_seconds = patience_seconds
        self._instead: tuple[JobGateway, SyncJobGateway] | None = None
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, HttpGateway | DatabaseGateway] = WeakKeyDictionary()
        self._by_process: dict[int, SyncHttpGateway | SyncDatabaseGateway] = {}
        self._opening = threading.Lock()
        _all.add(self)

    def open_async(self, patience_seconds: float | None = None) -> JobGateway:
        """The gateway for the running event loop. How long it tries to submit is for HTTP alone."""
        if self._instead:
            return self._instead[0]
        if gateway := self.of_run_async():
            return gateway
        self._check_bar()
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._forget_closed_loops()
            self._by_loop[loop] = self._make_async()
        return self._by_loop[loop].patient(patience_seconds)

    def open_sync(self, patience_seconds: float | None = None) -> SyncJobGateway:
        """The gateway for code that can't await."""
        if self._instead:
            return self._instead[1]
        if gateway := self.of_run_sync():
            return gateway
        self._check_bar()
        with self._opening:
            process = os.getpid()
            if process not in self._by_process:
                # A forked process must not use its parent's connections.
                gateway = self._make_sync()
                self._by_process = {process: gateway}
                atexit.register(gateway.close)
            return self._by_process[process].patient(patience_seconds)

    def _forget_closed_loops(self) -> None:
        """A gateway refers to its event loop and its connections: a program that calls asyncio.run() again and again
        would keep them all."""
        for reference in self._by_loop.keyrefs():  # a copy: other threads have event loops, too
            if (loop := reference()) is not None and loop.is_closed():
                self._by_loop.pop(loop, None)

    def _make_async(self) -> HttpGateway | DatabaseGateway:
        if self._database is not None and self._caller is not None:
            from rota.gateway.database import DatabaseGateway  # noqa: PLC0415 - few programs need a database driver

            return DatabaseGateway(self._database, self._caller, self._patience_seconds)
        from rota.gateway.http import HttpGateway  # noqa: PLC0415 - a worker needs no HTTP client

        return HttpGateway(self._url, self._token, self._namespace, self._patience_seconds)

    def _make_sync(self) -> SyncHttpGateway | SyncDatabaseGateway:
        if self._database is not None and self._caller is not None:
            from rota.gateway.database import SyncDatabaseGateway  # noqa: PLC0415 - as above

            return SyncDatabaseGateway(self._database, self._caller, self._patience_seconds)
        from rota.gateway.http_sync import SyncHttpGateway  # noqa: PLC0415 - as above

        return SyncHttpGateway(self._url, self._token, self._namespace, self._patience_seconds)

    def begin_in_child(self) -> None:
        """After a fork: a thread of the parent may have held the lock, and is not here to release it."""
        self._opening = threading.Lock()

    def of_run_async(self) -> JobGateway | None:
        """The gateway of the current run."""
        context = current_context()
        return context.gateway if context else None

    def of_run_sync(self) -> SyncJobGateway | None:
        """The gateway of the current run for code that can't await."""
        context = current_context()
        return context.sync_gateway if context else None

    def _check_bar(self) -> None:
        if self.barred:
            raise SetupError(self.barred)

    @contextmanager
    def replaced(self, gateway: JobGateway, sync_gateway: SyncJobGateway) -> Iterator[None]:
        """Meanwhile all submissions use these gateways."""
        before, self._instead = self._instead, (gateway, sync_gateway)
        try:
            yield
        finally:
            self._instead = before

    async def close(self) -> None:
        """Closes the gateways of this event loop and process."""
        if gateway := self._by_loop.pop(asyncio.get_running_loop(), None):
            await gateway.close()
        if sync_gateway := self._by_process.pop(os.getpid(), None):
            sync_gateway.close()


_all: WeakSet[Gateways] = WeakSet()


def _begin_in_child() -> None:
    for gateways in list(_all):
        gateways.begin_in_child()


os.register_at_fork(after_in_child=_begin_in_child)
