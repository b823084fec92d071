"""A disk that is full: said in words, and once there is room again everything goes on by itself."""

from __future__ import annotations

import subprocess

import pytest
from newcomer import Newcomer

from support import wait_until

MEGABYTE = 1024**2


@pytest.fixture
def small_disk(short_path):
    """A file system of so many megabytes."""
    place = short_path / "disk"
    place.mkdir()

    def make(megabytes):
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
        return place

    yield make
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def fill(place):
    """Leaves no room at all."""
    with (place / "fill").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * MEGABYTE)
            except OSError:
                return


def test_a_disk_too_small_for_a_database_is_told_in_a_line(small_disk, short_path, free_port):
    who = Newcomer(short_path, free_port(), ROTA_HOME=str(small_disk(20) / "home"))
    done = who("up")
    assert done.code == 2
    assert "is full: free some space, or choose a home on another disk (--home)" in done.said
    assert len(done.err.strip().splitlines()) == 1, done.err


def test_a_disk_that_gets_full_is_told_and_recovered_from(small_disk, short_path, free_port):
    place = small_disk(200)
    who = Newcomer(short_path, free_port(), ROTA_HOME=str(place / "home"))
    large = '{"text": "' + "x" * 100_000 + '"}'
    with who.running("up", "--workers", "1") as background:
        assert who("submit", "hello", "--task", "rota.echo", "--wait").code == 0
        fill(place)
        background.wait_for("the disk is nearly full: make room")
        refused = who("submit", "large", "--task", "rota.echo", "--payload", large)
        assert refused.code == 1
        assert "No space left on device" in refused.said
        found = who("doctor", "--json").json["findings"]
        assert any(one["check"] == "disk" and one["state"] == "problem" for one in found)
        (place / "fill").unlink()
        background.wait_for("there is room on the disk again")
        wait_until(lambda: who("submit", "large", "--task", "rota.echo", "--payload", large, "--wait").code == 0)
        assert background.stop() == 0
