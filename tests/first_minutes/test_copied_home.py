"""A home that was copied is a backup: it starts where it was, and schedules fire again what they fired since."""

from __future__ import annotations

import subprocess

from support import wait_until


def runs_of(newcomer, job):
    """By planned time, those that succeeded."""
    items = newcomer.ask(f"/v1/jobs/{job}/runs?limit=500")["items"]
    return {run["scheduledTime"]: run["runId"] for run in items if run["status"] == "success"}


def test_a_copied_home_starts_where_it_was_and_fires_again_what_was_fired_since(newcomer):
    with newcomer.running("up", "--workers", "1"):
        later = newcomer("submit", "later", "--task", "rota.echo", "--in", "1h", "--json").json["jobId"]
        every = ("--every", "1s", "--misfire", "all")
        tick = newcomer("submit", "tick", "--task", "rota.echo", *every, "--json").json["jobId"]
        wait_until(lambda: len(runs_of(newcomer, tick)) >= 2)
    backup = newcomer.home / "backup"
    subprocess.run(["cp", "-a", newcomer.rota_home, backup], check=True)
    with newcomer.running("up", "--workers", "1"):
        known = runs_of(newcomer, tick)
        wait_until(lambda: len(runs_of(newcomer, tick)) >= len(known) + 3)
        newcomer("cancel", later)
        since = runs_of(newcomer, tick).items() - known.items()
    newcomer.environment["ROTA_HOME"] = str(backup)
    with newcomer.running("up", "--workers", "1"):
        assert newcomer.ask(f"/v1/jobs/{later}")["status"] == "scheduled"
        wait_until(lambda: since <= runs_of(newcomer, tick).items())
        assert known.items() <= runs_of(newcomer, tick).items()
