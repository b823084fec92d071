"""Each rule of the checker fires when a history tells that lie, and none fires for a history that is true."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from checker import MOST_PAUSED_AT_START, RULES, violations
from history import Accepted, Answer, Exit, History, Note, Sample, StoredRun

NOON = 1_800_000_000.0


def true_history() -> History:
    """One job of each kind that a rule looks at, all as they should be."""
    history = History(dead_letters=["run_hopeless"], charges=["run_charge"])
    add(history, "plain", "run_plain")
    add(history, "hopeless", "run_hopeless", status="failed", ended=False)
    add(history, "once", "run_once", fields={"maxRetries": 0})
    add(history, "charge", "run_charge")
    add(history, "snoozer", "run_snoozer").checkpoint = "2"
    add(history, "expiring", "run_expired", status="skipped", started=False, ended=False)
    for number in (1, 2):
        add(history, "ordered", f"run_ordered{number}", at=NOON + number, fields={"orderingKey": "k"}, number=number)
        unique = {"uniqueKey": "u", "onDuplicate": "reject"}
        add(history, "unique-reject", f"run_unique{number}", at=NOON + number, fields=unique)
        add(history, "limited", f"run_limited{number}", fields={"concurrencyKey": "few", "concurrencyLimit": 2})
        rate = {"limit": 1, "perSeconds": 1, "burst": 1, "key": "r"}
        add(history, "rated", f"run_rated{number}", at=NOON + 2 * number, fields={"rateLimit": rate})
    history.samples = [Sample(NOON, "few", 2), Sample(NOON, "k", 1)]
    add(history, "future", "run_cancelled", status="cancelled", started=False, ended=False)
    answered(history, "cancel", "run_cancelled", status="cancelled")
    answered(history, "read", "run_plain", at=NOON + 9, status="success")
    history.accepted.append(Accepted("schedule", "each second", "job_s", None, NOON - 0.5, NOON - 0.4))
    for second in (0, 1, 2, *range(6, 28)):
        fired(history, second)
    answered(history, "pause", "job_s", at=NOON + 2.5)
    answered(history, "resume", "job_s", at=NOON + 5.5)
    answered(history, "cancel", "job_s", at=NOON + 27.5, status="cancelled")
    return history


def add(
    history: History,
    kind: str,
    run_id: str,
    *,
    status: str = "success",
    at: float = NOON,
    started: bool = True,
    ended: bool = True,
    fields: dict | None = None,
    number: int = 0,
) -> StoredRun:
    job_id = run_id.replace("run_", "job_")
    history.accepted.append(Accepted(kind, run_id, job_id, run_id, at, at + 0.1, fields or {}, number))
    run = StoredRun(run_id, job_id, run_id, status, "submit", 1, at, at, at, at + 0.2, at + 0.5)
    history.runs.append(run)
    if started:
        history.notes.append(Note("start", run_id, 1, at + 0.2, 1))
    if ended:
        history.notes.append(Note("end", run_id, 1, at + 0.4, 1))
    return run


def fired(history: History, second: int) -> None:
    at = NOON + second
    history.runs.append(
        StoredRun(f"run_s{second}", "job_s", "each second", "success", "schedule", 1, at, at, at, at, at + 0.1)
    )


def answered(
    history: History, what: str, target: str, *, at: float = NOON + 0.1, code: int = 200, status: str | None = None
) -> None:
    body = {} if status is None else {"status": status}
    history.answers.append(Answer(what, target, at, at + 0.05, code, body))


def run_of(history: History, run_id: str) -> StoredRun:
    return next(run for run in history.runs if run.id == run_id)


def without(history: History, run_id: str) -> None:
    history.runs = [run for run in history.runs if run.id != run_id]


def note(history: History, run_id: str, at: float, what: str = "start") -> None:
    history.notes.append(Note(what, run_id, 1, at, 1))


def late_starts(history: History) -> None:
    for _ in range(MOST_PAUSED_AT_START + 1):
        note(history, "run_plain", NOON + 60)


def unending(history: History) -> None:
    history.drained = False


def set_(run_id: str, **fields: object) -> Callable[[History], None]:
    def change(history: History) -> None:
        for name, value in fields.items():
            setattr(run_of(history, run_id), name, value)

    return change


LIES: list[tuple[str, Callable[[History], None]]] = [
    ("everything_ends", unending),
    ("nothing_accepted_is_lost", lambda history: without(history, "run_plain")),
    ("one_job_per_key", lambda history: history.accepted[0].answers.append("job_other")),
    ("one_job_per_key", lambda history: history.runs.append(run_of(history, "run_plain"))),
    ("runs_end_as_their_kind_allows", set_("run_plain", status="cancelled")),
    ("a_success_was_really_run", lambda history: history.notes.remove(history.notes[1])),
    ("what_was_skipped_never_ran", lambda history: note(history, "run_expired", NOON + 0.2)),
    ("a_failure_for_good_is_a_dead_letter", lambda history: history.dead_letters.clear()),
    ("a_failure_for_good_is_a_dead_letter", lambda history: history.dead_letters.append("run_plain")),
    ("nothing_starts_early", set_("run_plain", nominal_at=NOON + 0.3)),
    ("nothing_starts_after_its_end", late_starts),
    ("without_retries_nothing_starts_twice", lambda history: note(history, "run_once", NOON + 0.3)),
    ("attempts_stay_within_their_retries", set_("run_once", attempt=2)),
    ("a_key_runs_in_order", set_("run_ordered1", finished_at=NOON + 2.3)),
    ("limits_hold", lambda history: history.samples.append(Sample(NOON, "few", 3))),
    ("limits_hold", lambda history: history.samples.append(Sample(NOON, "k", 2))),
    ("rates_hold", lambda history: [note(history, "run_rated1", NOON + 2.3) for _ in range(3)]),
    ("every_charge_exists_once", lambda history: history.charges.append("run_charge")),
    ("every_charge_exists_once", lambda history: history.charges.clear()),
    ("every_charge_exists_once", lambda history: history.charges.append("run_unknown")),
    ("a_unique_key_has_one_that_waits", set_("run_unique1", nominal_at=NOON + 9, finished_at=NOON + 10)),
    ("cancels_are_honoured", set_("run_cancelled", status="success")),
    ("cancels_are_honoured", lambda history: note(history, "run_cancelled", NOON + 0.4)),
    ("answers_are_true", lambda history: answered(history, "read", "run_plain", status="failed")),
    ("answers_are_true", lambda history: answered(history, "read", "run_plain", code=404)),
    ("checkpoints_survive", set_("run_snoozer", checkpoint="1")),
    ("each_fire_time_has_one_run", lambda history: without(history, "run_s1")),
    ("each_fire_time_has_one_run", lambda history: without(history, "run_s7")),
    ("each_fire_time_has_one_run", lambda history: fired(history, 1)),
    ("each_fire_time_has_one_run", lambda history: fired(history, 4)),
    ("a_schedule_says_how_each_time_went", set_("run_s1", status="skipped")),
    ("a_schedule_says_how_each_time_went", set_("run_s1", status="failed")),
    ("no_process_gives_up", lambda history: history.exits.append(Exit("api", 70))),
    ("no_process_gives_up", lambda history: history.exits.append(Exit("worker", 1))),
    ("no_traceback_is_logged", lambda history: history.tracebacks.append("ValueError")),
]


def test_a_true_history_has_no_violation():
    assert violations(true_history()) == []


@pytest.mark.parametrize(("name", "lie"), LIES, ids=[f"{number}-{name}" for number, (name, _) in enumerate(LIES)])
def test_a_rule_fires(name, lie):
    history = copy.deepcopy(true_history())
    lie(history)
    assert name in {words.partition(":")[0] for words in violations(history)}


def test_every_rule_is_known_to_fire():
    assert {check.__name__ for check in RULES} == {name for name, _ in LIES}


def test_a_schedule_that_is_cancelled_soon_after_its_resume_may_lack_times():
    history = true_history()
    answered(history, "pause", "job_s", at=NOON + 25.1)
    answered(history, "resume", "job_s", at=NOON + 25.3)
    without(history, "run_s26")
    assert violations(history) == []
    without(history, "run_s24")
    del history.by_job
    assert any("no run for 1 times" in words for words in violations(history))


def test_a_cancel_that_came_too_late_must_say_so():
    history = true_history()
    add(history, "plain", "run_late")
    answered(history, "cancel", "run_late", status="running")
    assert any("cancelRequested" in words for words in violations(history))
    run_of(history, "run_late").cancel_requested = True
    del history.by_id
    assert violations(history) == []
