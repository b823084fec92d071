"""Runs the benchmark: `python -m bench.front_door`."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from bench.front_door.measures import MEASURES, NAMES, PGQUEUER, SIDES, Measure, Turn
from bench.front_door.report import Taken, print_tables, write
from bench.front_door.turns import SHORT, Amounts, Side
from bench.peers.__main__ import say, turn_of
from bench.peers.measuring import Figures, shown
from bench.peers.processes import MeasureError
from bench.peers.reporting import machine

ROUNDS = 3
NO_PGQUEUER = "PGQueuer is not installed here: `make bench-front-door` makes an environment that has it"


def main() -> None:
    """Reads the options and runs."""
    options = _options()
    if importlib.util.find_spec("pgqueuer") is None:
        sys.exit(NO_PGQUEUER)
    measures = [measure for measure in MEASURES if measure.name in (options.only or NAMES)]
    rounds = options.rounds or (1 if options.short else ROUNDS)
    facts = machine(short=options.short) | {"rounds": rounds, "load_before": os.getloadavg()[0]}
    taken, versions = asyncio.run(_run(measures, rounds, SHORT if options.short else Amounts(), options.lock))
    facts |= versions | {"load_after": os.getloadavg()[0]}
    print_tables(taken)
    write(options.output, taken, facts)
    say(f"written: front_door.json and front_door.md in {options.output}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.front_door", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help=f"how often each turn is taken ({ROUNDS})")
    parser.add_argument("--short", action="store_true", help="a second a turn: shows that it works, measures nothing")
    parser.add_argument("--output", type=Path, default=Path("bench/results"), help="where the results go")
    parser.add_argument("--lock", type=Path, help="hold this file's lock (flock) during each measure of a round")
    return parser.parse_args()


async def _run(
    measures: Iterable[Measure], rounds: int, amounts: Amounts, lock: Path | None
) -> tuple[list[Taken], dict[str, str]]:
    """All measures, round by round, so that a bad minute of the machine is not all that one of them sees."""
    taken = [Taken(measure) for measure in measures]
    with tempfile.TemporaryDirectory(prefix="front-door-", ignore_cleanup_errors=True) as folder:
        async with AsyncExitStack() as stack:
            sides = {}
            for name in SIDES:
                side = Side(name, python=sys.executable, folder=Path(folder) / name, amounts=amounts, tell=say)
                sides[name] = await stack.enter_async_context(side)
            for number in range(1, rounds + 1):
                for one in taken:
                    with turn_of(lock):
                        one.rounds.append(
                            [await _turn(sides[turn.side], one.measure, turn, number) for turn in one.measure.turns]
                        )
            versions = {"postgres": sides[PGQUEUER].version, **sides[PGQUEUER].versions}
    return taken, versions


async def _turn(side: Side, measure: Measure, turn: Turn, number: int) -> Figures:
    began = time.monotonic()
    try:
        found = await side.take(turn)
    except MeasureError as error:
        found = {"failed": str(error)}
    text = found.get("failed") or shown(found)
    say(f"[round {number}, {measure.name}] {turn.label}: {text}  [{time.monotonic() - began:.0f} s]")
    if "failed" in found and side.log.exists():
        for line in side.log.read_text(errors="replace").splitlines()[-5:]:
            say(f"  | {line}")
    return found


if __name__ == "__main__":
    main()
