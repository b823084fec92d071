"""Backfills, replays and bulk acts on the command line, against a real `rota up`."""

from __future__ import annotations

from support import wait_until

PAST = ("--from", "2026-03-01T00:00:00Z", "--to", "2026-03-04T00:00:00Z")


def ended(rota, operation):
    return wait_until(lambda: (found := rota.json("operation", operation))["status"] == "completed" and found)


def test_a_backfill_from_its_dry_run_to_its_end(rota):
    rota.json("submit", "daily to fill", "--task", "rota.echo", "--cron", "0 2 * * *")
    dry = rota.in_process("backfill", "daily to fill", *PAST, "--dry-run")
    assert dry.code == 0
    assert dry.out.startswith("3 runs")
    assert "2026-03-02 02:00:00Z" in dry.out
    made = rota.json("backfill", "daily to fill", *PAST, "--order", "newest", "--concurrency", "2")
    assert ended(rota, made["operationId"])["counts"]["success"] == 3
    shown = rota.in_process("operation", made["operationId"]).out
    assert "completed" in shown
    listed = rota.in_process("operations", "--kind", "backfill").out
    assert "daily to fill" in listed
    assert "3/3" in listed
    refused = rota.in_process("operation", made["operationId"], "--pause")
    assert refused.code == 2
    assert "completed" in refused.err


def test_a_replay_runs_what_it_is_given(rota):
    rota.json("submit", "to replay", "--task", "rota.echo", "--tag", "again", "--wait")
    dry = rota.json("replay", "--tag", "again", "--dry-run")
    assert dry["runs"] == 1
    made = rota.json("replay", "--tag", "again", "--most", "5")
    assert ended(rota, made["operationId"])["counts"]["made"] == 1


def test_what_is_missing_or_too_much_is_said(rota):
    for command, words in (
        (("backfill", *PAST), "give a job"),
        (("backfill", "nobody", *PAST), "no job has the id or the name"),
        (("backfill", "--workflow", "x", "--from", "yesterday"), "--from"),
        (("replay",), "give at least one field"),
        (("operation", "op_x"), "op_"),
        (("operation", "op_" + "0" * 32, "--pause", "--abort"), "give one of"),
    ):
        done = rota.in_process(*command)
        assert done.code == 2, command
        assert words in done.err
