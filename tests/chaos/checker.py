"""The rules that a recorded history must obey, whatever was killed, paused or cut meanwhile.

Each rule is a generator of violations in words. A rule looks at the history alone, so that tests can hand it a history
with one lie in it and see that it fires.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from flow_rules import FLOW_RULES
from history import Accepted, Answer, History, StoredRun

ENDED = {"success", "failed", "cancelled", "skipped"}
# How a run of each kind may end; one that a client cancelled may also be cancelled.
ENDS = {
    "plain": {"success"},
    "batch": {"success"},
    "manual": {"success"},
    "thread": {"success"},
    "isolated": {"success"},
    "future": {"success"},
    "flaky": {"success"},
    "hopeless": {"failed"},
    "once": {"success", "failed"},
    "slow-first": {"success"},
    "snoozer": {"success"},
    "expiring": {"success", "skipped"},
    "ordered": {"success"},
    "limited": {"success"},
    "rated": {"success"},
    "broken": {"success", "failed"},
    "unique-reject": {"success"},
    "unique-replace": {"success", "cancelled"},
    "paused": {"success"},
    "charge": {"success"},
}
# A worker's idea of the database's clock is behind it, by a fraction of a second after a slow heartbeat.
CLOCK_SECONDS = 0.005
BEHIND_SECONDS = 0.5
# How long before its time a run can be with a worker.
LOOKAHEAD_SECONDS = 1.0
# A process can be paused between its last look at its lease and the first line of the task.
MOST_PAUSED_AT_START = 2
WORKER_LEAVES_WITH = {70, 75}
# A resumed schedule gets its next runs from a scheduler, which may be dead, paused or without a database just then.
FIRED_AGAIN_WITHIN_SECONDS = 20.0

Rule = Callable[[History], Iterator[str]]
RULES: list[Rule] = [*FLOW_RULES]


def rule(check: Rule) -> Rule:
    RULES.append(check)
    return check


def violations(history: History) -> list[str]:
    """Everything that is wrong, each line with the name of the rule it breaks."""
    return [f"{check.__name__}: {words}" for check in RULES for words in check(history)]


@rule
def everything_ends(history: History) -> Iterator[str]:
    if not history.drained:
        waiting = [run for run in history.runs if run.status not in ENDED]
        yield f"{len(waiting)} runs had not ended long after the last fault, such as {waiting[:3]}"


@rule
def nothing_accepted_is_lost(history: History) -> Iterator[str]:
    for one in history.accepted:
        if one.run_id is not None and one.run_id not in history.by_id:
            yield f"{one.kind} {one.run_id} was accepted and is nowhere"


@rule
def one_job_per_key(history: History) -> Iterator[str]:
    for one in history.accepted:
        if any(job_id != one.job_id for job_id in one.answers):
            yield f"{one.name} was answered with {one.job_id} and with {one.answers}"
        made = [run for run in history.by_name.get(one.name, []) if run.cause == "submit"]
        if len(made) > 1:
            yield f"{one.name} was submitted under one key and has {len(made)} runs"


@rule
def runs_end_as_their_kind_allows(history: History) -> Iterator[str]:
    for one in history.accepted:
        run = history.by_id.get(one.run_id or "")
        if run is None or run.status not in ENDED:
            continue  # other rules speak of these
        allowed = set(ENDS[one.kind])
        if _cancels(history, one):
            allowed.add("cancelled")
        if run.status not in allowed:
            yield f"{one.kind} {run.id} ended as {run.status} ({run.reason}), not as one of {sorted(allowed)}"


@rule
def a_success_was_really_run(history: History) -> Iterator[str]:
    for one in history.accepted:
        run = history.by_id.get(one.run_id or "")
        if run and run.status == "success" and run.id not in history.ends:
            yield f"{one.kind} {run.id} is a success, and its task never came to its end"


@rule
def what_was_skipped_never_ran(history: History) -> Iterator[str]:
    for run in history.runs:
        if run.status == "skipped" and run.id in history.starts:
            yield f"{run.name} {run.id} is recorded as skipped ({run.reason}) and was started"


@rule
def a_failure_for_good_is_a_dead_letter(history: History) -> Iterator[str]:
    letters = set(history.dead_letters)
    for run in history.runs:
        if run.is_of_a_flow or run.is_a_flow:
            continue  # a resume takes them back, and only what failed itself is one
        if (run.status == "failed") != (run.id in letters):
            yield f"{run.name} {run.id} is {run.status}; dead letter: {run.id in letters}"


@rule
def nothing_starts_early(history: History) -> Iterator[str]:
    for run in history.runs:
        for start in history.starts.get(run.id, [])[:1]:
            # A retry has a later run_at than the first start, which nominal_at bounds all the same.
            if start.at < run.nominal_at - CLOCK_SECONDS:
                yield f"{run.name} {run.id} started {run.nominal_at - start.at:.3f} s before its time"


@rule
def nothing_starts_after_its_end(history: History) -> Iterator[str]:
    late = [
        f"{run.name} {run.id} ended as {run.status} and was started {start.at - run.finished_at:.3f} s later"
        for run in history.runs
        if run.finished_at is not None
        for start in history.starts.get(run.id, [])
        if start.at > run.finished_at + BEHIND_SECONDS
    ]
    if len(late) > MOST_PAUSED_AT_START:
        yield from late


@rule
def without_retries_nothing_starts_twice(history: History) -> Iterator[str]:
    for one in history.of_kind("once"):
        starts = history.starts.get(one.run_id or "", [])
        if len(starts) > 1:
            yield f"{one.run_id} has maxRetries 0 and was started {len(starts)} times"


@rule
def attempts_stay_within_their_retries(history: History) -> Iterator[str]:
    for one in history.accepted:
        run = history.by_id.get(one.run_id or "")
        most = one.fields.get("maxRetries", 3) + 1
        if run and run.attempt > most:
            yield f"{one.kind} {run.id} was charged {run.attempt} attempts; {most} are allowed"


@rule
def a_key_runs_in_order(history: History) -> Iterator[str]:
    """Runs of a key were submitted one after the other, so each starts after the one before it has ended."""
    keys: dict[str, list[StoredRun]] = defaultdict(list)
    for one in sorted(history.of_kind("ordered"), key=lambda one: one.number):
        if run := history.by_id.get(one.run_id or ""):
            keys[one.fields["orderingKey"]].append(run)
    for key, runs in keys.items():
        for before, after in pairwise(runs):
            first = history.starts.get(after.id)
            if not first:
                continue
            if before.finished_at is None or first[0].at < before.finished_at - CLOCK_SECONDS:
                yield f"key {key}: {after.id} started before {before.id} had ended"


@rule
def limits_hold(history: History) -> Iterator[str]:
    most = {one.fields["concurrencyKey"]: one.fields["concurrencyLimit"] for one in history.of_kind("limited")}
    most |= {one.fields["orderingKey"]: 1 for one in history.of_kind("ordered")}
    for sample in history.samples:
        if sample.claims > most.get(sample.key, math.inf):
            yield f"{sample.key} had {sample.claims} claims; {most[sample.key]} are allowed"


@rule
def rates_hold(history: History) -> Iterator[str]:
    """In any stretch of time at most the burst and the refill start; a start may come later than its token."""
    buckets: dict[str, list[float]] = defaultdict(list)
    rates = {}
    for one in history.of_kind("rated"):
        rate = one.fields["rateLimit"]
        rates[rate["key"]] = rate
        buckets[rate["key"]] += [start.at for start in history.starts.get(one.run_id or "", [])]
    for key, moments in buckets.items():
        rate = rates[key]
        moments.sort()
        began = min(one.sent for one in history.of_kind("rated"))
        for count, moment in enumerate(moments, 1):
            most = rate["burst"] + rate["limit"] / rate["perSeconds"] * (moment - began)
            if count > most + 1:
                yield f"rate {key}: {count} starts within {moment - began:.1f} s; at most {most:.1f} are allowed"
                break


@rule
def every_charge_exists_once(history: History) -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for run_id in history.charges:
        counts[run_id] += 1
    for one in history.of_kind("charge"):
        run = history.by_id.get(one.run_id or "")
        charged = counts.pop(one.run_id or "", 0)
        if run and charged != (run.status == "success"):
            yield f"{run.id} ended as {run.status} and was charged {charged} times"
    for run_id, charged in counts.items():
        yield f"{run_id} was never accepted and was charged {charged} times"


@rule
def a_unique_key_has_one_that_waits(history: History) -> Iterator[str]:
    """A job that rejects duplicates was accepted: the one before it had ended, or could be claimed by then."""
    keys: dict[str, list[Accepted]] = defaultdict(list)
    for one in history.of_kind("unique-reject"):
        keys[one.fields["uniqueKey"]].append(one)
    for key, jobs in keys.items():
        for before, after in pairwise(sorted(jobs, key=lambda one: one.sent)):
            run = history.by_id.get(before.run_id or "")
            if run is None or (run.finished_at is not None and run.finished_at <= after.answered):
                continue
            if run.nominal_at - LOOKAHEAD_SECONDS > after.answered:
                yield f"unique key {key}: {after.run_id} was accepted while {run.id} waited"


@rule
def cancels_are_honoured(history: History) -> Iterator[str]:
    for one in history.accepted:
        run = history.by_id.get(one.run_id or "")
        if one.kind == "manual":
            continue  # the cancel was of its schedule, and says nothing of a run that had ended
        for cancel in _cancels(history, one):
            if run is None or run.status not in ENDED:
                continue
            if cancel.status == "cancelled" and run.status != "cancelled":
                yield f"{run.id} was answered as cancelled and ended as {run.status}"
            if cancel.status == "cancelled" and _starts_after(history, run, cancel.answered):
                yield f"{run.id} was answered as cancelled and started afterwards"
            if run.status == "success" and not run.cancel_requested and cancel.status == "running":
                yield f"{run.id} ended in success after a cancel and does not say cancelRequested"


@rule
def answers_are_true(history: History) -> Iterator[str]:
    """An end that a client was shown never changes, and a run that was accepted is never missing."""
    for answer in history.answers:
        run = history.by_id.get(answer.target)
        if answer.what != "read":
            continue
        if answer.code == 404:
            yield f"{answer.target} was accepted and then not found"
        elif run and answer.status in ENDED and answer.status != run.status:
            yield f"{run.id} was shown as {answer.status} and is {run.status}"


@rule
def checkpoints_survive(history: History) -> Iterator[str]:
    for one in history.of_kind("snoozer"):
        run = history.by_id.get(one.run_id or "")
        if run and run.status == "success" and run.checkpoint not in (None, "2"):
            yield f"{run.id} left the checkpoint {run.checkpoint}"


@rule
def each_fire_time_has_one_run(history: History) -> Iterator[str]:
    for one in history.of_kind("schedule"):
        seen: dict[float, int] = defaultdict(int)
        for run in history.by_job.get(one.job_id, []):
            if run.cause == "schedule":
                seen[run.nominal_at] += 1
        for moment, count in seen.items():
            if count > 1:
                yield f"{one.name}: {count} runs for {moment}"
        missing = [moment for moment in _expected_times(history, one) if moment not in seen]
        if missing:
            yield f"{one.name}: no run for {len(missing)} times, such as {missing[:5]}"
        extra = [moment for moment in seen if _is_within_a_pause(history, one, moment)]
        if extra:
            yield f"{one.name}: runs for {len(extra)} times of a pause, such as {extra[:5]}"


@rule
def a_schedule_says_how_each_time_went(history: History) -> Iterator[str]:
    for one in history.of_kind("schedule"):
        for run in history.by_job.get(one.job_id, []):
            if run.status in ("skipped", "cancelled") and not run.reason:
                yield f"{one.name}: {run.id} is {run.status} without a reason"
            if run.status == "failed":
                yield f"{one.name}: {run.id} failed"


@rule
def no_process_gives_up(history: History) -> Iterator[str]:
    for left in history.exits:
        if left.name != "worker" or left.code not in WORKER_LEAVES_WITH:
            yield f"{left.name} ended by itself with {left.code}"


@rule
def no_traceback_is_logged(history: History) -> Iterator[str]:
    yield from history.tracebacks


def _cancels(history: History, one: Accepted) -> list[Answer]:
    calls = [*history.calls_for.get(one.job_id, []), *history.calls_for.get(one.run_id or "", [])]
    return [call for call in calls if call.what == "cancel"]


def _starts_after(history: History, run: StoredRun, moment: float) -> bool:
    return any(start.at > moment + CLOCK_SECONDS for start in history.starts.get(run.id, []))


def _pauses(history: History, one: Accepted) -> list[tuple[Answer, Answer | None]]:
    """Its pauses, each with the resume that ended it."""
    calls = sorted(history.calls_for.get(one.job_id, []), key=lambda call: call.sent)
    found: list[tuple[Answer, Answer | None]] = []
    for call in calls:
        if call.what == "pause":
            found.append((call, None))
        elif call.what == "resume" and found and found[-1][1] is None:
            found[-1] = (found[-1][0], call)
    return found


def _expected_times(history: History, one: Accepted) -> list[float]:
    """The whole seconds at which it must have fired: those that are clearly within its life and outside its pauses."""
    stops = [call.sent for call in history.calls_for.get(one.job_id, []) if call.what == "cancel"]
    begin, end = math.floor(one.answered) + 1, min(stops, default=one.answered)
    unclear = [(pause.sent, _clear_after(resume, end)) for pause, resume in _pauses(history, one)]
    every = one.fields.get("everySeconds", 1)
    if every != 1:
        raise ValueError("only schedules of each second are checked")
    times = [float(moment) for moment in range(begin, math.ceil(end)) if moment < end]
    return [moment for moment in times if not any(first <= moment <= last for first, last in unclear)]


def _clear_after(resume: Answer | None, end: float) -> float:
    """From when on its times must have runs; never, if it was cancelled before a scheduler had time to make them."""
    if resume is None or end < resume.answered + FIRED_AGAIN_WITHIN_SECONDS:
        return math.inf
    return resume.answered


def _is_within_a_pause(history: History, one: Accepted, moment: float) -> bool:
    """Whether it is a time of a pause; a run that a worker had claimed ahead when the pause came may go on."""
    return any(
        pause.answered + LOOKAHEAD_SECONDS < moment < resume.sent
        for pause, resume in _pauses(history, one)
        if resume is not None
    )
