"""Each rule of the checker fires when a history tells that lie, and none fires for a history that is true."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from checker import MOST_PAUSED_AT_START, RULES, violations
from flow_rules import FLOW_RULES
from flows import Story, Told
from history import Accepted, Answer, Exit, FlowRecord, Generation, History, Note, Sample, StoredRun

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
    add_flow(history)
    add_cancelled_flow(history)
    return history


def flow_id(number: int, at: float) -> str:
    """As the ids of runs, it begins with the moment it was made."""
    return f"{int(at * 1000):012x}{number:020x}"


FIRST, SECOND, CANCELLED = flow_id(1, NOON), flow_id(2, NOON + 10), flow_id(3, NOON)


def add_flow(history: History) -> None:
    """A map, of which an item fails, and a node that fails, before one that comes after both; all is well after a
    resume."""
    nodes = [
        Told("a", [], "all_succeeded", False, "task", fails=True),
        Told("each", [], "all_succeeded", False, "map", items=[False, True], tolerated=1),
        Told("last", ["a", "each"], "all_succeeded", False, "task"),
        Told("some", ["a", "each"], "any_succeeded", False, "task"),
    ]
    members = {"each": {"total": 2, "success": 1, "failed": 1, "skipped": 0, "running": 0}}
    first = Generation(1, False, "failed", members=members)
    first.states = {"a": "failed", "each": "success", "last": "skipped_by_failure", "some": "success"}
    first.ended = {"a": NOON + 2, "each": NOON + 3, "last": NOON + 4, "some": NOON + 5}
    second = Generation(2, True, "success", members=copy.deepcopy(members))
    second.states = dict.fromkeys(("a", "each", "last", "some"), "success")
    second.ended = {"a": NOON + 12, "each": NOON + 3, "last": NOON + 14, "some": NOON + 14}
    story = Story("flow", nodes)
    history.flows.append(FlowRecord(story, f"wfr_{FIRST}", [f"wfr_{FIRST}"], [first, second], [[202, 409]], []))
    add_node_run(history, "carrier1", FIRST, None, NOON, NOON + 6, status="failed", run_id=f"run_{FIRST}")
    second_carrier = add_node_run(
        history, "carrier2", FIRST, None, NOON + 10, NOON + 15, status="success", run_id=f"run_{SECOND}"
    )
    second_carrier.retry_of = f"run_{FIRST}"
    add_node_run(history, "a1", FIRST, 0, NOON + 1, NOON + 2, status="failed")
    add_node_run(history, "item0", FIRST, 1, NOON + 1, NOON + 2, item=0)
    add_node_run(history, "item1", FIRST, 1, NOON + 1, NOON + 2.5, item=1, status="failed")
    add_node_run(history, "some1", FIRST, 3, NOON + 3.5, NOON + 5)
    add_node_run(history, "a2", FIRST, 0, NOON + 11, NOON + 12)
    add_node_run(history, "last", FIRST, 2, NOON + 13, NOON + 14)
    add_node_run(history, "some2", FIRST, 3, NOON + 13, NOON + 14)


def add_cancelled_flow(history: History) -> None:
    nodes = [Told("a", [], "all_succeeded", False, "task"), Told("b", ["a"], "all_succeeded", False, "task")]
    generation = Generation(1, False, "cancelled", {"a": "success", "b": "stopped"}, {"a": NOON + 2, "b": NOON + 2})
    generation.cancelled_at = NOON + 1.5
    history.flows.append(FlowRecord(Story("cancelled", nodes), f"wfr_{CANCELLED}", [], [generation]))
    add_node_run(history, "carrier3", CANCELLED, None, NOON, NOON + 3, status="cancelled", run_id=f"run_{CANCELLED}")
    add_node_run(history, "stopped", CANCELLED, 0, NOON + 1, NOON + 2)


def add_node_run(
    history: History,
    name: str,
    flow: str,
    node: int | None,
    at: float,
    ended_at: float,
    *,
    status: str = "success",
    item: int | None = None,
    run_id: str | None = None,
) -> StoredRun:
    """A run of a node; without a node, of the whole workflow."""
    run_id = run_id or f"run_{name}"
    cause = "manual" if node is None else "node" if item is None else "member"
    run = StoredRun(run_id, f"job_{flow}", name, status, cause, 1, NOON, at, at, at, ended_at)
    run.task, run.node, run.item = "workflow" if node is None else "node", node or 0, item
    history.runs.append(run)
    if node is not None:
        history.notes.append(Note("start", run_id, 1, at + 0.1, 1))
    return run


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


def last_generation(history: History) -> Generation:
    """Of the workflow run that was resumed."""
    return history.flows[0].generations[-1]


def made_again(history: History, run_id: str) -> None:
    run = copy.deepcopy(run_of(history, run_id))
    run.id = f"{run_id}again"
    history.runs.append(run)


def late_member(history: History) -> None:
    """The map runs again in the second generation, and the join does not wait for it."""
    add_node_run(history, "item1again", FIRST, 1, NOON + 11, NOON + 13.5, item=1)


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
    ("every_workflow_run_ends", lambda history: setattr(last_generation(history), "outcome", None)),
    ("nothing_of_a_workflow_run_is_left", lambda history: history.left.update(flow_notes=1)),
    ("one_workflow_run_per_key", lambda history: history.flows[0].answers.append("wfr_other")),
    ("nodes_end_by_their_rules", lambda history: last_generation(history).states.update(last="skipped_by_failure")),
    ("nodes_end_by_their_rules", lambda history: last_generation(history).states.pop("last")),
    ("nodes_end_by_their_rules", lambda history: history.flows[1].generations[0].states.update(b="failed")),
    ("workflow_runs_end_as_their_nodes_did", lambda history: setattr(last_generation(history), "outcome", "failed")),
    ("workflow_runs_end_as_their_nodes_did", lambda history: setattr(last_generation(history), "outcome", "cancelled")),
    ("workflow_runs_end_as_their_nodes_did", lambda history: setattr(last_generation(history), "cancelled_at", NOON)),
    ("no_node_runs_twice_in_a_generation", lambda history: made_again(history, "run_last")),
    ("no_node_runs_twice_in_a_generation", lambda history: made_again(history, "run_item0")),
    ("no_run_outlives_its_generation", set_("run_item1", finished_at=NOON + 7)),
    ("no_run_outlives_its_generation", set_("run_last", finished_at=None)),
    ("no_node_starts_before_its_rule", lambda history: note(history, "run_last", NOON + 11.9)),
    ("no_node_starts_before_its_rule", lambda history: note(history, "run_some1", NOON + 1.9)),
    ("a_join_starts_after_all_members", late_member),
    ("counts_of_maps_are_exact", lambda history: last_generation(history).members["each"].update(failed=0, success=2)),
    ("counts_of_maps_are_exact", lambda history: last_generation(history).members["each"].update(running=1)),
    ("every_item_has_a_member", set_("run_item0", status="cancelled")),
    ("nothing_is_made_after_a_cancel", set_("run_stopped", created_at=NOON + 1.6)),
    ("nothing_is_made_during_a_pause", lambda history: history.flows[0].paused.extend([NOON + 0.5, NOON + 1.5])),
    ("one_resume_of_a_generation_counts", lambda history: history.flows[0].resumed.append([202, 202])),
    ("a_node_that_failed_is_a_dead_letter_until_it_is_resumed", lambda history: history.dead_letters.append("run_a1")),
    ("a_node_that_failed_is_a_dead_letter_until_it_is_resumed", set_("run_last", status="failed")),
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
    assert {*FLOW_RULES} <= {*RULES}


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
