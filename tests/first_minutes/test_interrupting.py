"""Ctrl-C, a closed terminal and kill -9, at whatever moment: nothing is left running, and the next start works."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import termios

import psutil
import pytest
from newcomer import ROTA, START_SECONDS, Background, wait_until


def family_of(home):
    """The processes that belong to this home, by what they were started with."""
    found = []
    for process in psutil.process_iter():
        try:
            words, environment = process.cmdline(), process.environ()
        except psutil.Error:
            continue
        if str(home / "postgres" / "data") in words or environment.get("ROTA_HOME") == str(home):
            found.append(process)
    return found


def moments(home):
    """What can be seen of a first start, in its order."""
    return {
        "at once": lambda: True,
        "while the database is made": (home / "postgres" / "data.new").exists,
        "while it starts": (home / "postgres" / "data" / "postmaster.pid").exists,
        "while the server starts": lambda: any("api" in _words(process) for process in family_of(home)),
    }


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize("moment", list(moments(__import__("pathlib").Path("/"))))
def test_ctrl_c_during_the_first_start_leaves_nothing_behind_and_no_traceback(newcomer, moment):
    with Background(newcomer, ("up", "--workers", "1"), cwd=None, environment={}) as background:
        wait_until(lambda: "Starting Rota" in background.said, within=START_SECONDS)
        wait_until(moments(newcomer.rota_home)[moment], within=START_SECONDS)
        background.interrupt()
        assert background.process.returncode in (0, 1, 130, -signal.SIGINT), background.said
    assert "Traceback" not in background.said
    wait_until(lambda: family_of(newcomer.rota_home) == [])


def test_everything_killed_at_once_starts_again_with_all_that_was_accepted(newcomer):
    with newcomer.running("up", "--workers", "1") as background:
        job = newcomer("submit", "later", "--task", "rota.echo", "--in", "1h", "--json").json["jobId"]
        for process in [*family_of(newcomer.rota_home), psutil.Process(background.process.pid)]:
            process.kill()
        background.process.wait()
    with newcomer.running("up", "--workers", "1") as again:
        assert newcomer("job", job, "--json").json["status"] == "scheduled"
        assert again.interrupt() == 0


def test_a_terminal_that_is_closed_stops_everything(newcomer):
    leader, follower = os.openpty()
    process = subprocess.Popen(
        [*ROTA, "up", "--workers", "1"],
        env=newcomer.environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
    )
    os.close(follower)
    said = b""
    while b"Ctrl-C stops" not in said:
        said += os.read(leader, 65536)
    os.close(leader)
    process.wait(START_SECONDS)
    wait_until(lambda: family_of(newcomer.rota_home) == [])
