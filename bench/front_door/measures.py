"""What is compared with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ROTA = "rota"
PGQUEUER = "pgqueuer"
SIDES = (ROTA, PGQUEUER)
DRAIN = "drain"
END_TO_END = "end_to_end"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One side's part of a measure: a work of its program (`work_…`), or drain and end to end."""

    side: str
    work: str
    label: str
    workers: bool = False  # whether two workers run meanwhile
    bare: bool = False  # whether the bare server runs meanwhile
    logged: bool = False  # whether statements are counted, which slows everything down
    variant: str = "2 x"  # how the workers are run: the beginning of the label of one of the peer's variants
    yardstick: bool = False  # whether Rota's figure is divided by this one


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Turns that are taken one after the other in each round. The first is Rota's."""

    name: str
    title: str
    turns: tuple[Turn, ...]

    @property
    def is_whole(self) -> bool:
        """Whether each turn starts from nothing; else its program works for a moment in each round."""
        return self.name in (DRAIN, END_TO_END)


def _rota(work: str, label: str = "Rota", **more: Any) -> Turn:
    return Turn(side=ROTA, work=work, label=label, **more)


def _pgqueuer(work: str, label: str = "PGQueuer", *, yardstick: bool = True, **more: Any) -> Turn:
    return Turn(side=PGQUEUER, work=work, label=label, yardstick=yardstick, **more)


_ENQUEUE = _pgqueuer("one", "PGQueuer, one by one")


def _against_one_by_one(name: str, title: str) -> Measure:
    return Measure(name=name, title=title, turns=(_rota(name), _ENQUEUE))


def _with_workers(name: str, title: str) -> Measure:
    """PGQueuer in three ways: which is the fastest depends on the machine and the hour, and sometimes one worker is."""
    ways = [
        _pgqueuer(
            name,
            f"PGQueuer, {workers} x 2 managers, batches of {size}",
            variant=f"{workers} x 2 managers, batch {size}",
        )
        for workers, size in ((2, 100), (2, 500), (1, 500))
    ]
    return Measure(name=name, title=title, turns=(_rota(name), *ways))


MEASURES = (
    Measure(
        name="one",
        title="`await task.submit()`, one by one",
        turns=(
            _rota("one"),
            _ENQUEUE,
            _rota("bare", "Rota's SDK to a bare server", bare=True),
        ),
    ),
    Measure(
        name="coroutines",
        title="`await task.submit()`, 32 coroutines",
        turns=(
            _rota("coroutines"),
            _ENQUEUE,
            _pgqueuer("coroutines", "PGQueuer, 32 coroutines, pool of 8", yardstick=False),
            _rota("bare_coroutines", "Rota's SDK to a bare server", bare=True),
        ),
    ),
    _against_one_by_one("thread", "`task.sync.submit()`, one by one"),
    _against_one_by_one("threads", "`task.sync.submit()`, 32 threads"),
    _against_one_by_one("direct", "`App(database=…)`, one by one"),
    _against_one_by_one("direct_coroutines", "`App(database=…)`, 32 coroutines"),
    Measure(
        name="direct_bulk",
        title="`App(database=…)`, `submit_many` of 1,000",
        turns=(_rota("direct_bulk"), _pgqueuer("bulk")),
    ),
    Measure(name="bulk", title="`submit_many` of 1,000", turns=(_rota("bulk"), _pgqueuer("bulk"))),
    Measure(
        name="bulk_in_flight",
        title="`submit_many` of 1,000, 4 in flight",
        turns=(_rota("bulk_in_flight"), _pgqueuer("bulk_in_flight")),
    ),
    Measure(
        name="call",
        title="`task.call()` and `json.dumps` of the same",
        turns=(_rota("call"), _pgqueuer("call", "json.dumps")),
    ),
    Measure(
        name="within",
        title="`task.within(connection).submit()`, a transaction each",
        turns=(_rota("within"), _pgqueuer("within")),
    ),
    Measure(
        name="within_bulk",
        title="`task.within(connection).submit_many()` of 1,000, a transaction each",
        turns=(_rota("within_bulk"), _pgqueuer("within_bulk")),
    ),
    _with_workers(DRAIN, "drain, two workers"),
    _with_workers(END_TO_END, "end to end, two workers"),
    Measure(
        name="round_trip", title="`submit()` and `result()`, one by one", turns=(_rota("round_trip", workers=True),)
    ),
    Measure(
        name="statements",
        title="statements of one `task.submit()`",
        turns=(_rota("one", logged=True), _pgqueuer("one", logged=True)),
    ),
)
NAMES = tuple(measure.name for measure in MEASURES)
