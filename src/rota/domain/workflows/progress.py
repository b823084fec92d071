"""The rules by which the nodes of a workflow run start and end.

A node waits, is open (its run, or some of its members, have not ended) or has ended in one of these ways:

    success                its run succeeded
    failed                 its run failed, expired or was cancelled, or its payload could not be made
    stopped                by a cancel or the deadline of the workflow run, or by failFast
    skipped_by_condition   nothing failed, and it was not wanted
    skipped_by_failure     because of a failure before it, its culprit

What counts as failed for the nodes after: failed, stopped and skipped_by_failure. skipped_by_condition counts as
neither failed nor succeeded. Skips are decided only when all nodes before have ended, so how each node ends is a
function of how the runs ended, and not of their order.

A start is decided once: the caller locks the workflow run, and writes what changed in the same transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from rota.domain.workflows.graph import Graph
from rota.errors import ConflictError

Ending = Literal["success", "failed", "stopped", "skipped_by_condition", "skipped_by_failure"]
Stop = Literal["cancel", "deadline", "failure"]
FAILURES = frozenset({"failed", "stopped", "skipped_by_failure"})
Outcome = Literal["success", "failed", "cancelled"]


# Why a node was not wanted, by its trigger.
_UNMET: Mapping[str, str] = {
    "all_succeeded": "a node before it was skipped",
    "none_failed": "a node before it was skipped",
    "all_ended": "a node before it was skipped",
    "any_succeeded": "no node before it succeeded",
    "any_failed": "no node before it failed",
}


class Members(msgspec.Struct):
    """The members of a map: runs that were made of its items, and how many of these ended."""

    made: int = 0
    ended: int = 0
    failed: int = 0
    stopped: int = 0  # with the workflow run
    skipped: int = 0  # by their condition: no run is made
    is_made: bool = False  # whether all items were read
    is_redone: bool = False  # whether members that failed are still to be made again
    is_failing: bool = False  # for good in this generation: no more members are made
    tolerated_percent: float | None = None  # of the items may fail; None: a number was compared when they did
    error: str | None = None  # why the items can't be read
    inputs_of: int = 1  # the generation of its items

    @property
    def have_ended(self) -> bool:
        return self.made == self.ended

    @property
    def are_all(self) -> bool:
        """Whether there is a member for each item."""
        return self.is_made and not self.is_redone and not self.stopped

    @property
    def handle(self) -> dict[str, int]:
        """What the result of a map is to the nodes after it."""
        success = self.ended - self.failed - self.stopped
        return {"total": self.made + self.skipped, "success": success, "failed": self.failed, "skipped": self.skipped}

    @property
    def are_too_few(self) -> bool:
        """Whether a larger share failed than is tolerated."""
        percent = self.tolerated_percent
        return percent is not None and self.failed * 100 > percent * (self.made + self.skipped)


class NodeState(msgspec.Struct):
    """A node that does not wait any more."""

    state: Literal["open"] | Ending = "open"
    generation: int = 1
    reason: str | None = None
    culprit: str | None = None  # of a skip by failure
    ended_at: float | None = None
    members: Members | None = None  # of a map


class Start(msgspec.Struct, frozen=True):
    """What came of starting a node: it is open, or it ended at once."""

    ending: Ending | None = None
    reason: str | None = None
    members: Members | None = None


class FlowProgress:
    """A workflow run under its lock: hears of ends, and says which nodes start, end or are skipped."""

    def __init__(
        self,
        graph: Graph,
        nodes: dict[int, NodeState],
        *,
        generation: int = 1,
        stop: Stop | None = None,
        fail_fast: bool = False,
        is_paused: bool = False,
        start: Callable[[int], Start],
        now: float,
    ) -> None:
        """`start` makes a node's run; `nodes` are those that do not wait, by their numbers."""
        self.graph = graph
        self.nodes = nodes
        self.stop = stop
        self.changed: set[int] = set()
        self._generation = generation
        self._fail_fast = fail_fast
        self._is_paused = is_paused
        self._start = start
        self._now = now
        self.is_cut_off = False
        self._left: deque[int] = deque()  # nodes to be looked at, each once: many may end before one that follows them
        self._is_left: set[int] = set()
        self._ready: dict[int, None] = {}
        self._steps = 0

    @property
    def is_over(self) -> bool:
        """Whether every node has ended."""
        return len(self.nodes) == len(self.graph) and all(node.state != "open" for node in self.nodes.values())

    @property
    def outcome(self) -> Outcome:
        """Of a workflow run that is over."""
        if self.stop == "cancel":
            return "cancelled"
        return "failed" if self.stop or self.culprit else "success"

    @property
    def culprit(self) -> str | None:
        """The first node that failed of its own."""
        own = [
            (node.ended_at or 0.0, self.graph.nodes[number].key)
            for number, node in self.nodes.items()
            if node.state == "failed" and not self.graph.nodes[number].allow_failure
        ]
        return min(own)[1] if own else None

    def is_stopped(self, number: int) -> bool:
        """Whether nothing more of a node may start."""
        return self.stop is not None and (self.stop != "failure" or not self.graph.nodes[number].is_handler)

    def hear(self, number: int, outcome: str, reason: str | None = None) -> None:
        """The run of a node, or its wait, ended: success, failed, cancelled, expired, skipped."""
        if outcome == "cancelled" and self.is_stopped(number):
            self._end(number, "stopped", reason)
        elif outcome == "success":
            self._end(number, "success", reason)
        elif outcome == "skipped":
            self._end(number, "skipped_by_condition", reason)
        else:
            self._end(number, "failed", reason if outcome != "expired" else f"expired: {reason}")

    def triggered_by(self, number: int) -> str | None:
        """The node whose end starts this one, if it starts at the first end that fits."""
        trigger = self.graph.nodes[number].trigger
        wanted = {"any_succeeded": {"success"}, "any_failed": FAILURES}.get(trigger, set())
        ended = [
            (self.nodes[one].ended_at or 0.0, self.graph.nodes[one].key)
            for one in self.graph.before[number]
            if not self._is_unended(one) and self._seen(one, trigger) in wanted
        ]
        return min(ended)[1] if ended else None

    def look_at_all(self) -> None:
        """Every node that has not ended is looked at: at the opening, after a stop, and after a cut-off look."""
        self.look_at(number for number in self.graph.order if self._is_unended(number))

    def look_at(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in self._is_left:
                self._is_left.add(number)
                self._left.append(number)

    def go_on(self, most: int) -> bool:
        """Makes changes, at most so many; returns whether there may be more to do."""
        while ready := self.settle(most):
            for number in ready:
                self.open(number)
        return self.is_cut_off

    def settle(self, most: int) -> list[int]:
        """Decides on nodes until none is left; returns those that start: the caller opens them, and comes back.

        After so many changes in all it stops: then `is_cut_off` is true, and all is to be looked at another time."""
        while self._left and not self.is_cut_off:
            number = self._left.popleft()
            self._is_left.discard(number)
            if number not in self.nodes:
                self._look_at_waiting(number)
            elif self.nodes[number].state == "open":
                self._look_at_members(number)
            self.is_cut_off = self._steps + len(self._ready) >= most
        ready, self._ready = list(self._ready), {}
        return ready

    def _is_unended(self, number: int) -> bool:
        return number not in self.nodes or self.nodes[number].state == "open"

    def _look_at_waiting(self, number: int) -> None:
        if self.stop in ("cancel", "deadline"):
            self._end(number, "stopped", f"the workflow run was stopped ({self.stop})")
            return
        if self.is_stopped(number):
            if self._have_ended(self.graph.before[number]):
                self._end(number, "skipped_by_failure", "another node failed, and failFast is set", self.culprit)
            return
        decided = self._decide(number)
        if decided == "run":
            if not self._is_paused:
                self._ready[number] = None
        elif decided is not None:
            is_failure = decided == "skipped_by_failure"
            reason = None if is_failure else _UNMET[self.graph.nodes[number].trigger]
            self._end(number, decided, reason, self._culprit_before(number) if is_failure else None)

    def open(self, number: int) -> None:
        """Starts a node, unless the failure of one that was to start beside it stopped the run: that looks at all."""
        if self.is_stopped(number):
            return
        started = self._start(number)
        if started.ending is not None:
            self._end(number, started.ending, started.reason)
            return
        self.nodes[number] = NodeState(generation=self._generation, members=started.members)
        self._note(number)
        if started.members is not None:
            self.look_at([number])

    def _look_at_members(self, number: int) -> None:
        """A map ends when all its items were made, or no more may be, and all its members have ended."""
        members = self.nodes[number].members
        if members is None or not members.have_ended:
            return
        if members.is_failing or (members.are_all and members.are_too_few):
            failed = f"{members.failed} of {members.made + members.skipped} members failed"
            self._end(number, "failed", members.error or failed)
        elif members.are_all:
            self._end(number, "success", None)
        elif self.is_stopped(number):
            self._end(number, "stopped", None)

    def _decide(self, number: int) -> Literal["run"] | Ending | None:
        """None: not yet."""
        trigger = self.graph.nodes[number].trigger
        before = self.graph.before[number]
        seen = [self._seen(one, trigger) for one in before if not self._is_unended(one)]
        failed = any(one in FAILURES for one in seen)
        if (trigger == "any_failed" and failed) or (trigger == "any_succeeded" and "success" in seen):
            return "run"
        if len(seen) < len(before):
            return None
        fits = (
            trigger == "all_ended"
            or (trigger == "none_failed" and not failed)
            or (trigger == "all_succeeded" and all(one == "success" for one in seen))
        )
        if fits:
            return "run"
        return "skipped_by_failure" if failed else "skipped_by_condition"

    def _seen(self, number: int, trigger: str) -> str:
        """How a node's end looks to one with this trigger after it."""
        state = self.nodes[number].state
        if state == "failed" and self.graph.nodes[number].allow_failure and trigger != "any_failed":
            return "success"
        return state

    def _have_ended(self, numbers: Iterable[int]) -> bool:
        return not any(self._is_unended(number) for number in numbers)

    def _culprit_before(self, number: int) -> str | None:
        """The first of the nodes before that failed, or the one that it was skipped for."""
        for one in self.graph.before[number]:
            state = self._seen(one, self.graph.nodes[number].trigger)
            if state in FAILURES:
                return self.nodes[one].culprit or self.graph.nodes[one].key
        return None

    def _end(self, number: int, ending: Ending, reason: str | None, culprit: str | None = None) -> None:
        node = self.nodes.setdefault(number, NodeState(generation=self._generation))
        node.state, node.reason, node.culprit, node.ended_at = ending, reason, culprit, self._now
        self._note(number)
        own = ending == "failed" and not self.graph.nodes[number].allow_failure
        if own and self._fail_fast and self.stop is None:
            self.stop = "failure"
            self.look_at_all()
        self.look_at(self.graph.after[number])

    def _note(self, number: int) -> None:
        self.changed.add(number)
        self._steps += 1


class Again(msgspec.Struct, frozen=True):
    """The nodes that a resume runs again; `same_inputs`: those that nothing before them runs again."""

    nodes: set[int]
    same_inputs: set[int]


def what_runs_again(graph: Graph, nodes: Mapping[int, NodeState], roots: set[int]) -> Again:
    """These nodes and all after them. Raises ConflictError if some of them have not ended."""
    again = roots | graph.descendants(roots)
    running = sorted(graph.nodes[one].key for one in again if one in nodes and nodes[one].state == "open")
    if running:
        raise ConflictError(f"these nodes have not ended yet: {', '.join(running[:10])}")
    return Again(again, {one for one in roots if not any(before in again for before in graph.before[one])})


def to_resume(graph: Graph, nodes: Mapping[int, NodeState], *, is_over: bool) -> set[int]:
    """The nodes that a resume begins with: own failures that are not allowed, and what the workflow stopped or skipped
    for a failure. All nodes after them run again, too."""
    return {
        number
        for number, node in nodes.items()
        if (node.state == "failed" and not graph.nodes[number].allow_failure)
        or node.state == "stopped"
        or (node.state == "skipped_by_failure" and is_over)
    }
