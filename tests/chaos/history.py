"""The recorded history of a chaos run: what clients asked and were answered, what tasks did, what the database holds.

All times are seconds since the epoch by the clock of the one machine that everything runs on.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any

import msgspec
from flows import Story


class Accepted(msgspec.Struct):
    """A submission that was answered with a job: what kind it was, and every answer it got under its key."""

    kind: str
    name: str
    job_id: str
    run_id: str | None
    sent: float
    answered: float
    fields: dict[str, Any] = {}
    number: int = 0
    answers: list[str] = []


class Answer(msgspec.Struct):
    """What the API answered to a call other than a submission."""

    what: str
    target: str
    sent: float
    answered: float
    code: int
    body: dict[str, Any] = {}

    @property
    def status(self) -> str | None:
        return self.body.get("status")


class Note(msgspec.Struct):
    """A line that a task wrote when it started or ended."""

    what: str
    run: str
    attempt: int
    at: float
    pid: int


class StoredRun(msgspec.Struct):
    """A run as the database holds it at the end."""

    id: str
    job_id: str
    name: str
    status: str
    cause: str
    attempt: int
    nominal_at: float
    run_at: float
    created_at: float
    started_at: float | None = None
    finished_at: float | None = None
    cancel_requested: bool = False
    policies: dict[str, Any] | None = None
    gate: str | None = None
    reason: str | None = None
    checkpoint: str | None = None
    task: str = ""
    node: int = 0  # of a run of a node: its number; the job is its workflow run
    item: int | None = None  # of a member of a map
    retry_of: str | None = None

    @property
    def is_of_a_flow(self) -> bool:
        return self.cause in ("node", "member")

    @property
    def is_a_flow(self) -> bool:
        return self.task == "workflow"

    @property
    def made_at(self) -> float:
        """When it was made. A workflow run that is resumed keeps its row: its new id says when."""
        return int(self.id[4:16], 16) / 1000 if self.is_a_flow else self.created_at


class Generation(msgspec.Struct):
    """How a workflow run was shown at the end of a generation."""

    number: int
    healed: bool
    outcome: str | None = None
    states: dict[str, str] = {}
    ended: dict[str, float] = {}
    members: dict[str, dict[str, int]] = {}
    cancelled_at: float | None = None  # when a cancel was answered


class FlowRecord(msgspec.Struct):
    """A workflow run that clients followed. `resumed`: how resumes of one generation were answered; `paused`: when a
    pause of its workflow was answered, and its end was asked for."""

    story: Story
    id: str
    answers: list[str] = []
    generations: list[Generation] = []
    resumed: list[list[int]] = []
    paused: list[float] = []


class Sample(msgspec.Struct):
    """How many claims a key had at a moment."""

    at: float
    key: str
    claims: int


class Exit(msgspec.Struct):
    """A process that ended without having been told to."""

    name: str
    code: int


class History(msgspec.Struct, dict=True):
    """Everything the checker looks at."""

    accepted: list[Accepted] = []
    answers: list[Answer] = []
    notes: list[Note] = []
    runs: list[StoredRun] = []
    samples: list[Sample] = []
    charges: list[str] = []
    dead_letters: list[str] = []
    exits: list[Exit] = []
    tracebacks: list[str] = []
    drained: bool = True
    flows: list[FlowRecord] = []
    left: dict[str, int] = {}  # rows of workflows that must be gone at the end, by table

    @cached_property
    def by_id(self) -> dict[str, StoredRun]:
        return {run.id: run for run in self.runs}

    @cached_property
    def by_name(self) -> dict[str, list[StoredRun]]:
        return _grouped(self.runs, "name")

    @cached_property
    def by_job(self) -> dict[str, list[StoredRun]]:
        return _grouped(self.runs, "job_id")

    @cached_property
    def of_flow(self) -> dict[str, list[StoredRun]]:
        """The runs of the nodes of each workflow run, by its id without a prefix."""
        groups = _grouped([run for run in self.runs if run.is_of_a_flow], "job_id")
        return {job_id[4:]: sorted(runs, key=lambda run: run.made_at) for job_id, runs in groups.items()}

    @cached_property
    def carriers(self) -> dict[str, list[StoredRun]]:
        """What each workflow run was among runs, one for each generation that ended."""
        flows = [run for run in self.runs if run.is_a_flow]
        after = {run.retry_of: run for run in flows if run.retry_of}
        found = {}
        for first in flows:
            if first.retry_of is None:
                chain = [first]
                while chain[-1].id in after:
                    chain.append(after[chain[-1].id])
                found[first.id[4:]] = chain
        return found

    @cached_property
    def starts(self) -> dict[str, list[Note]]:
        """The starts of each run, the earliest first."""
        return _grouped(sorted((note for note in self.notes if note.what == "start"), key=lambda note: note.at), "run")

    @cached_property
    def ends(self) -> dict[str, list[Note]]:
        return _grouped([note for note in self.notes if note.what == "end"], "run")

    @cached_property
    def calls_for(self) -> dict[str, list[Answer]]:
        """Successful calls about each job or run."""
        return _grouped([answer for answer in self.answers if answer.code < 300], "target")

    def of_kind(self, *kinds: str) -> list[Accepted]:
        return [one for one in self.accepted if one.kind in kinds]


def _grouped(items: list[Any], field: str) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        groups[getattr(item, field)].append(item)
    return groups
