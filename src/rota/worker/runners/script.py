"""Scripts from one directory: parameters as JSON on standard input and in ROTA_PARAMS; the exit code decides.

A script runs in a process group of its own with a clean environment. Asked to stop, the whole group gets SIGTERM, and
SIGKILL after the grace period, or sooner where less time is left. On Linux the script also ends when its worker is
killed; what it started itself may then survive.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from rota.domain.text import clean_text
from rota.lifeline import end_with_parent
from rota.worker.context import Context, Final

GRACE_SECONDS = 10.0
KEPT_BYTES = 16 * 1024
LAST_WORDS_SECONDS = 1.0
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER")
TASK = "script"


class ScriptError(Exception):
    """A script ended with an exit code other than 0, or was killed."""


class ScriptRunner:
    """Runs `payload.script` from its directory, and nothing outside of it."""

    def __init__(self, directory: Path, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._directory = directory
        self._grace = grace_seconds

    async def run(self, task: str, payload: Any, context: Context) -> Any:  # noqa: ARG002 - one task, one name
        """One process; its standard output, cut at a limit, is the result."""
        script = find_script(self._directory, payload.get("script", ""))
        parameters = msgspec.json.encode(payload.get("params", {}))
        process = await asyncio.create_subprocess_exec(
            *_command(script),
            cwd=self._directory,
            env=_environment(parameters, context),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGKILL),
        )
        talk = _Talk(process, parameters)
        ending = asyncio.ensure_future(process.wait())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await _stop(process, ending, min(self._grace, context.stop_within))
            raise
        finally:
            _kill_group(process)
            output, errors = await talk.last_words()
        if process.returncode:
            raise ScriptError(_describe(script, process.returncode, errors))
        return {"exitCode": 0, "stdout": output}


def find_script(directory: Path, name: Any) -> Path:
    """The script's file; raises Final when the name leads out of the directory or to nothing that can be run."""
    if not isinstance(name, str) or not name or "\x00" in name:
        raise Final("payload.script must be the name of a script")
    root = directory.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root) or path == root:
        raise Final(f"{name!r} leads out of the scripts directory")
    if not path.is_file():
        raise ScriptError(f"there is no script {name!r} in the scripts directory of this worker")
    return path


def _command(script: Path) -> list[str]:
    if script.suffix == ".py":
        return [sys.executable, str(script)]
    if not os.access(script, os.X_OK):
        raise ScriptError(f"{script.name} is not executable (chmod +x it; only .py files run without)")
    return [str(script)]


def _environment(parameters: bytes, context: Context) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return passed | {
        "ROTA_PARAMS": parameters.decode(),
        "ROTA_RUN_ID": context.run_id,
        "ROTA_JOB_ID": context.job_id,
        "ROTA_ATTEMPT": str(context.attempt),
        "ROTA_IDEMPOTENCY_KEY": context.idempotency_key,
        "ROTA_NOMINAL_TIME": context.nominal_time.isoformat(),
    }


class _Talk:
    """Feeds the script and reads what it says, so that it never blocks."""

    def __init__(self, process: asyncio.subprocess.Process, parameters: bytes) -> None:
        self._output = _Tail()
        self._errors = _Tail()
        self._tasks = [
            asyncio.create_task(self._output.read(process.stdout)),
            asyncio.create_task(self._errors.read(process.stderr)),
            asyncio.create_task(_feed(process.stdin, parameters)),
        ]

    async def last_words(self) -> tuple[str, str]:
        """What was said. Whoever got away from the script's group may hold its output open: no long wait for that."""
        await asyncio.wait(self._tasks, timeout=LAST_WORDS_SECONDS)
        for task in self._tasks:
            task.cancel()
        return self._output.text(), self._errors.text()


class _Tail:
    """The last KEPT_BYTES of a stream."""

    def __init__(self) -> None:
        self._kept = b""

    async def read(self, stream: asyncio.StreamReader | None) -> None:
        while stream is not None and (chunk := await stream.read(65536)):
            self._kept = (self._kept + chunk)[-KEPT_BYTES:]

    def text(self) -> str:
        return clean_text(self._kept.decode("utf-8", "replace"))


async def _stop(process: asyncio.subprocess.Process, ending: asyncio.Future[int], grace_seconds: float) -> None:
    """SIGTERM to the whole group, and SIGKILL when the grace period is over."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    stopped, _ = await asyncio.wait({ending}, timeout=grace_seconds)
    if not stopped:
        _kill_group(process)
        await asyncio.wait({ending})


async def _feed(stream: asyncio.StreamWriter | None, parameters: bytes) -> None:
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(parameters)
        await stream.drain()
    stream.close()


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Nothing a script started survives it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _describe(script: Path, code: int, errors: str) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"{script.name} {how}" + (f": {errors.strip()[-2000:]}" if errors.strip() else "")
