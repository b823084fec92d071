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
KEPT_BYTES = 4 * 1024
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
        process = _Process()
        await process.start(
            _command(script), parameters, cwd=self._directory, environment=_environment(parameters, context)
        )
        try:
            await process.ended.wait()
        except asyncio.CancelledError:
            await process.stop(min(self._grace, context.stop_within))
            raise
        finally:
            await process.close()
        if process.code:
            problem = ScriptError(_describe(script, process.code, process.errors))
            problem.add_note(f"standard output:\n{process.output}\nstandard error:\n{process.errors}")
            raise problem
        return {"exitCode": 0, "stdout": process.output, "stderr": process.errors}


class _Process(asyncio.SubprocessProtocol):
    """A process in a group of its own. It has ended when it ended, even if something it started holds its output."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._silent = asyncio.Event()
        self._kept = {1: b"", 2: b""}
        self._transport: asyncio.SubprocessTransport

    @property
    def code(self) -> int:
        """The exit code; negative for a signal."""
        return self._transport.get_returncode() or 0

    @property
    def output(self) -> str:
        """The end of what it said on standard output."""
        return clean_text(self._kept[1].decode("utf-8", "replace"))

    @property
    def errors(self) -> str:
        """The end of what it said on standard error."""
        return clean_text(self._kept[2].decode("utf-8", "replace"))

    async def start(self, command: list[str], parameters: bytes, *, cwd: Path, environment: dict[str, str]) -> None:
        """Starts it and hands the parameters over."""
        self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *command,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGKILL),
        )
        pipe: Any = self._transport.get_pipe_transport(0)
        pipe.write(parameters)
        pipe.close()  # after what was written is out

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM to the whole group, and SIGKILL when the grace period is over."""
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.ended.wait(), grace_seconds)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.ended.wait()

    async def close(self) -> None:
        """Ends what is left of the group, and takes in its last words; who got away from it is not waited for."""
        self._signal(signal.SIGKILL)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._silent.wait(), LAST_WORDS_SECONDS)
        self._transport.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keeps the end of each stream; reading everything, so that the script never blocks."""
        self._kept[fd] = (self._kept[fd] + data)[-KEPT_BYTES:]

    def process_exited(self) -> None:
        """It has ended."""
        self.ended.set()

    def connection_lost(self, _error: Exception | None) -> None:
        """It has ended and all its pipes are closed."""
        self._silent.set()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)


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


def _describe(script: Path, code: int, errors: str) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"{script.name} {how}" + (f": {errors.strip()[-2000:]}" if errors.strip() else "")
