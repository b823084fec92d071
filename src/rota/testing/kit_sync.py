"""The kit for sync tests: the same calls, run in an event loop of a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from rota.sdk.app import App
from rota.testing.kit import Kit, running

P = ParamSpec("P")
T = TypeVar("T")


def _sync(method: Callable[Concatenate[Kit, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[SyncKit, P], T]:
    def call(self: SyncKit, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        return self.wait(method(self.kit, *arguments, **keywords))

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class SyncKit:
    """As Kit, without `await`."""

    def __init__(self, kit: Kit, loop: asyncio.AbstractEventLoop) -> None:
        self.kit = kit
        self._loop = loop

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs work in the kit's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def now(self) -> datetime:
        """The time, in UTC."""
        return self.kit.now

    @property
    def database_url(self) -> str:
        """The test's database."""
        return self.kit.database_url

    travel_to = _sync(Kit.travel_to)
    advance = _sync(Kit.advance)
    advance_to = _sync(Kit.advance_to)
    run_until_idle = _sync(Kit.run_until_idle)
    runs = _sync(Kit.runs)
    workflow_runs = _sync(Kit.workflow_runs)
    approve = _sync(Kit.approve)
    reject = _sync(Kit.reject)
    put_object = _sync(Kit.put_object)
    failures = _sync(Kit.failures)
    submitted = _sync(Kit.submitted)
    assert_submitted = _sync(Kit.assert_submitted)
    assert_not_submitted = _sync(Kit.assert_not_submitted)
    assert_no_failures = _sync(Kit.assert_no_failures)
    use = _sync(Kit.use)


@contextmanager
def running_sync(*apps: App, database_url: str) -> Iterator[SyncKit]:
    """As `running`, for code that can't await."""
    with _loop_in_thread() as loop:
        opened = running(*apps, database_url=database_url)
        kit = _wait(opened.__aenter__(), loop)
        try:
            yield SyncKit(kit, loop)
        finally:
            _wait(opened.__aexit__(None, None, None), loop)


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rota-kit", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        _wait(loop.shutdown_default_executor(), loop)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _wait(work: Awaitable[T], loop: asyncio.AbstractEventLoop) -> T:
    async def waited() -> T:
        return await work

    return asyncio.run_coroutine_threadsafe(waited(), loop).result()
