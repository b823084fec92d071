"""Nodes start and end by their rules, whatever the order of events."""

from __future__ import annotations

import itertools
import random

import pytest
from graphs import expected, random_graph
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.workflows.graph import EARLY, Graph, GraphNode
from rota.domain.workflows.progress import FlowProgress, Members, NodeState, Start, to_resume
from rota.errors import BadInputError


class Played:
    """A workflow run whose runs end in a random order."""

    def __init__(self, graph, *, fails=(), wanted=None, fail_fast=False, chance=None):
        self.graph = graph
        self.fails = fails
        self.wanted = wanted
        self.fail_fast = fail_fast
        self.chance = chance or random.Random(1)
        self.nodes: dict[int, NodeState] = {}
        self.stop = None
        self.running: list[int] = []
        self.started: list[int] = []

    def start(self, number):
        before = self.graph.before[number]
        ended = [one for one in before if one in self.nodes and self.nodes[one].state != "open"]
        if self.graph.nodes[number].trigger not in EARLY:
            assert len(ended) == len(before), "started before those before it had ended"
        assert number not in self.started, "started twice"
        self.started.append(number)
        if self.wanted is not None and not self.wanted[number]:
            return Start("skipped_by_condition")
        self.running.append(number)
        return Start()

    def transaction(self, heard=(), most=3):
        progress = FlowProgress(
            self.graph, self.nodes, stop=self.stop, fail_fast=self.fail_fast, start=self.start, now=len(self.started)
        )
        for number, ending in heard:
            progress.hear(number, ending)
        if not heard:
            progress.look_at_all()
        more = progress.go_on(most)
        self.stop = progress.stop
        return progress, more

    def play(self):
        progress, more = self.transaction()
        while more or not progress.is_over:
            if more:
                progress, more = self.transaction()
                continue
            assert self.running, "nothing runs, and it is not over"
            number = self.running.pop(self.chance.randrange(len(self.running)))
            stopped = self.stop is not None and progress.is_stopped(number)
            ending = "cancelled" if stopped else "failed" if number in self.fails else "success"
            progress, more = self.transaction([(number, ending)])
        return progress

    @property
    def ends(self):
        return {self.graph.nodes[number].key: node.state for number, node in self.nodes.items()}


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_ends_are_those_of_the_rules_in_any_order(seed, most):
    chance = random.Random(seed)
    graph = random_graph(chance)
    fails = {number for number in range(len(graph)) if chance.random() < 0.3}
    wanted = [chance.random() > 0.15 for _ in range(len(graph))]
    played = Played(graph, fails=fails, wanted=wanted, chance=chance)
    progress = played.play()
    by_rule = expected(graph, {number: number in fails for number in range(len(graph))}, dict(enumerate(wanted)))
    assert {number: node.state for number, node in played.nodes.items()} == by_rule
    own = [n for n in by_rule if by_rule[n] == "failed" and not graph.nodes[n].allow_failure]
    assert progress.outcome == ("failed" if own else "success")


@given(st.integers(0, 2**32))
def test_with_fail_fast_everything_ends_and_only_handlers_start_after_the_first_failure(seed):
    chance = random.Random(seed)
    graph = random_graph(chance)
    fails = {number for number in range(len(graph)) if chance.random() < 0.3}
    played = Played(graph, fails=fails, fail_fast=True, chance=chance)
    original = played.start

    def start(number):
        assert played.stop is None or graph.nodes[number].is_handler
        return original(number)

    played.start = start
    progress = played.play()
    assert progress.outcome == ("failed" if progress.culprit else "success")


def chain(*triggers):
    return Graph(
        [
            GraphNode(f"n{number}", (f"n{number - 1}",) if number else (), trigger)
            for number, trigger in enumerate(triggers)
        ]
    )


def test_a_skip_by_failure_wakes_the_handler_behind_it_and_names_the_culprit():
    played = Played(chain("all_succeeded", "all_succeeded", "any_failed"), fails={0})
    played.play()
    assert played.ends == {"n0": "failed", "n1": "skipped_by_failure", "n2": "success"}
    assert played.nodes[1].culprit == "n0"


def test_a_skip_is_decided_only_when_all_before_have_ended():
    graph = Graph(
        [GraphNode("a"), GraphNode("b"), GraphNode("load", ("a", "b")), GraphNode("teardown", ("load",), "all_ended")]
    )
    played = Played(graph, fails={0})
    played.transaction()
    played.transaction([(0, "failed")])
    assert 2 not in played.nodes
    assert played.running == [0, 1]
    played.transaction([(1, "success")])
    assert played.ends["load"] == "skipped_by_failure"
    assert played.started[-1] == 3


@pytest.mark.parametrize("stop", ["cancel", "deadline"])
def test_after_a_cancel_or_the_deadline_nothing_starts_handlers_included(stop):
    graph = Graph([GraphNode("a"), GraphNode("b", ("a",)), GraphNode("notify", ("b",), "all_ended")])
    played = Played(graph)
    played.transaction()
    played.stop = stop
    progress, _ = played.transaction()
    assert played.ends == {"a": "open", "b": "stopped", "notify": "stopped"}
    progress, _ = played.transaction([(0, "cancelled")])
    assert progress.is_over
    assert played.ends["a"] == "stopped"
    assert progress.outcome == ("cancelled" if stop == "cancel" else "failed")


def test_a_success_recorded_before_the_stop_reached_it_stays_one():
    played = Played(Graph([GraphNode("a")]))
    played.transaction()
    played.stop = "cancel"
    progress, _ = played.transaction([(0, "success")])
    assert played.ends == {"a": "success"}
    assert progress.outcome == "cancelled"


def test_an_allowed_failure_is_seen_by_any_failed_alone():
    graph = Graph(
        [
            GraphNode("a", allow_failure=True),
            GraphNode("next", ("a",)),
            GraphNode("quiet", ("a",), "none_failed"),
            GraphNode("alarm", ("a",), "any_failed"),
        ]
    )
    progress = (played := Played(graph, fails={0})).play()
    assert played.ends == {"a": "failed", "next": "success", "quiet": "success", "alarm": "success"}
    assert progress.outcome == "success"


def test_a_resume_resets_failures_and_all_after_them_and_keeps_the_rest():
    graph = Graph(
        [
            GraphNode("a"),
            GraphNode("b", ("a",)),
            GraphNode("other", ("a",)),
            GraphNode("after", ("b",)),
            GraphNode("notify", ("after", "other"), "all_ended"),
            GraphNode("fine", allow_failure=True),
        ]
    )
    progress = (played := Played(graph, fails={1, 5})).play()
    assert played.ends["notify"] == "success"
    roots = to_resume(graph, played.nodes, is_over=progress.is_over)
    again = roots | graph.descendants(roots)
    assert {graph.nodes[number].key for number in again} == {"b", "after", "notify"}
    assert {graph.nodes[number].key for number in graph.descendants([2])} == {"notify"}


def test_a_map_ends_when_all_were_made_and_all_have_ended():
    graph = Graph([GraphNode("map"), GraphNode("join", ("map",))])
    played = Played(graph)
    members = Members()
    played.start = lambda number: Start(members=members) if number == 0 else Start()
    played.transaction()
    members.made, members.ended = 3, 3
    _progress, _ = played.transaction()
    assert played.ends == {"map": "open"}
    members.is_made = True
    played.transaction()
    assert played.ends == {"map": "success", "join": "open"}


@pytest.mark.parametrize(
    ("nodes", "field", "words"),
    [
        ([], "nodes", "no nodes"),
        ([GraphNode("a", ("a",))], "nodes.a.after", "itself"),
        ([GraphNode("extract"), GraphNode("b", ("extrakt",))], "nodes.b.after", "did you mean 'extract'"),
        ([GraphNode("a", ("c",)), GraphNode("b", ("a",)), GraphNode("c", ("b",))], "nodes", "a → b → c → a"),
        ([GraphNode("a"), GraphNode("b", ("a", "a"))], "nodes.b.after", "twice"),
        ([GraphNode("a", trigger="any_failed")], "nodes.a.trigger", "needs nodes before it"),
        ([GraphNode("a"), GraphNode("b", reads=("a",))], "nodes.b", "may not have ended"),
        (
            [GraphNode("a"), GraphNode("b"), GraphNode("c", ("a", "b"), "any_succeeded", reads=("a",))],
            "nodes.c",
            "may not have ended",
        ),
        ([GraphNode("a"), GraphNode("b", ("a",), reads=("x",))], "nodes.b", "no node"),
        ([GraphNode(f"n{number}") for number in range(10_001)], "nodes", "10001 nodes"),
    ],
    ids=["empty", "itself", "unknown", "cycle", "twice", "early", "sideways", "early-read", "read", "many"],
)
def test_what_is_no_graph_is_refused_by_name(nodes, field, words):
    with pytest.raises(BadInputError) as refused:
        Graph(nodes)
    assert refused.value.fields[0][0] == field
    assert words in refused.value.fields[0][1]


def test_a_node_may_read_whatever_has_surely_ended():
    Graph([GraphNode("a"), GraphNode("b", ("a",)), GraphNode("c", ("b",), reads=("a", "b"))])
    early = [
        GraphNode("a"),
        GraphNode("b", ("a",)),
        GraphNode("c", ("a",)),
        GraphNode("d", ("b", "c"), "any_succeeded", reads=("a",)),
    ]
    Graph(early)


def test_a_large_graph_is_checked_quickly_enough_to_be_used():
    levels = [[f"n{level}-{number}" for number in range(200)] for level in range(50)]
    nodes = [GraphNode(key) for key in levels[0]]
    for above, below in itertools.pairwise(levels):
        nodes += [
            GraphNode(key, (above[number], above[number - 1]), reads=(above[number],))
            for number, key in enumerate(below)
        ]
    played = Played(Graph(nodes))
    progress, more = played.transaction(most=1000)
    assert not more
    assert len(played.running) == 200
    assert not progress.is_over
