"""The rules of workflow runs: nodes end by their rules, start after what they wait for, and run once a generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from history import FlowRecord, Generation, History, StoredRun

# The times of starts are those of workers, the ends of nodes those of the database, on one machine.
CLOCK_SECONDS = 0.005
_EARLY = ("any_succeeded", "any_failed")

FLOW_RULES: list[Callable[[History], Iterator[str]]] = []


def flow_rule(check: Callable[[History], Iterator[str]]) -> Callable[[History], Iterator[str]]:
    FLOW_RULES.append(check)
    return check


@flow_rule
def every_workflow_run_ends(history: History) -> Iterator[str]:
    for record in history.flows:
        for generation in record.generations:
            if generation.outcome is None:
                yield f"{_name(record, generation)} had not ended long after the last fault"


@flow_rule
def nothing_of_a_workflow_run_is_left(history: History) -> Iterator[str]:
    for table, count in history.left.items():
        yield f"{count} rows are left in {table}"


@flow_rule
def one_workflow_run_per_key(history: History) -> Iterator[str]:
    for record in history.flows:
        if any(answer != record.id for answer in record.answers):
            yield f"{record.story.name} was answered with {record.id} and with {record.answers}"


@flow_rule
def nodes_end_by_their_rules(history: History) -> Iterator[str]:
    for record in history.flows:
        for generation, kept in _with_kept(record):
            states = generation.states
            if generation.outcome == "cancelled":
                yield from _wrong_beside_a_cancel(record, generation, kept)
                continue
            by_rule = record.story.ends(healed=generation.healed, kept=kept)
            wrong = {key: (states.get(key), end) for key, end in by_rule.items() if states.get(key) != end}
            if wrong:
                yield f"{_name(record, generation)}: nodes (as they are, by their rules): {wrong}"


@flow_rule
def workflow_runs_end_as_their_nodes_did(history: History) -> Iterator[str]:
    for record in history.flows:
        allowed = {it.key for it in record.story.nodes if it.allow_failure}
        for generation in record.generations:
            failed = any(state == "failed" and key not in allowed for key, state in generation.states.items())
            if generation.cancelled_at is not None and generation.outcome not in (None, "cancelled"):
                yield f"{_name(record, generation)} was answered as cancelled and is {generation.outcome}"
            elif generation.outcome in ("success", "failed") and failed != (generation.outcome == "failed"):
                yield f"{_name(record, generation)} is {generation.outcome}: {generation.states}"
            elif generation.outcome == "cancelled" and generation.number > 1:
                yield f"{_name(record, generation)} is cancelled, and nobody asked for it"


@flow_rule
def no_node_runs_twice_in_a_generation(history: History) -> Iterator[str]:
    for flow, runs in history.of_flow.items():
        made = Counter((run.node, run.item, run.is_a_flow, _generation_of(history, flow, run)) for run in runs)
        for (node, item, _, number), count in made.items():
            if count > 1:
                yield f"{flow}: node {node}, item {item} has {count} runs in generation {number}"


@flow_rule
def no_run_outlives_its_generation(history: History) -> Iterator[str]:
    for flow, runs in history.of_flow.items():
        ends = [run.finished_at for run in history.carriers.get(flow, [])]
        for run in runs:
            number = _generation_of(history, flow, run)
            end = ends[number - 1] if number <= len(ends) else None
            if end is None or run.finished_at is None or run.finished_at > end + CLOCK_SECONDS:
                yield f"{flow}: {run.id} of generation {number} ended at {run.finished_at}, and that at {end}"


@flow_rule
def no_node_starts_before_its_rule(history: History) -> Iterator[str]:
    for record in history.flows:
        for generation in record.generations:
            first = _first_starts(history, record, generation)
            for told in record.story.nodes:
                ends = [generation.ended[key] for key in told.after if key in generation.ended]
                if told.key not in first or not ends:
                    continue
                allowed = min(ends) if told.trigger in _EARLY else max(ends)
                if first[told.key] < allowed - CLOCK_SECONDS:
                    early = allowed - first[told.key]
                    yield f"{_name(record, generation)}: {told.key} ({told.trigger}) started {early:.3f} s early"


@flow_rule
def a_join_starts_after_all_members(history: History) -> Iterator[str]:
    for record in history.flows:
        runs = history.of_flow.get(record.id[4:], [])
        for generation in record.generations:
            first = _first_starts(history, record, generation)
            for told in record.story.nodes:
                before = {record.story.graph.number_of[key] for key in told.after}
                if told.key not in first or told.trigger in _EARLY:
                    continue
                for run in runs:
                    is_member = run.node in before and run.item is not None
                    if not is_member or _generation_of(history, record.id[4:], run) != generation.number:
                        continue
                    if run.finished_at is None or run.finished_at > first[told.key] + CLOCK_SECONDS:
                        yield f"{_name(record, generation)}: {told.key} started before item {run.item} had ended"


@flow_rule
def counts_of_maps_are_exact(history: History) -> Iterator[str]:
    for record in history.flows:
        before: Generation | None = None
        for generation, kept in _with_kept(record):
            for told in record.story.nodes:
                members = generation.members.get(told.key)
                if told.kind != "map" or generation.states.get(told.key) != "success" or members is None:
                    continue
                failed = 0 if generation.healed else sum(told.items)
                if before is not None and told.key in kept:
                    failed = before.members[told.key]["failed"]
                total = len(told.items)
                counts = {"total": total, "success": total - failed, "failed": failed, "skipped": 0, "running": 0}
                if members != counts:
                    yield f"{_name(record, generation)}: {told.key} counts {members}, not {counts}"
            before = generation


@flow_rule
def every_item_has_a_member(history: History) -> Iterator[str]:
    for record in history.flows:
        last = record.generations[-1] if record.generations else None
        runs = history.of_flow.get(record.id[4:], [])
        for told in record.story.nodes:
            if told.kind != "map" or last is None or last.states.get(told.key) != "success":
                continue
            number = record.story.graph.number_of[told.key]
            done = {run.item for run in runs if run.node == number and run.item is not None and run.status == "success"}
            missing = len(told.items) - len(done) - last.members[told.key]["failed"]
            if missing:
                yield f"{_name(record, last)}: {missing} items of {told.key} were not done"


@flow_rule
def nothing_is_made_after_a_cancel(history: History) -> Iterator[str]:
    for record in history.flows:
        for generation in record.generations:
            if generation.cancelled_at is None:
                continue
            for run in history.of_flow.get(record.id[4:], []):
                is_its = _generation_of(history, record.id[4:], run) == generation.number
                if is_its and run.made_at > generation.cancelled_at:
                    yield f"{_name(record, generation)}: {run.id} was made after the cancel was answered"


@flow_rule
def nothing_is_made_during_a_pause(history: History) -> Iterator[str]:
    """What a run has added is opened, and waits there."""
    for record in history.flows:
        for run in history.of_flow.get(record.id[4:], []):
            if record.paused and not run.is_a_flow and record.paused[0] < run.made_at < record.paused[1]:
                yield f"{record.story.name}: {run.id} was made while its workflow was paused"


@flow_rule
def one_resume_of_a_generation_counts(history: History) -> Iterator[str]:
    for record in history.flows:
        for codes in record.resumed:
            if sum(code < 300 for code in codes) > 1:
                yield f"{record.story.name}: two resumes of one generation were accepted: {codes}"


@flow_rule
def a_node_that_failed_is_a_dead_letter_until_it_is_resumed(history: History) -> Iterator[str]:
    letters = set(history.dead_letters)
    for record in history.flows:
        kinds = {record.story.graph.number_of[it.key]: it for it in record.story.nodes}
        resets = [record.story.reset(it.states) for it in record.generations[:-1] if it.states]
        for run in history.of_flow.get(record.id[4:], []):
            told = kinds[run.node]
            if told.kind not in ("task", "flaky"):
                continue
            generation = _generation_of(history, record.id[4:], run)
            is_resumed = any(told.key in reset for reset in resets[generation - 1 :])
            if (run.status == "failed" and not is_resumed) != (run.id in letters):
                yield f"{record.story.name}: {told.key} {run.id} is {run.status}; dead letter: {run.id in letters}"


def _name(record: FlowRecord, generation: Generation) -> str:
    return f"{record.story.name} ({record.id}) in generation {generation.number}"


def _with_kept(record: FlowRecord) -> Iterator[tuple[Generation, dict[str, str]]]:
    """The generations that ended, each with the ends that it kept from the one before."""
    ended = [it for it in record.generations if it.outcome is not None]
    if ended:
        yield ended[0], {}
    for before, after in pairwise(ended):
        reset = record.story.reset(before.states)
        yield after, {key: state for key, state in before.states.items() if key not in reset}


def _wrong_beside_a_cancel(record: FlowRecord, generation: Generation, kept: dict[str, str]) -> Iterator[str]:
    """A cancel comes at any moment: each node is stopped, or ended as its rule says of those before it."""
    for key, state in generation.states.items():
        others = {other: end for other, end in generation.states.items() if other != key}
        by_rule = record.story.ends(healed=generation.healed, kept=others)[key]
        if state != "stopped" and key not in kept and state != by_rule:
            yield f"{_name(record, generation)}: {key} is {state}, and by its rule {by_rule}"


def _generation_of(history: History, flow: str, run: StoredRun) -> int:
    """The generation that a run of a workflow run was made in."""
    ends = [it.finished_at for it in history.carriers.get(flow, [])]
    return 1 + sum(end is not None and end < run.made_at for end in ends)


def _first_starts(history: History, record: FlowRecord, generation: Generation) -> dict[str, float]:
    """When the first run of each node started in a generation."""
    found: dict[str, float] = {}
    for run in history.of_flow.get(record.id[4:], []):
        key = record.story.told[run.node].key
        if _generation_of(history, record.id[4:], run) == generation.number:
            for start in history.starts.get(run.id, [])[:1]:
                found[key] = min(start.at, found.get(key, start.at))
    return found
