"""Replaces the workers of `rota dev` when the code changes.

First the code is imported in a separate process. If that fails, the old workers continue, and the next change is tried.
Otherwise new workers start and the old ones drain: they hand back runs they have not started and finish the others. So
no run is lost or charged an attempt, and none waits for a long one to end. The watcher records the files before they
are imported, so the next poll sees changes made during the import.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from rota.ops.code_watcher import Watcher, next_change
from rota.processes import end_with_parent
from rota.sdk.app_loader import Loaded
from rota.secret_environment import separate
from rota.service import Service
from rota.time_limits import time_limit

_IMPORT_SECONDS = 60.0
_MOST_NAMED = 3
ENVIRONMENT = {
    # Bytecode is matched by the second and size of its source: a change within that second would go unnoticed.
    "PYTHONDONTWRITEBYTECODE": "1",
    # Old and new workers overlap and can't share a port.
    "ROTA_WORKER_PORT": "0",
}


class Reloader(Service):
    """Follows the code of one application and reports each reload; a round is one version of the code."""

    full_round = 1

    def __init__(self, app: str, *, watcher: Watcher, workers: int, say: Callable[[str], None]) -> None:
        super().__init__()
        self._app = app
        self._watcher = watcher
        self._workers = "1 worker" if workers == 1 else f"{workers} workers"
        self._say = say
        self._changed: set[Path] = set()
        self._loaded_once = False
        self.renew_workers: Callable[[], None] = lambda: None

    async def tick(self) -> int:
        """Loads the current code, calls `renew_workers`, and waits for the next change."""
        loading = asyncio.create_task(self._load())
        try:
            self._changed.update(await next_change(self._watcher))
        finally:
            loading.cancel()  # what it is still loading is outdated
        await asyncio.wait([loading])
        return 1

    async def _load(self) -> None:
        try:
            loaded = await try_import(self._app)
        except OSError as error:
            loaded = Loaded(f"{self._app} can't be imported: {error}")
        self._watcher.include(loaded.files)
        if loaded.problem is None:
            self._say(self._words())
            self._loaded_once = True
            self.renew_workers()
        else:
            next_step = "The old code keeps running; save" if self._loaded_once else "Save"
            self._say(f"{loaded.problem.rstrip('.')}. {next_step} a change to try again.")
        self._changed.clear()

    def _words(self) -> str:
        if not self._changed:
            return f"Watching {' and '.join(map(str, self._watcher.directories))}: a change restarts {self._workers}."
        verb = "Restarting" if self._loaded_once else "Starting"
        return f"Changed: {name_some(self._changed)}. {verb} {self._workers}."


def name_some(files: set[Path]) -> str:
    """The first few files, relative to the current directory."""
    here = Path.cwd()
    names = sorted(str(file.relative_to(here)) if file.is_relative_to(here) else str(file) for file in files)
    named, more = names[:_MOST_NAMED], len(names[_MOST_NAMED:])
    return ", ".join(named) + (f" and {more} more" if more else "")


async def try_import(app: str, *, within_seconds: float = _IMPORT_SECONDS) -> Loaded:
    """Imports the code in a separate process, which ends with this call."""
    environment, secrets = separate(os.environ | ENVIRONMENT)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rota.sdk.app_loader",
        app,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        preexec_fn=end_with_parent(signal.SIGKILL),
    )
    try:
        async with time_limit(within_seconds):
            answer, _ = await process.communicate(secrets)
        return msgspec.json.decode(answer, type=Loaded)
    except TimeoutError:
        return Loaded(f"{app} can't be imported: it takes longer than {within_seconds:g} seconds")
    except msgspec.DecodeError:
        return Loaded(f"{app} can't be imported: the process that tried ended with exit code {process.returncode}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # including what the import started
        await process.wait()
