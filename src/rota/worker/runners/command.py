"""The base of script and shell runners: a guarded subprocess, its output in the log, its exit code as the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.domain.text import clean_text
from rota.task.context import Context, PlainError
from rota.worker.runners.guarded_process import ERR, OUT, Subprocesses, clean_environment, describe_end
from rota.worker.runners.progress_lines import ProgressLines

KEPT_BYTES = 4 * 1024


class CommandError(PlainError):
    """A command ended with an exit code other than 0, was killed, or could not be started."""


class NotStartedError(CommandError):
    """A command could not be started."""

    def __init__(self, words: str, errno: int) -> None:
        super().__init__(words)
        self.errno = errno


class CommandRunner:
    """Runs one command per attempt."""

    def __init__(self, subprocesses: Subprocesses, *, grace_seconds: float) -> None:
        self._subprocesses = subprocesses
        self._grace = grace_seconds

    async def run_command(
        self,
        command: Sequence[str],
        context: Context,
        *,
        name: str,
        environment: Mapping[str, str],
        given: bytes = b"",
        directory: Path | None = None,
    ) -> Any:
        """Runs one process; the end of its output is part of the result."""
        kept = {OUT: b"", ERR: b""}
        progress = {stream: ProgressLines(context.progress) for stream in kept}

        def keep(stream: str, data: bytes) -> None:
            if data:
                kept[stream] = (kept[stream] + data)[-2 * KEPT_BYTES :]
                context.feed(stream, data)

        def output(stream: str, data: bytes) -> None:
            keep(stream, progress[stream].feed(data))

        context.begin()
        process = await self._subprocesses.start(
            command,
            environment=clean_environment({**environment, **describe_run(context)}),
            output=output,
            given=given,
            directory=directory,
        )
        try:
            await process.ended.wait()
        except asyncio.CancelledError:
            await process.stop(min(self._grace, context.stop_within))
            raise
        finally:
            for stream, lines in progress.items():
                keep(stream, lines.rest())
        # Mask before cutting: half a secret would not be found.
        said = {
            stream: context.mask(clean_text(data.decode("utf-8", "replace")))[-KEPT_BYTES:]
            for stream, data in kept.items()
        }
        if process.start_errno is not None:
            raise NotStartedError(describe_end(name, process, said[ERR]), process.start_errno)
        if process.code or process.problem:
            problem = CommandError(describe_end(name, process, said[ERR]))
            problem.add_note(f"standard output:\n{said[OUT]}\nstandard error:\n{said[ERR]}")
            raise problem
        return {"exitCode": 0, "stdout": said[OUT], "stderr": said[ERR]}


def describe_run(context: Context) -> dict[str, str]:
    return {
        "ROTA_RUN_ID": context.run_id,
        "ROTA_JOB_ID": context.job_id,
        "ROTA_ATTEMPT": str(context.attempt),
        "ROTA_IDEMPOTENCY_KEY": context.idempotency_key,
        "ROTA_NOMINAL_TIME": context.nominal_time.isoformat(),
    }
