"""How an alert goes from pending to firing to resolved, by the rules alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rota.domain.alerts import (
    KINDS,
    MORE,
    MOST_KEYS,
    AlertFinding,
    AlertRule,
    AlertSettings,
    advance,
    bounded,
    check_rule,
)
from rota.errors import BadInputError

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
FINDING = AlertFinding("default", "pool:gpu", "pool gpu", 5.0, 1.0, "Pool gpu has no workers", "rota worker")
RULE = AlertRule("default", "alone", "no_worker", AlertSettings(for_seconds=60, resolve_seconds=30))


def walk(rule, *steps, silenced=()):
    """Takes an alert through (seconds after noon, whether the condition holds); what was told, and how it stands."""
    state, told = None, []
    for number, (seconds, holds) in enumerate(steps):
        finding = FINDING if holds else None
        moment = NOON + timedelta(seconds=seconds)
        step = advance(state, finding, rule, moment, is_silenced=number in silenced)
        state = step.after
        if step.told:
            told.append((seconds, step.told))
    return told, state.phase if state else None


def test_it_fires_after_the_condition_has_held_for_so_long():
    assert walk(RULE, (0, True), (59, True)) == ([], "pending")
    assert walk(RULE, (0, True), (59, True), (60, True), (70, True)) == ([(60, "fired")], "firing")


def test_a_condition_that_passes_soon_is_forgotten():
    assert walk(RULE, (0, True), (30, False)) == ([], None)
    assert walk(RULE, (0, True), (30, False), (40, True), (90, True)) == ([], "pending"), "it counts anew"


def test_it_is_resolved_after_the_condition_has_not_held_for_so_long():
    fired = [(0, True), (60, True)]
    assert walk(RULE, *fired, (70, False), (99, False)) == ([(60, "fired")], "firing")
    assert walk(RULE, *fired, (70, False), (100, False)) == ([(60, "fired"), (100, "resolved")], "resolved")


def test_it_does_not_flap():
    steps = [(0, True), (60, True), *((61 + number, bool(number % 20 == 19)) for number in range(200))]
    assert walk(RULE, *steps) == ([(60, "fired")], "firing")


def test_it_fires_again_after_it_was_resolved():
    at_once = msgspec.structs.replace(RULE, settings=AlertSettings(for_seconds=0, resolve_seconds=0))
    told, phase = walk(at_once, (0, True), (10, False), (20, True))
    assert told == [(0, "fired"), (10, "resolved"), (20, "fired")]
    assert phase == "firing"


def test_a_clock_that_went_back_makes_it_count_anew():
    assert walk(RULE, (3600, True), (0, True), (59, True)) == ([], "pending")
    assert walk(RULE, (3600, True), (0, True), (60, True)) == ([(60, "fired")], "firing")
    told, phase = walk(RULE, (3540, True), (3600, True), (3610, False), (0, False), (29, False))
    assert (told, phase) == ([(3600, "fired")], "firing")


def test_a_silenced_one_is_told_when_the_silence_ends_and_not_if_it_was_resolved_before():
    steps = [(0, True), (60, True), (70, True), (80, True)]
    assert walk(RULE, *steps, silenced={1, 2}) == ([(80, "fired")], "firing")
    calm = [(0, True), (60, True), (70, False), (100, False)]
    assert walk(RULE, *calm, silenced={1, 2, 3}) == ([], "resolved")


def test_one_that_was_told_is_told_resolved_even_if_it_is_silenced_since():
    calm = [(0, True), (60, True), (70, False), (100, False)]
    assert walk(RULE, *calm, silenced={2, 3}) == ([(60, "fired"), (100, "resolved")], "resolved")


def test_a_rule_that_is_switched_off_resolves_at_once():
    state = advance(None, FINDING, RULE, NOON, is_silenced=False).after
    state = advance(state, FINDING, RULE, NOON + timedelta(seconds=60), is_silenced=False).after
    off = msgspec.structs.replace(RULE, enabled=False)
    step = advance(state, None, off, NOON + timedelta(seconds=61), is_silenced=False)
    assert (step.after.phase, step.told) == ("resolved", "resolved")


def test_what_is_beyond_the_most_is_counted_in_one_and_open_ones_stay():
    findings = [msgspec.structs.replace(FINDING, key=f"job:{number}") for number in range(MOST_KEYS + 5)]
    others = [msgspec.structs.replace(FINDING, namespace="shop", key="job:1")]
    last = findings[-1]
    kept = bounded([*findings, *others], [(last.namespace, last.key)], "overdue")
    keys = [each.key for each in kept if each.namespace == "default"]
    assert len(keys) == MOST_KEYS + 1
    assert last.key in keys
    assert keys[-1] == MORE
    assert next(each for each in kept if each.key == MORE).value == 5
    assert [each.key for each in kept if each.namespace == "shop"] == ["job:1"]


@pytest.mark.parametrize(
    ("kind", "namespace", "settings", "field"),
    [
        ("success_rate", "default", {"threshold": 1.5}, "threshold"),
        ("start_lag", "default", {"window_seconds": 60.0}, "windowSeconds"),
        ("worker_lost", "default", {"window_seconds": 86400.0}, "windowSeconds"),
        ("success_rate", "default", {"task": "mail.send"}, "task"),
        ("dead_letters", "*", {"job": "nightly"}, "job"),
        ("start_lag", "default", {"database_bytes": 5}, "databaseBytes"),
        ("disk", "default", {}, "kind"),
    ],
)
def test_what_makes_no_sense_for_a_kind_is_named(kind, namespace, settings, field):
    with pytest.raises(BadInputError) as caught:
        check_rule(AlertRule(namespace, "x", kind, AlertSettings(**settings)))
    assert caught.value.fields[0][0] == field


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_that_says_nothing_is_valid_everywhere_it_may_be(kind):
    check_rule(AlertRule("*", "x", kind, AlertSettings()))
