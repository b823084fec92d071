"""rota alerts: what fires, rules, files, silences, tests."""

from __future__ import annotations

import pytest

from support import wait_until

FILE = """
rules:
  - name: file-mail-waits
    kind: oldest_queued
    threshold: 60
    pool: mail
    destinations: [pager]
  - name: file-nightly
    kind: schedule_overdue
    severity: info
    enabled: false
"""


def test_rules_are_set_shown_and_deleted(rota):
    rota.json("alerts", "set", "cli-rule", "--kind", "dead_letters", "--threshold", "5", "--window", "1h")
    changed = rota.json("alerts", "set", "cli-rule", "--severity", "info", "--for", "5m", "--off")
    assert (changed["threshold"], changed["windowSeconds"]) == (5.0, 3600.0), "what is not given stays"
    assert (changed["severity"], changed["forSeconds"], changed["enabled"]) == ("info", 300.0, False)
    shown = rota.in_process("alerts", "rules", "-n", "500").said
    assert "cli-rule" in shown
    assert "start-lag" in shown
    done = rota.in_process("alerts", "delete", "cli-rule")
    assert (done.code, done.out) == (0, "cli-rule is deleted\n")


def test_a_rule_of_the_installation_is_the_base_of_one_of_the_namespace(rota):
    made = rota.json("alerts", "set", "no-worker", "--pool", "gpu", "--off")
    assert (made["scope"], made["kind"], made["threshold"]) == ("namespace", "no_worker", 30.0)
    assert rota.json("alerts", "delete", "no-worker")["scope"] == "namespace"
    whole = rota.json("alerts", "set", "no-worker", "--threshold", "45", "--installation")
    assert (whole["scope"], whole["threshold"]) == ("installation", 45.0)


def test_a_new_rule_needs_a_kind(rota):
    done = rota.in_process("alerts", "set", "new-rule", "--threshold", "5")
    assert (done.code, "--kind" in done.err) == (2, True)
    done = rota.in_process("alerts", "set", "new-rule", "--kind", "success_rate", "--threshold", "5")
    assert (done.code, "--threshold" in done.err) == (2, True)


def test_a_file_of_rules_is_applied(rota, tmp_path):
    file = tmp_path / "alerts.yaml"
    file.write_text(FILE)
    first = rota.json("alerts", "apply", str(file))
    again = rota.json("alerts", "apply", str(file))
    fleeting = ("changedTime",)
    assert [{name: value for name, value in each.items() if name not in fleeting} for each in first] == [
        {name: value for name, value in each.items() if name not in fleeting} for each in again
    ]
    assert [(each["name"], each["enabled"], each["severity"]) for each in first] == [
        ("file-mail-waits", True, "warning"),
        ("file-nightly", False, "info"),
    ]
    assert first[0]["destinations"] == ["pager"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("rules: 5", "rules"),
        ("- name: x", "a list of rules"),
        ("rules: [{name: x}]", "kind"),
        ("rules: [{name: x, kind: mood}]", "kind"),
        ("rules: [{name: x, kind: disk, treshold: 1}]", "treshold"),
        ("rules: [{name: x, kind: disk}, {name: x, kind: disk}]", "stands twice"),
        ("rules: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_changes_nothing_and_says_why(rota, tmp_path, content, words):
    file = tmp_path / "alerts.yaml"
    file.write_text(content)
    done = rota.in_process("alerts", "apply", str(file))
    assert done.code == 2
    assert words in done.err


def test_silences_are_made_shown_and_ended(rota):
    made = rota.json("alerts", "silence", "--rule", "disk", "--for", "2h", "--reason", "we move the racks")
    assert "we move the racks" in rota.in_process("alerts", "silences").said
    done = rota.in_process("alerts", "unsilence", made["silenceId"])
    assert (done.code, "has ended" in done.out) == (0, True)


def test_a_test_is_recorded(rota):
    done = rota.in_process("alerts", "test", "disk")
    assert done.out == "Test of the rule disk, asked for by admin: recorded, for all destinations that want alerts\n"
    assert "Test of the rule disk" in rota.in_process("events").said


def test_alerts_are_listed_with_the_next_act(rota):
    rota.json("alerts", "set", "cli-alone", "--kind", "no_worker", "--threshold", "0", "--for", "0s")
    body = {"name": "for the gpu", "scheduleType": "immediate", "task": "rota.echo", "pool": "cli-gpu"}
    rota.ask("/v1/jobs", "POST", body=body)
    shown = wait_until(
        lambda: "Pool cli-gpu has no workers" in (said := rota.in_process("alerts").said) and said, within=90
    )
    assert "ROTA_NAMESPACES=default rota worker --pools cli-gpu" in shown
    rota.json("alerts", "delete", "cli-alone")
