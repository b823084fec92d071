"""Views that are drawn again and again, on a real terminal and in a pipe."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import termios
import threading
from contextlib import asynccontextmanager, suppress

import pytest

import commands
import rota
from listening import listening
from rota.cli.terminal import live_view
from rota.client import ServerUnreachableError
from serving import TOKEN
from support import eventually, in_time

ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9])")


def environment(server, **more):
    ours = commands.environment(ROTA_URL=server.url, TERM="xterm-256color", **{"ROTA_TOKEN": TOKEN} | more)
    return {name: value for name, value in ours.items() if name not in ("COLUMNS", "LINES")}


class Terminal:
    """A command on a terminal of its own, as somebody sees it who may press keys."""

    def __init__(self, process, descriptor):
        self.process = process
        self._descriptor = descriptor
        self.raw = ""

    def read(self):
        with suppress(OSError):  # the other end is closed: the command has ended
            self.raw += os.read(self._descriptor, 65536).decode(errors="replace")
            return
        asyncio.get_running_loop().remove_reader(self._descriptor)

    @property
    def text(self):
        return ESCAPES.sub("", self.raw)

    async def until(self, *words):
        return await eventually(lambda: all(word in self.text for word in words) and self.text)

    def press(self, key):
        os.write(self._descriptor, key.encode())


@asynccontextmanager
async def on_terminal(server, *arguments, columns=80, lines=24, **more):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *commands.ROTA,
        *arguments,
        env=environment(server, **more),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    before = termios.tcgetattr(theirs)
    terminal = Terminal(process, ours)
    terminal.settings_changed = lambda: termios.tcgetattr(theirs)[3] != before[3]
    asyncio.get_running_loop().add_reader(ours, terminal.read)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        os.close(theirs)


async def in_a_pipe(server, *arguments, **more):
    process = await asyncio.create_subprocess_exec(
        *commands.ROTA,
        *arguments,
        env=environment(server, **more),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await in_time(process.communicate())
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def busy(engine):
    """A server with a worker on which something runs that goes on, something failed, and something waits."""
    until = threading.Event()

    async with listening(engine.api.services) as server, engine.running(engine.worker({"hold": _holding(until)})):
        server.running = await engine.submit(task="hold", name="long one")
        server.failed = await engine.submit(task="rota.fail", name="broken", maxRetries=0)
        await engine.submit(name="elsewhere", pool="nobody")
        await engine.until(server.failed, "failed")
        await engine.until(server.running, "running")
        server.let_go = until.set
        try:
            yield server
        finally:
            until.set()


def _holding(until):
    def hold(context: rota.Context):
        context.progress(0.4, "loading")
        until.wait(600)

    return hold


async def test_top_is_drawn_again_until_q_and_leaves_the_terminal_as_it_was(busy, engine):
    async with on_terminal(busy, "top", "--interval", "0.5") as terminal:
        await terminal.until("per second", "RUNNING NOW", "long one", "dead letters 1")
        assert terminal.settings_changed()
        await engine.submit(task="rota.fail", maxRetries=0)
        await terminal.until("dead letters 2")
        terminal.press("q")
        assert await in_time(terminal.process.wait()) == 0
        assert not terminal.settings_changed()
        assert "\x1b[?1049h" in terminal.raw
        assert terminal.raw.rstrip().endswith("\x1b[?25h") or "\x1b[?1049l" in terminal.raw


async def test_top_ends_by_ctrl_c_without_a_word(busy):
    async with on_terminal(busy, "top") as terminal:
        await terminal.until("RUNNING NOW")
        terminal.press("\x03")
        assert await in_time(terminal.process.wait()) == 0
        assert "Traceback" not in terminal.text
        assert not terminal.settings_changed()


@pytest.mark.parametrize(("columns", "lines"), [(40, 12), (60, 24), (200, 50)])
async def test_top_keeps_to_the_terminal_it_has(busy, columns, lines):
    async with on_terminal(busy, "top", columns=columns, lines=lines, NO_COLOR="1") as terminal:
        await terminal.until("per second")
        terminal.press("q")
        await in_time(terminal.process.wait())
    shown = terminal.text.replace("\r", "").split("\n")
    assert max(len(line) for line in shown) <= columns
    assert len(shown) <= lines


async def test_top_in_a_pipe_is_one_whole_look(busy):
    code, out, err = await in_a_pipe(busy, "top")
    assert (code, err) == (0, "")
    assert busy.running in out
    assert "\x1b" not in out
    assert re.search(r"nobody +open +0/0 +1 ", out), out


async def test_top_as_json_is_what_the_server_says(busy):
    code, out, _ = await in_a_pipe(busy, "top", "--once", "--json", "--window", "30")
    assert code == 0
    found = json.loads(out)
    assert (found["windowSeconds"], found["counts"]["deadLetters"]) == (30, 1)


async def test_top_says_that_the_server_is_away_and_goes_on_when_it_is_back(engine):
    async with listening(engine.api.services) as server:
        terminal = on_terminal(server, "top", "--interval", "0.5")
        shown = await terminal.__aenter__()
        await shown.until("per second")
    try:
        await shown.until("No answer, trying again")
        assert shown.process.returncode is None
        shown.raw = ""
        async with listening(engine.api.services, port=server.port):
            await shown.until("per second")
            shown.press("q")
            assert await in_time(shown.process.wait()) == 0
    finally:
        await terminal.__aexit__(None, None, None)


async def test_a_token_that_is_not_accepted_ends_top_with_a_line(busy):
    code, out, err = await in_a_pipe(busy, "top", ROTA_TOKEN="wrong")  # noqa: S106 - wrong on purpose
    assert (code, out) == (1, "")
    assert "does not accept the token" in err


async def test_watching_a_run_shows_how_far_it_is_and_ends_with_it(busy):
    async with on_terminal(busy, "watch", busy.running, columns=120) as terminal:
        await terminal.until("long one", "[########............] 40%", "loading")
        busy.let_go()
        assert await in_time(terminal.process.wait()) == 0
        await terminal.until("success")


async def test_watching_a_run_that_fails_ends_with_exit_code_1(busy):
    code, out, _ = await in_a_pipe(busy, "watch", busy.failed)
    assert code == 1
    assert "broken  failed" in out


async def test_a_job_is_watched_by_its_name(busy):
    code, out, _ = await in_a_pipe(busy, "watch", "broken")
    assert code == 1
    assert busy.failed in out


async def test_a_name_that_no_job_has_is_told(busy):
    code, _, err = await in_a_pipe(busy, "watch", "brokn")
    assert code == 2
    assert "no job has the id or the name 'brokn'" in err


async def test_a_schedule_is_watched_with_its_runs_until_somebody_has_enough(busy, engine):
    job = await engine.recurring(name="often", scheduleType="interval", everySeconds=3600)
    await engine.api.post(f"/v1/jobs/{job}/run")
    async with on_terminal(busy, "watch", "often", columns=100) as terminal:
        await terminal.until("every 3600 s", "next: ", "success")
        terminal.process.send_signal(signal.SIGINT)
        assert await in_time(terminal.process.wait()) == 0
    assert "it continues" in terminal.text


async def test_watching_in_a_pipe_tells_each_change_once(busy, engine):
    run = await engine.submit(task="rota.sleep", payload={"seconds": 1.5}, name="nap")
    code, out, _ = await in_a_pipe(busy, "watch", run)
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == len(set(lines))
    assert " success " in lines[-1]


async def test_why_it_waits_is_shown(busy, engine):
    run = await engine.submit(name="alone", pool="nobody")
    async with on_terminal(busy, "watch", run) as terminal:
        await terminal.until("waits: ")
        terminal.press("q")
        assert await in_time(terminal.process.wait()) == 1


async def test_somebody_who_stops_watching_a_run_does_not_hear_that_it_succeeded(busy):
    async with on_terminal(busy, "watch", busy.running) as terminal:
        await terminal.until("long one")
        terminal.press("\x03")
        assert await in_time(terminal.process.wait()) == 1


async def test_a_paused_pool_is_seen_on_a_narrow_terminal(busy, engine):
    await engine.api.post("/v1/pools/default/pause")
    async with on_terminal(busy, "top", columns=60) as terminal:
        await terminal.until("paused")
        terminal.press("q")
        await in_time(terminal.process.wait())


async def test_a_mistyped_pool_is_told(busy):
    code, _, err = await in_a_pipe(busy, "pool", "defualt", "--pause")
    assert code == 0
    assert "No live worker serves pool defualt. Did you mean default?" in err


async def test_waiting_tells_why_an_attempt_failed(busy, engine):
    run = await engine.submit(task="rota.fail", maxRetries=1, retry={"strategy": "fixed", "baseSeconds": 3600})
    pipes = dict.fromkeys(("stdout", "stderr"), asyncio.subprocess.PIPE)
    command = (*commands.ROTA, "run", run, "--wait")
    waiting = await asyncio.create_subprocess_exec(*command, env=environment(busy), **pipes)
    while b"the last attempt failed: " not in (said := await in_time(waiting.stderr.readline())):
        assert said, "it ended without a word of it"
    await engine.api.post(f"/v1/runs/{run}/cancel")
    await in_time(waiting.communicate())
    assert waiting.returncode == 1


def test_without_a_terminal_a_server_that_does_not_come_back_is_not_waited_for_for_ever(monkeypatch):
    asked, told = [], []

    def look():
        asked.append(1)
        raise ServerUnreachableError("gone")

    monkeypatch.setattr(live_view, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(ServerUnreachableError):
        live_view.try_again(look, told.append)
    assert len(asked) > 1
    assert told == ["No answer, trying again: gone"]
