"""Subprocesses leave nothing behind: not when they are stopped, not when the worker is killed or paused."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from rota.worker.runners import guarded_process as module
from rota.worker.runners.guarded_process import Subprocesses
from support import GUARD_SECONDS, eventually, in_time

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture
def subprocesses():
    return Subprocesses()


class Output:
    def __init__(self):
        self.streams = {"stdout": b"", "stderr": b""}

    def __call__(self, stream, data):
        self.streams[stream] += data


def alive(mark):
    """What still runs with this in its command line."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE and mark in (process.info["cmdline"] or ())
    ]


def mark():
    """A length of sleep that nobody else sleeps."""
    return f"{1000 + time.monotonic_ns() % 10**9 / 10**9:.9f}"


async def test_everything_that_is_written_is_read_and_the_exit_code_comes_last(subprocesses):
    output = Output()
    process = await subprocesses.start(
        ["sh", "-c", "cat; echo err >&2; exit 3"], environment=ENVIRONMENT, output=output, given=b"x" * 300_000
    )
    await in_time(process.ended.wait())
    assert process.code == 3
    assert output.streams == {"stdout": b"x" * 300_000, "stderr": b"err\n"}


async def test_a_hundred_megabytes_of_output_do_not_block_it(subprocesses):
    seen = 0

    def count(_stream, data):
        nonlocal seen
        seen += len(data)

    process = await subprocesses.start(
        ["sh", "-c", "head -c 100000000 /dev/zero"], environment=ENVIRONMENT, output=count
    )
    await in_time(process.ended.wait())
    assert (process.code, seen) == (0, 100_000_000)


async def test_a_command_that_cannot_be_started_says_why(subprocesses):
    process = await subprocesses.start(["/no/such/thing"], environment=ENVIRONMENT, output=Output())
    await in_time(process.ended.wait())
    assert process.problem == "No such file or directory"


async def test_what_forks_escapes_and_ignores_sigterm_is_gone_after_the_grace_period(subprocesses):
    seconds = mark()
    script = f"""trap '' TERM
        setsid sh -c 'trap "" TERM; sleep {seconds}' &
        (setsid setsid sleep {seconds} &) &
        echo ready; sleep {seconds}"""
    output = Output()
    process = await subprocesses.start(["sh", "-c", script], environment=ENVIRONMENT, output=output)
    await eventually(lambda: len(alive(seconds)) >= 3)
    await in_time(process.stop(0.2))
    assert process.code == -signal.SIGKILL
    assert alive(seconds) == []


async def test_what_a_command_leaves_running_ends_with_it(subprocesses):
    seconds = mark()
    process = await subprocesses.start(
        ["sh", "-c", f"setsid sleep {seconds} & sleep 0.2"], environment=ENVIRONMENT, output=Output()
    )
    await in_time(process.ended.wait())
    assert process.code == 0
    assert alive(seconds) == []


async def test_a_sweep_ends_the_others_and_not_the_command(subprocesses):
    seconds = mark()
    script = f"import subprocess, time; subprocess.Popen(['setsid', 'sleep', '{seconds}']); time.sleep(60)"
    process = await subprocesses.start([sys.executable, "-c", script], environment=ENVIRONMENT, output=Output())
    await eventually(lambda: alive(seconds))
    await in_time(process.sweep())
    assert alive(seconds) == []
    assert not process.ended.is_set()
    process.kill()
    await in_time(process.ended.wait())


async def test_a_lease_that_is_not_kept_ends_everything(subprocesses):
    seconds = mark()
    process = await subprocesses.start(
        ["sh", "-c", f"setsid sleep {seconds} & sleep {seconds}"], environment=ENVIRONMENT, output=Output()
    )
    await eventually(lambda: len(alive(seconds)) == 2)
    subprocesses.extend_deadline(time.monotonic() + 30)
    await asyncio.sleep(0.2)
    assert not process.ended.is_set()
    subprocesses.extend_deadline(time.monotonic() + 0.3)
    await in_time(process.ended.wait())
    assert alive(seconds) == []


async def test_a_guardian_that_is_killed_takes_its_command_with_it(subprocesses):
    seconds = mark()
    process = await subprocesses.start(
        ["sh", "-c", f"sleep {seconds} & kill -9 $PPID; sleep {seconds}"], environment=ENVIRONMENT, output=Output()
    )
    await in_time(process.ended.wait())
    assert process.problem == "its guardian was killed"
    await eventually(lambda: alive(seconds) == [])


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
async def test_nothing_survives_a_worker_that_is_killed_or_paused(tmp_path, fate):
    seconds = mark()
    program = tmp_path / "worker.py"
    program.write_text(
        textwrap.dedent(f"""
        import asyncio, os, sys, time
        from rota.worker.runners.guarded_process import Subprocesses

        async def main():
            subprocesses = Subprocesses()
            command = ["sh", "-c", "setsid sleep {seconds} & trap '' TERM; sleep {seconds}"]
            await subprocesses.start(command, environment=dict(os.environ), output=print)
            lease = float(await asyncio.to_thread(sys.stdin.readline))
            while True:
                subprocesses.extend_deadline(time.monotonic() + lease)
                print("kept", flush=True)
                await asyncio.sleep(0.1)

        asyncio.run(main())
        """)
    )
    pipes = dict.fromkeys(("stdin", "stdout"), asyncio.subprocess.PIPE)
    worker = await asyncio.create_subprocess_exec(sys.executable, str(program), **pipes)
    try:
        await eventually(lambda: len(alive(seconds)) == 2)
        # The lease of a paused worker soon runs out; that of a killed one does not, and must not matter.
        worker.stdin.write(b"3\n" if fate == signal.SIGSTOP else b"3600\n")
        await in_time(worker.stdout.readline())
        worker.send_signal(fate)
        await eventually(lambda: alive(seconds) == [])
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()


async def test_daemons_that_fork_and_end_while_they_are_looked_for_are_found(subprocesses, tmp_path):
    seconds = mark()
    program = tmp_path / "daemon.py"
    program.write_text(
        textwrap.dedent(f"""
        import os
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execvp("sleep", ["sleep", "{seconds}"])
                os._exit(0)
        """)
    )
    for _ in range(8):
        process = await subprocesses.start(
            [sys.executable, "-I", "-S", str(program)], environment=ENVIRONMENT, output=Output()
        )
        await in_time(process.ended.wait())
    assert alive(seconds) == []


async def test_a_guardian_that_was_stopped_is_got_rid_of(subprocesses, monkeypatch):
    monkeypatch.setattr(module, "FORCE_SECONDS", 0.5)
    seconds = mark()
    process = await subprocesses.start(
        ["sh", "-c", f"kill -STOP $PPID; sleep {seconds}"], environment=ENVIRONMENT, output=Output()
    )
    await eventually(lambda: alive(seconds))
    await in_time(process.stop(0.2))
    await eventually(lambda: alive(seconds) == [])


def _open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_start_that_fails_leaves_no_file_descriptor_open(subprocesses, tmp_path):
    before = _open_files()
    for _ in range(5):
        with pytest.raises(OSError, match="no-such"):
            await subprocesses.start(["true"], environment=ENVIRONMENT, output=Output(), directory=tmp_path / "no-such")
    assert _open_files() <= before + 1


async def test_a_start_that_is_cancelled_leaves_nothing_running(subprocesses):
    seconds = mark()
    starting = asyncio.create_task(subprocesses.start(["sleep", seconds], environment=ENVIRONMENT, output=Output()))
    await asyncio.sleep(0)  # it has begun, and on no machine is it done by now
    assert starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_time(starting)
    assert alive(seconds) == []


async def test_many_that_start_together_do_not_stop_the_event_loop(subprocesses, monkeypatch):
    loop, start = asyncio.get_running_loop(), subprocess.Popen

    def start_once_the_loop_has_turned(*arguments, **options):
        turned = threading.Event()
        loop.call_soon_threadsafe(turned.set)
        assert turned.wait(GUARD_SECONDS), "the event loop waits for the start of a process"
        return start(*arguments, **options)

    monkeypatch.setattr(module.subprocess, "Popen", start_once_the_loop_has_turned)
    started = await asyncio.gather(
        *(subprocesses.start(["true"], environment=ENVIRONMENT, output=Output()) for _ in range(50))
    )
    await in_time(asyncio.gather(*(process.ended.wait() for process in started)))
