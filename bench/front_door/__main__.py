"""Runs the benchmark: `python -m bench.front_door`."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import math
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bench.front_door.measures import MEASURES, NAMES, ROTA, SIDES, Measure, Turn
from bench.front_door.report import Taken, middle_and_range, print_tables, write
from bench.front_door.turns import SHORT, Amounts, Side
from bench.peers.__main__ import say, turn_of
from bench.peers.measuring import Figures
from bench.peers.processes import MeasureError
from bench.peers.reporting import machine

ROUNDS = 6
NOT_INSTALLED = "not installed here (`make bench-front-door` makes an environment that has it)"

Way = Callable[[], Awaitable[Figures]]
Keep = Callable[[list[Taken], dict[str, str]], None]


def main() -> None:
    """Reads the options and runs."""
    options = _options()
    measures = [measure for measure in MEASURES if measure.name in (options.only or NAMES)]
    rounds = options.rounds or (1 if options.short else ROUNDS)
    facts = machine(short=options.short) | {"rounds": rounds, "load_before": os.getloadavg()[0]}

    def keep(taken: list[Taken], versions: dict[str, str]) -> None:
        write(options.output, taken, facts | versions | {"load_after": os.getloadavg()[0]})

    taken = asyncio.run(_run(measures, rounds, SHORT if options.short else Amounts(), options.lock, keep))
    print_tables(taken)
    say(f"written: front_door.json and front_door.md in {options.output}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.front_door", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help=f"how often each turn is taken ({ROUNDS}); whole ones half as often")
    parser.add_argument("--short", action="store_true", help="one round of moments: it works, but measures nothing")
    parser.add_argument("--output", type=Path, default=Path("bench/results"), help="where the results go")
    parser.add_argument("--lock", type=Path, help="hold this file's lock (flock) during each measure, for taking turns")
    return parser.parse_args()


async def _run(
    measures: Sequence[Measure], rounds: int, amounts: Amounts, lock: Path | None, keep: Keep
) -> list[Taken]:
    """All measures, one after the other; what was taken so far is kept each time, so that a run can be broken off."""
    taken: list[Taken] = []
    with tempfile.TemporaryDirectory(prefix="front-door-", ignore_cleanup_errors=True) as folder:
        async with AsyncExitStack() as stack:
            sides: dict[str, Side] = {}
            for name in SIDES:
                if importlib.util.find_spec(name) is not None:
                    side = Side(name, python=sys.executable, folder=Path(folder) / name, amounts=amounts, tell=say)
                    sides[name] = await stack.enter_async_context(side)
            versions = {"postgres": sides[ROTA].server_version}
            for side in sides.values():
                versions |= side.versions
            for measure in measures:
                with turn_of(lock):
                    taken.append(await _take(measure, sides, rounds))
                keep(taken, versions)
    return taken


async def _take(measure: Measure, sides: dict[str, Side], rounds: int) -> Taken:
    """A measure's rounds. Both sides are up all the time, and take turns every second or so."""
    taken, began = Taken(measure), time.monotonic()
    say(f"[{measure.name}] {measure.title}")
    async with AsyncExitStack() as stack:
        ways: dict[Turn, Way] = {}
        for name in SIDES:
            ways |= await _ways(measure, name, sides.get(name), stack)
        for _ in range(math.ceil(rounds / 2) if measure.is_whole else rounds):
            taken.rounds.append([await _figures(ways[turn]) for turn in measure.turns])
    for number, turn in enumerate(measure.turns):
        rates = ", ".join(f"{figures['rate']:,.0f}" for figures in taken.of(number))
        say(f"[{measure.name}] {turn.label}: {taken.reason(number) or rates}")
    ratios = f"ratio {middle_and_range(taken.ratios)}, of CPU {middle_and_range(taken.cpu_ratios)}"
    say(f"[{measure.name}] {ratios}  [{time.monotonic() - began:.0f} s]")
    return taken


async def _ways(measure: Measure, name: str, side: Side | None, stack: AsyncExitStack) -> dict[Turn, Way]:
    """How to take the turns of one side."""
    turns = [turn for turn in measure.turns if turn.side == name]
    if side is None or not turns:
        return {turn: partial(_refuse, NOT_INSTALLED) for turn in turns}
    if measure.is_whole:
        return {turn: partial(side.take_whole, turn) for turn in turns}
    try:
        programs = await stack.enter_async_context(side.started(turns))
    except MeasureError as error:
        side.tell_end()
        return {turn: partial(_refuse, str(error)) for turn in turns}
    return {program.turn: program.take for program in programs}


async def _refuse(reason: str) -> Figures:
    raise MeasureError(reason)


async def _figures(way: Way) -> Figures:
    """Of a turn, or the reason why there are none."""
    try:
        return await way()
    except MeasureError as error:
        return {"failed": str(error)}


if __name__ == "__main__":
    main()
