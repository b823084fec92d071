"""Tells a story: does what a page says, in a shell of its own, and fails where it does not go as the page says.

A page has an empty directory, a HOME and a port of its own. One bash goes through all its blocks, so that directory and
exported variables carry over; each block is a file that it sources, with `set -e` and `pipefail`. Commands that go on
by themselves become jobs of that bash, each in a process group. A page that starts a second server means, as its
reader does, that the first was stopped with Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import psutil
from shapes import difference
from stories import Page, Step, parts_of

from rota.settings import DEFAULT_PORT
from rota.store.postgres.embedded import _binaries
from support import eventually, free_port

BLOCK_SECONDS = 120.0
READY_SECONDS = 60.0
STOP_SECONDS = 30.0
OUTPUT_SECONDS = 20.0
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what pages say, and tests do not do
MARK = "DOCUMENT_STORY"
SERVER = re.compile(r"\b(?:make up|rota (?:up|dev|api))\b")
ALONE = re.compile(r"\brota (?:scheduler|worker)\b")
BESIDE = re.compile(r"--port\b")
STOPPED_BY_SIGNAL = {0, *(128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))}


class StoryError(AssertionError):
    """Something did not go as the page says."""


@dataclass
class Job:
    """A command in the background: the process group it is in, and where its output and its end can be seen."""

    step: Step
    text: str
    group: int
    output: Path
    ended: Path

    @property
    def is_server(self) -> bool:
        return SERVER.search(self.text) is not None


class Telling:
    """One page being told. `directory` is where it begins; `behind` is for what the page does not see; `home` is where
    the embedded database is, its own unless the page goes on from another."""

    def __init__(
        self, page: Page, directory: Path, behind: Path, environment: dict[str, str], home: Path | None = None
    ) -> None:
        self._page = page
        self._directory = directory
        self._behind = behind
        self._home = home or behind / "home"
        self._mark = uuid4().hex
        self._port = free_port()
        self._environment = environment
        self._jobs: list[Job] = []
        self._number = 0
        self._last_output: Path | None = None
        self._python: asyncio.subprocess.Process | None = None

    async def tell(self) -> None:
        """The whole page; raises StoryError where it is not true."""
        await self._open()
        try:
            await self._provide()
            for step in self._page.steps:
                await self._do(step)
            self._check_jobs()
        finally:
            await self._close()

    async def _open(self) -> None:
        self._behind.mkdir(parents=True)
        self._home.mkdir(exist_ok=True)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:{_binaries()}",
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ROTA_PORT": str(self._port),
            MARK: self._mark,
        }
        with (self._behind / "shell.errors").open("wb") as errors:
            self._shell = await asyncio.create_subprocess_exec(
                "bash",
                "--noprofile",
                "--norc",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                cwd=self._directory,
                env=environment | self._environment,
                start_new_session=True,
            )

    async def _provide(self) -> None:
        """What the page needs before its first step."""
        if not self._page.needs_server:
            return
        app = self._page.app
        for part in self._page.parts_of_file(f"{app.partition(':')[0]}.py") if app else []:
            await self._do(part)
        command = f"rota up --workers 1{f' --app {app}' if app else ''}"
        await self._start(Step(1, "sh", "background", command), command)

    async def _do(self, step: Step) -> None:
        if step.kind in ("file", "adds"):
            await self._write_file(step)
        elif step.kind == "output":
            await self._compare(step)
        elif step.language == "python" and step.kind != "skipped":
            await self._run_python(step)
        elif step.kind == "background":
            await self._start(step, step.text)
        elif step.kind in ("run", "fails"):
            await self._run_shell(step)

    async def _run_shell(self, step: Step) -> None:
        if step.kind == "fails":
            status = await self._source(
                step, step.text, "( set -e; . {block} ) </dev/null >{output} 2>&1; echo $? >{new}"
            )
            if status == "0":
                raise self._error(step, "it should have failed, and did not")
            return
        for goes_on, text in parts_of(step.text):
            if goes_on:
                await self._start(step, text)
            else:
                command = "set -e; . {block} </dev/null >{output} 2>&1; set +e; echo 0 >{new}"
                await self._source(step, text, command)

    async def _source(self, step: Step, text: str, command: str) -> str:
        """Has the shell do this; gives what it says about it."""
        names = self._files(text)
        line = command.format(**{name: shlex.quote(str(path)) for name, path in names.items()})
        self._tell_shell(f"set -o pipefail; {line}; mv {names['new']} {names['verdict']}\n")
        with suppress(AssertionError):  # told below
            await eventually(
                lambda: names["verdict"].exists() or self._shell.returncode is not None, within=BLOCK_SECONDS
            )
        if names["verdict"].exists():
            return names["verdict"].read_text().strip()
        gone = self._shell.returncode
        raise self._error(step, f"no end after {BLOCK_SECONDS:g} s" if gone is None else f"exit status {gone}")

    def _files(self, text: str) -> dict[str, Path]:
        self._number += 1
        names = {
            name: self._behind / f"{self._number}.{name}" for name in ("block", "output", "new", "verdict", "ended")
        }
        names["block"].write_text(self._adapted(text))
        self._last_output = names["output"]
        return names

    def _adapted(self, text: str) -> str:
        """With a port of its own, and reachable for nobody else."""
        return text.replace(str(DEFAULT_PORT), str(self._port)).replace(EVERYWHERE, "127.0.0.1")

    def _tell_shell(self, line: str) -> None:
        self._shell.stdin.write(line.encode())

    async def _start(self, step: Step, text: str) -> None:
        """A command in the background, and waits until it can be used."""
        if SERVER.search(text) and not BESIDE.search(text):
            await self._stop([job for job in self._jobs if job.is_server], signal.SIGINT)
        command = (
            "set -m; {{ ( set -e; . {block} ) </dev/null >{output} 2>&1; echo $? >{ended}; }} & set +m; echo $! >{new}"
        )
        group = int(await self._source(step, text, command))
        job = Job(step, text, group, self._last_output, self._behind / f"{self._number}.ended")
        self._jobs.append(job)
        await self._until_usable(job)

    async def _until_usable(self, job: Job) -> None:
        """A server when it answers, a part of one when it has logged that it has begun, anything else at once."""

        async def is_decided() -> bool:
            if job.ended.exists():
                return True
            return await self._answers() if job.is_server else (job.output.exists() and job.output.stat().st_size > 0)

        if job.is_server or ALONE.search(job.text):
            await eventually(is_decided, within=READY_SECONDS, every=0.05)
            self._check_jobs()

    async def _answers(self) -> bool:
        async with httpx.AsyncClient(verify=False) as client:  # noqa: S501 - only asks whether somebody is there
            for scheme in ("http", "https"):
                with suppress(httpx.HTTPError):
                    answer = await client.get(f"{scheme}://127.0.0.1:{self._port}/readyz")
                    return answer.status_code == httpx.codes.OK
        return False

    async def _write_file(self, step: Step) -> None:
        name, into = shlex.quote(step.note), ">" if step.kind == "file" else ">>"
        command = f'mkdir -p "$(dirname {name})" && cat {{block}} {into}{name}; echo $? >{{new}}'
        if await self._source(step, step.text, command) != "0":
            raise self._error(step, f"{step.note} can't be written")

    async def _run_python(self, step: Step) -> None:
        where = self._behind / "directory"
        environment = self._behind / "environment"
        await self._source(step, "", f"pwd >{where}; env -0 >{environment}; echo 0 >{{new}}")
        names = self._files(step.text)
        task = {name: str(names[name]) for name in ("block", "output", "verdict")}
        task |= {"directory": where.read_text().rstrip("\n"), "environment": str(environment)}
        task |= {"page": str(self._page.path), "line": str(step.line)}
        python = await self._find_python()
        python.stdin.write(f"{json.dumps(task)}\n".encode())
        await eventually(lambda: names["verdict"].exists() or python.returncode is not None, within=BLOCK_SECONDS)
        problem = names["verdict"].read_text() if names["verdict"].exists() else f"exit status {python.returncode}"
        if bool(problem) != (step.kind == "fails"):
            raise self._error(step, problem or "it should have failed, and did not")
        if step.kind == "fails":
            names["output"].write_text(names["output"].read_text() + problem)

    async def _find_python(self) -> asyncio.subprocess.Process:
        if self._python is None:
            self._python = await asyncio.create_subprocess_exec(
                sys.executable,
                str(Path(__file__).with_name("python_story.py")),
                stdin=asyncio.subprocess.PIPE,
                env={"PATH": os.environ["PATH"], "HOME": str(self._home), MARK: self._mark},
                start_new_session=True,
            )
        return self._python

    async def _compare(self, step: Step) -> None:
        expected, output = self._adapted(step.text), self._last_output
        if any(job.output == output for job in self._jobs):  # still printing
            with suppress(AssertionError):
                await eventually(lambda: difference(expected, self._printed(output)) is None, within=OUTPUT_SECONDS)
        if problem := difference(expected, self._printed(output)):
            raise self._error(step, f"it prints something else:\n{problem}", with_output=False)

    def _printed(self, output: Path) -> str:
        text = output.read_text(errors="replace") if output.exists() else ""
        return text.replace(str(self._home), "~").replace(str(self._directory), ".")

    def _error(self, step: Step, problem: str, *, with_output: bool = True) -> StoryError:
        lines = [f"{self._page.path}:{step.line}: {problem}", "", step.text.rstrip()]
        if with_output and self._last_output:
            lines += ["", "which printed:", self._printed(self._last_output)]
        lines += [f"\n{job.text.strip()} printed:\n{self._printed(job.output)[-3000:]}" for job in self._jobs]
        return StoryError("\n".join(lines))

    def _check_jobs(self) -> None:
        """Whatever goes on by itself must not have ended by itself."""
        for job in self._jobs:
            if job.ended.exists() and int(job.ended.read_text()) not in STOPPED_BY_SIGNAL:
                raise self._error(job.step, f"{job.text.strip()} ended with {job.ended.read_text().strip()}")

    async def _close(self) -> None:
        await self._stop(self._jobs, signal.SIGTERM)
        for process in (self._shell, self._python):
            if process is not None and process.returncode is None:
                process.kill()
            if process is not None:
                await process.wait()
        await self._end_the_rest()

    async def _stop(self, jobs: list[Job], number: signal.Signals) -> None:
        for job in jobs:
            with suppress(ProcessLookupError):
                os.killpg(job.group, number)
        with suppress(AssertionError):  # then it is killed
            await eventually(lambda: not any(_is_there(job.group) for job in jobs), within=STOP_SECONDS)
        for job in jobs:
            with suppress(ProcessLookupError):
                os.killpg(job.group, signal.SIGKILL)

    async def _end_the_rest(self) -> None:
        """What was started and is still there is known by a variable in its environment."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.left_behind():
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            with suppress(AssertionError):  # then it is killed
                await eventually(lambda: not self.left_behind(), within=STOP_SECONDS, every=0.1)

    def left_behind(self) -> list[psutil.Process]:
        """Processes of this story that are still there."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error, OSError):
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self._mark
        return False


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
