"""The measures, the same for every peer.

Each is taken on an empty database, with processes of its own, and gives either figures or a reason why there are none.
Nothing here waits without an end: a library that stands still is noticed and named.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import socket
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.peer import PORT, SCHEDULES, SERVER_URL, Command, Description, Variant
from bench.peers.processes import (
    MeasureError,
    Submitter,
    Worker,
    elsewhere_seconds,
    peak_megabytes,
    processor_seconds,
    run,
)
from bench.peers.servers import RedisServer, Server
from bench.peers.tallies import FOLDER, Tallies

ROOT = Path(__file__).resolve().parents[2]
LOOK_SECONDS = 0.005
STALLED_SECONDS = 12.0
SETTLE_SECONDS = 0.5
SETTLE_TRIES = 10
CALM_SHARE = 0.15
WARM_UP = 100
WARM_UP_TRIES = 6
ALL_ACTIVE_SECONDS = 1.5
PREPARE_SECONDS = 40.0
FIRST_CALIBRATION = 500
CALIBRATED_SECONDS = 1.0
LAST_CALIBRATION = 50_000
EARLY_SECONDS = 0.1

Figures = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything. `jobs` fixes the number of jobs instead of measuring what fits."""

    jobs: int | None = None
    drain_seconds: float = 6.0
    end_to_end_seconds: float = 11.0
    burst: int = 5000
    even: int = 2000
    even_step: float = 0.005
    lead_seconds: float = 3.0
    schedules: int = 1000
    schedule_seconds: int = 20
    peer_seconds: float = 240.0
    variants: int = 4


SHORT = Sizes(
    jobs=200,
    burst=100,
    even=100,
    even_step=0.01,
    lead_seconds=1.5,
    schedules=20,
    schedule_seconds=3,
    peer_seconds=60.0,
    variants=1,
)


class Trial:
    """One measure's empty database and processes."""

    def __init__(self, bench: PeerBench, number: int, schedules: int) -> None:
        self._bench = bench
        self._folder = bench.folder / f"trial-{number}"
        self._folder.mkdir()
        self._schedules = schedules
        self._beside: list[Worker] = []
        self._workers: list[Worker] = []
        self._submitters: list[Submitter] = []
        self._port = _free_port()
        self._environment: dict[str, str] = {}
        self.tallies = Tallies(self._folder)

    async def prepare(self) -> None:
        """Empties the server and makes the library's schema; starts what must always run."""
        values = {
            "server": await self._bench.server.fresh(),
            "port": str(self._port),
            "home": str(self._folder),
        }
        self._environment = {
            **inherited(),
            FOLDER: str(self._folder),
            SERVER_URL: values["server"],
            PORT: values["port"],
            SCHEDULES: str(self._schedules),
            **{name: template.format(**values) for name, template in self._bench.peer.environment.items()},
        }
        await run(self._bench.command("prepare"), self._environment, self._bench.log, PREPARE_SECONDS)
        self._beside = self._started(self._bench.peer.beside)

    def start(self, commands: list[Command]) -> None:
        """Starts workers and whatever else stays."""
        self._workers += self._started(commands)

    def _started(self, commands: list[Command]) -> list[Worker]:
        filled = [[part.replace("{home}", str(self._folder)) for part in command] for command in commands]
        return [Worker(command, self._environment, self._bench.log) for command in filled]

    async def submitter(self, command: str, count: float) -> Submitter:
        """A submitter that has connected."""
        submitter = await Submitter.start(self._bench.command(command, str(count)), self._environment, self._bench.log)
        self._submitters.append(submitter)
        return submitter

    async def submit(self, count: int, seconds: float) -> dict[str, float]:
        """Submits and waits for the end of it."""
        submitter = await self.submitter("submit", count)
        await submitter.go()
        return await submitter.finish(seconds)

    async def reach(self, wanted: int, seconds: float) -> float:
        """Waits until that many tasks have run; returns the moment (monotonic)."""
        deadline, progress, before = time.monotonic() + seconds, time.monotonic(), -1
        while True:
            count, now = self.tallies.total(), time.monotonic()
            if count >= wanted:
                return now
            if count != before:
                before, progress = count, now
            if now > deadline or now - progress > STALLED_SECONDS:
                raise MeasureError(f"stood still at {count} of {wanted} jobs" + self._who_died())
            await asyncio.sleep(LOOK_SECONDS)

    async def warm_up(self, variant: Variant) -> int:
        """Runs jobs until every process has had one, or has had every chance; returns how many ran."""
        submitted = 0
        for _ in range(WARM_UP_TRIES):
            await self.submit(WARM_UP, 30)
            submitted += WARM_UP
            await self.reach(submitted, 30)
            if len([count for count in self.tallies.counts() if count]) >= variant.processes:
                break
        await asyncio.sleep(SETTLE_SECONDS)
        return submitted

    async def settle(self) -> None:
        """Waits until what was started has done what it does at a start, so that this is no part of a measure."""
        for _ in range(SETTLE_TRIES):
            before = processor_seconds(self.pids)
            await asyncio.sleep(SETTLE_SECONDS)
            if processor_seconds(self.pids) - before < CALM_SHARE * SETTLE_SECONDS:
                return

    @property
    def pids(self) -> list[int]:
        """What was started and stays."""
        return [worker.pid for worker in (*self._beside, *self._workers)]

    def used(self) -> dict[str, float]:
        """Processor seconds so far: of what always runs, of the workers, of the server, and of all others here."""
        return {
            "beside": processor_seconds([process.pid for process in self._beside]),
            "workers": processor_seconds([worker.pid for worker in self._workers]),
            "server": processor_seconds([self._bench.server.pid]),
            "elsewhere": elsewhere_seconds(),
        }

    def end(self) -> None:
        """Ends all processes of the trial."""
        for submitter in self._submitters:
            submitter.end()
        for worker in (*self._workers, *self._beside):
            worker.end()

    def _who_died(self) -> str:
        running = all(worker.is_running for worker in (*self._beside, *self._workers))
        return "" if running else " (a process of it ended)"


class PeerBench:
    """All measures of one peer."""

    def __init__(
        self,
        *,
        python: str,
        module: str,
        server: Server,
        folder: Path,
        sizes: Sizes,
        tell: Callable[[str], None],
    ) -> None:
        self.server = server
        self.folder = folder
        self.log = folder / "processes.log"
        self.peer: Description
        self._python = python
        self._module = module
        self._sizes = sizes
        self._tell = tell
        self._trials = itertools.count(1)
        self._deadline = time.monotonic() + sizes.peer_seconds

    def command(self, *arguments: str) -> Command:
        """The peer's file with a command."""
        return [self._python, "-m", self._module, *arguments]

    async def describe(self) -> Description:
        """Asks the peer's file who it is."""
        return Description.read(await run(self.command("describe"), inherited(), self.log, PREPARE_SECONDS))

    async def measure(self) -> Figures:
        """Takes all measures; one that fails is a reason in the table."""
        self.peer = await self.describe()
        found: Figures = {}
        rate = await self._attempt(found, "calibration", self._calibrate)
        if rate is None:
            return found
        for variant in self.peer.variants[: self._sizes.variants]:
            await self._throughput(found, variant, rate["rate"])
        best = self._best(found)
        if isinstance(self.server, RedisServer) and "end_to_end" in found:
            await self._attempt(found, "append_only", lambda: self._append_only(best, found["end_to_end"]["count"]))
        best = self.peer.timed or best
        if self.peer.delayed:
            speed = found.get("submit", {}).get("rate", math.inf)
            burst, even, step = self._sizes.burst, self._sizes.even, self._sizes.even_step
            await self._attempt(found, "burst", lambda: self._punctual(best, burst, 0.0, speed))
            await self._attempt(found, "even", lambda: self._punctual(best, even, step, speed))
        if self.peer.schedules:
            await self._attempt(found, "schedules", lambda: self._schedules(best))
        return found

    async def _attempt(
        self, found: Figures, name: str, measure: Callable[[], Coroutine[Any, Any, Figures]]
    ) -> Figures | None:
        began = time.monotonic()
        try:
            if began > self._deadline:
                raise MeasureError("not measured: the peer's time was used up")  # noqa: TRY301 - one way to say it
            async with asyncio.timeout(max(60.0, self._deadline - began)):
                figures = await measure()
        except (MeasureError, TimeoutError) as error:
            found[name] = {"failed": str(error) or "took too long"}
            self._tell(f"{name}: {found[name]['failed']}")
            return None
        found[name] = figures
        self._tell(f"{name}: {shown(figures)}  [{time.monotonic() - began:.0f} s]")
        return figures

    async def _throughput(self, found: Figures, variant: Variant, rate: float) -> None:
        """Submission, drain and both at once with one variant; each figure is kept if it is the best so far."""
        several = 1.3 if variant.processes > 1 else 1.0
        backlog = self._sizes.jobs or _round(rate * self._sizes.drain_seconds * several)
        both = self._sizes.jobs or _round(rate * self._sizes.end_to_end_seconds * several)
        taken: Figures = {}
        await self._attempt(taken, "drain", lambda: self.drain(variant, backlog))
        await self._attempt(taken, "end_to_end", lambda: self.end_to_end(variant, both))
        for name, figures in taken.items():
            found.setdefault("tried", []).append({"measure": name, "variant": variant.label} | figures)
            before = found.get(name)
            if before is None or "failed" in before or figures.get("rate", 0) > before["rate"]:
                found[name] = {"variant": variant.label} | figures
        submitted = [entry["submit_rate"] for entry in found["tried"] if "submit_rate" in entry]
        if submitted:
            found["submit"] = {"rate": max(submitted)}

    def _best(self, found: Figures) -> Variant:
        label = found.get("end_to_end", {}).get("variant")
        return next((variant for variant in self.peer.variants if variant.label == label), self.peer.variants[0])

    @asynccontextmanager
    async def trial(self, schedules: int = 0) -> AsyncIterator[Trial]:
        """An empty database and what always runs; all its processes end with it."""
        trial = Trial(self, next(self._trials), schedules)
        try:
            await trial.prepare()
            yield trial
        finally:
            trial.end()

    async def _calibrate(self) -> Figures:
        """About how many jobs a second; the counts of the measures follow from it."""
        async with self.trial() as trial:
            variant = self.peer.variants[0]
            trial.start(variant.commands)
            done = await trial.warm_up(variant)
            count = min(FIRST_CALIBRATION, self._sizes.jobs or FIRST_CALIBRATION)
            while True:
                submitted = await trial.submit(count, 60)
                seconds = await trial.reach(done + count, 60) - submitted["began"]
                done += count
                if seconds > CALIBRATED_SECONDS or count >= (self._sizes.jobs or LAST_CALIBRATION):
                    return {"rate": count / seconds}
                count = min(LAST_CALIBRATION, count * 5)

    async def drain(self, variant: Variant, count: int) -> Figures:
        """A backlog that waits when the workers start."""
        async with self.trial() as trial:
            submitted = await trial.submit(count, 90)
            trial.start(variant.commands)
            await trial.reach(1, 40)
            first = time.monotonic()
            # A second process is up a little later than the first: the clock starts when both work.
            while len([one for one in trial.tallies.counts() if one]) < variant.processes:
                if time.monotonic() - first > ALL_ACTIVE_SECONDS:
                    break
                await asyncio.sleep(LOOK_SECONDS)
            began, before, used = time.monotonic(), trial.tallies.total(), trial.used()
            if before > count / 2:
                began, before = first, 0
            ended = await trial.reach(count, 120)
            return {
                "rate": (count - before) / (ended - began),
                "count": count,
                "submit_rate": count / (submitted["ended"] - submitted["began"]),
                "microseconds": microseconds(used, trial.used(), count - before),
            }

    async def end_to_end(self, variant: Variant, count: int) -> Figures:
        """Submitter and workers at once, from the first submission to the last job's run."""
        async with self.trial() as trial:
            trial.start(variant.commands)
            warm = await trial.warm_up(variant)
            submitter = await trial.submitter("submit", count)
            used = trial.used()
            written = await self.server.written()
            await submitter.go()
            ended = await trial.reach(warm + count, 120)
            submitted = await submitter.finish(60)
            await asyncio.sleep(SETTLE_SECONDS)  # what is still being acknowledged belongs to the cost
            cost = microseconds(used, trial.used(), count) | {"client": submitted["processor"] / count * 1e6}
            after = await self.server.written()
            return {
                "rate": count / (ended - submitted["began"]),
                "count": count,
                "seconds": ended - submitted["began"],
                "library_cpu_per_1000": (cost["client"] + cost["beside"] + cost["workers"]) / 1000,
                "server_cpu_per_1000": cost["server"] / 1000,
                "microseconds": cost,
                "wal_bytes_per_job": None if written is None or after is None else (after - written) / count,
                "peak_megabytes": peak_megabytes(trial.pids),
                "ran_twice": trial.tallies.total() - warm - count,
            }

    async def _append_only(self, variant: Variant, count: int) -> Figures:
        """End to end once more, with a Redis that logs to disk and syncs every second."""
        assert isinstance(self.server, RedisServer)  # noqa: S101 - for the type checker
        await self.server.append_only(wanted=True)
        try:
            return await self.end_to_end(variant, count)
        finally:
            await self.server.append_only(wanted=False)

    async def _punctual(self, variant: Variant, count: int, step: float, speed: float) -> Figures:
        """Jobs for a time: all at one instant (step 0), or one after the other. `speed` tells how early to begin."""
        lead = max(self._sizes.lead_seconds, count / speed * 1.5 + 2.0)
        for _ in range(3):
            async with self.trial() as trial:
                trial.start(variant.commands)
                trial.start(self.peer.for_delayed)
                warm = await trial.warm_up(variant)
                submitter = await trial.submitter("submit-at", count)
                first = math.ceil(time.time() + lead)
                await submitter.go(first=first, step=step)
                submitted = await submitter.finish(90)
                took = submitted["ended"] - submitted["began"]
                if time.time() > first - 1.0:
                    lead = took * 1.3 + 2.5
                    continue
                last = first + count * step
                await asyncio.sleep(max(0.0, last - time.time()))
                with contextlib.suppress(MeasureError):
                    await trial.reach(warm + count, 30)
                return _lags(trial, count) | {"submit_seconds": took}
        raise MeasureError("could not be submitted before they were due")

    async def _schedules(self, variant: Variant) -> Figures:
        """Schedules that fire each second."""
        count, length = self._sizes.schedules, self._sizes.schedule_seconds
        async with self.trial(schedules=count) as trial:
            submitter = await trial.submitter("schedule", count)
            await submitter.go()
            await submitter.finish(60)
            trial.start(variant.commands)
            trial.start(self.peer.for_schedules)
            await trial.reach(1, 40)
            first = math.ceil(time.time()) + 3
            await asyncio.sleep(first + length + 3 - time.time())
            starts: dict[int, list[float]] = defaultdict(list)
            for index, moment in trial.tallies.records():
                starts[index].append(moment)
            judge = _judge_aligned if self.peer.aligned else _judge_interval
            fired, off = judge(starts, first, length)
            if not off:
                raise MeasureError("fired nothing")
            return {"fired": fired, "of": count * length, "p50": _quantile(off, 0.5), "p99": _quantile(off, 0.99)}


def _lags(trial: Trial, count: int) -> Figures:
    """How late jobs with a due time were. The first record of a job counts; others are repetitions."""
    first: dict[int, float] = {}
    for index, lag in trial.tallies.records():
        first[index] = min(lag, first.get(index, math.inf))
    lags = sorted(first.values())
    if not lags:
        raise MeasureError("started nothing")
    return {
        "started": len(lags),
        "of": count,
        "p50": _quantile(lags, 0.5),
        "p99": _quantile(lags, 0.99),
        "max": lags[-1],
        "early": sum(lag < 0 for lag in lags),
        "earliest": min(0.0, lags[0]),
    }


def _judge_aligned(starts: dict[int, list[float]], first: int, length: int) -> tuple[int, list[float]]:
    """Each start belongs to the latest whole second that nobody has taken yet, so a late one is never judged later."""
    fired, off = 0, []
    for moments in starts.values():
        # Seconds before and after the window can be taken too, or their starts would count for seconds inside it.
        free = set(range(math.floor(min(moments)), math.ceil(max(moments)) + 1))
        for moment in sorted(moments):
            second = max((nominal for nominal in free if nominal <= moment), default=None)
            if second is None and math.ceil(moment) - moment < EARLY_SECONDS:
                second = math.ceil(moment)
            if second is None:
                continue
            free.discard(second)
            if first <= second < first + length:
                fired += 1
                off.append(abs(moment - second))
    return fired, off


def _judge_interval(starts: dict[int, list[float]], first: int, length: int) -> tuple[int, list[float]]:
    """Intervals begin whenever they begin: how far two firings are from being a second apart."""
    fired, off = 0, []
    for moments in starts.values():
        inside = sorted(moment for moment in moments if first <= moment < first + length)
        fired += len(inside)
        off += [abs(after - before - 1.0) for before, after in itertools.pairwise(inside)]
    return fired, off


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    if share == 0.5:  # noqa: PLR2004 - the median
        return statistics.median(ordered)
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)]


def microseconds(before: dict[str, float], after: dict[str, float], count: int) -> dict[str, float]:
    """Processor time per job, by part."""
    return {part: (after[part] - before[part]) / count * 1e6 for part in after}


def _round(count: float) -> int:
    """To two digits, at least 200."""
    digits = max(0, math.floor(math.log10(max(count, 1))) - 1)
    return max(200, int(round(count / 10**digits) * 10**digits))


def inherited() -> dict[str, str]:
    """This process's environment, in which the peers' files can be imported from anywhere."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def shown(figures: Figures) -> str:
    """Figures for the progress line."""
    return ", ".join(
        f"{name} {value:,.0f}" if isinstance(value, float) and value >= 100 else f"{name} {value:.3g}"  # noqa: PLR2004
        for name, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
