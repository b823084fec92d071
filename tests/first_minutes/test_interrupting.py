"""Ctrl-C, a closed terminal and kill -9, at whatever moment: nothing is left running, and the next start works."""

from __future__ import annotations

import fcntl
import os
import subprocess
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
