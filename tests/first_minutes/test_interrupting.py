"""Ctrl-C, a closed terminal and kill -9, at whatever moment: nothing is left running, and the next start works."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios

import psutil
import pytest

from commands import ROTA, SECONDS, Background
from support import family_of, kill_all, wait_until

MOMENTS = ("at once", "while the database is made", "while it starts")


def has_come(moment, home):
    """Whether a first start is so far, or further."""
    place = home / "postgres"
    seen = {
        "at once": True,
        "while the database is made": (place / "data.new").exists() or (place / "data").exists(),
        "while it starts": (place / "data" / "postmaster.pid").exists(),
    }
    return seen[moment]


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_during_the_first_start_leaves_nothing_behind_and_no_traceback(newcomer, moment):
    with Background(newcomer, "up", "--workers", "1") as background:
        wait_until(lambda: "Starting Rota" in background.said, within=SECONDS)
        wait_until(lambda: has_come(moment, newcomer.rota_home), within=SECONDS)
        assert background.stop() in (0, 130), background.said
    assert "Stopped" in background.said
    wait_until(lambda: family_of(newcomer.rota_home) == [])


# Presses Ctrl-C when a module is about to be loaded: as it comes, or in a callback, where Python swallows exceptions.
PRESSING = """
import os, signal, sys, weakref

signal.signal(signal.SIGINT, signal.default_int_handler)
module, how, *arguments = sys.argv[1:]
sys.argv = ["rota", *arguments]


def press(*_):
    os.kill(os.getpid(), signal.SIGINT)


class Presser:
    def find_spec(self, name, *_):
        if name != module:
            return
        if how == "plainly":
            press()
        else:
            thing = set()
            dying = weakref.ref(thing, press)
            del thing


sys.meta_path.insert(0, Presser())
from rota.cli.entry import main

main()
"""


@pytest.mark.parametrize("how", ["plainly", "in a callback"])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("typer", ["--help"]),
        ("rota.settings", ["jobs"]),
        ("rota.cli.process_start", ["up"]),
        ("asyncpg", ["worker"]),
        ("rota.api.server", ["api"]),
    ],
)
def test_ctrl_c_while_a_command_loads_is_a_line(newcomer, module, arguments, how):
    command = [sys.executable, "-c", PRESSING, module, how, *arguments]
    done = subprocess.run(command, env=newcomer.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted while starting.\n")


def test_a_command_in_the_background_is_not_interrupted(newcomer):
    """A shell ignores the signal for it."""
    ignoring = PRESSING.replace("signal.default_int_handler", "signal.SIG_IGN", 1)
    command = [sys.executable, "-c", ignoring, "typer", "plainly", "--version"]
    done = subprocess.run(command, env=newcomer.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:5], done.stderr) == (0, "rota ", "")


def test_everything_killed_at_once_starts_again_with_all_that_was_accepted(newcomer):
    with newcomer.running("up", "--workers", "1") as background:
        job = newcomer("submit", "later", "--task", "rota.echo", "--in", "1h", "--json").json["jobId"]
        kill_all([*family_of(newcomer.rota_home), psutil.Process(background.process.pid)])
        background.process.wait()
    with newcomer.running("up", "--workers", "1") as again:
        assert newcomer("job", job, "--json").json["status"] == "scheduled"
        assert again.stop() == 0


def test_a_terminal_that_is_closed_stops_everything(newcomer):
    leader, follower = os.openpty()
    process = subprocess.Popen(
        [*ROTA, "up", "--workers", "1"],
        env=newcomer.environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call
    )
    os.close(follower)
    said = b""
    while b"Ctrl-C stops" not in said:
        said += os.read(leader, 65536)
    os.close(leader)
    assert process.wait(SECONDS) == 0, "in good order"
    wait_until(lambda: family_of(newcomer.rota_home) == [])
