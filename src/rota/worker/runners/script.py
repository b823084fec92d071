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

from rota.lifeline import end_with_parent
from rota.worker.context import Context, Final

GRACE_SECONDS = 10.0
KEPT_BYTES = 16 * 1024
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
        talking = asyncio.ensure_future(_talk(process, parameters))
        try:
            output, errors = await asyncio.shield(talking)
        except asyncio.CancelledError:
            await self._stop(process, talking, min(self._grace, context.stop_within))
            raise
        finally:
            _kill_group(process)
        if process.returncode:
            raise ScriptError(_describe(script, process.returncode, errors))
        return {"exitCode": 0, "stdout": output}

    async def _stop(
        self, process: asyncio.subprocess.Process, talking: asyncio.Future[Any], grace_seconds: float
    ) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        stopped, _ = await asyncio.wait({talking}, timeout=grace_seconds)
        if not stopped:
            _kill_group(process)
            await asyncio.wait({talking})


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


async def _talk(process: asyncio.subprocess.Process, parameters: bytes) -> tuple[str, str]:
    output, errors, _ = await asyncio.gather(
        _read_tail(process.stdout), _read_tail(process.stderr), _feed(process.stdin, parameters)
    )
    await process.wait()
    return output, errors


async def _feed(stream: asyncio.StreamWriter | None, parameters: bytes) -> None:
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(parameters)
        await stream.drain()
    stream.close()


async def _read_tail(stream: asyncio.StreamReader | None) -> str:
    """The last KEPT_BYTES of a stream, read to its end so that the script never blocks."""
    kept = b""
    while stream is not None and (chunk := await stream.read(65536)):
        kept = (kept + chunk)[-KEPT_BYTES:]
    return kept.decode("utf-8", "replace").replace("\x00", "\ufffd")


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Nothing a script started survives it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _describe(script: Path, code: int, errors: str) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"{script.name} {how}" + (f": {errors.strip()[-2000:]}" if errors.strip() else "")
