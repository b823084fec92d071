"""Runs the benchmark: `python -m bench.peers`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.peers.measuring import SHORT, PeerBench, Sizes, inherited
from bench.peers.processes import MeasureError, run
from bench.peers.reporting import Result, machine, print_tables, write
from bench.peers.servers import PostgresServer, RedisServer, Server

ROOT = Path(__file__).resolve().parents[2]
OWN = sys.executable
# ARQ needs an older client library for Redis than TaskIQ and Celery do, so it can't live in the same environment.
OLDER_REDIS = str(ROOT / ".venv-peers-redis5" / "bin" / "python")
OLDER_REQUIREMENTS = str(ROOT / "bench" / "peers" / "requirements-redis5.txt")
INSTALL_SECONDS = 300.0


@dataclass(frozen=True)
class Entry:
    """Where a peer's library is installed and what it stands on."""

    server: type[RedisServer | PostgresServer]
    python: str = OWN


PEERS = {
    "celery": Entry(RedisServer),
    "dramatiq": Entry(RedisServer),
    "taskiq": Entry(RedisServer),
    "arq": Entry(RedisServer, OLDER_REDIS),
    "saq": Entry(RedisServer, OLDER_REDIS),
    "procrastinate": Entry(PostgresServer),
    "pgqueuer": Entry(PostgresServer),
    "apscheduler": Entry(PostgresServer),
    "awa": Entry(PostgresServer),
    "rota": Entry(PostgresServer),
}


def main() -> None:
    """Reads the options and runs."""
    options = _options()
    sizes = replace(SHORT if options.short else Sizes(), **({"jobs": options.jobs} if options.jobs else {}))
    results = asyncio.run(_run(options.only or list(PEERS), sizes, options.lock))
    facts = machine(short=options.short)
    print_tables(results)
    write(options.output, results, facts, sizes)
    say(f"written: peers.json and peers.md in {options.output}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PEERS, metavar="NAME", help=f"some of: {', '.join(PEERS)}")
    parser.add_argument("--jobs", type=int, help="jobs per throughput measure (else what fits into ten seconds)")
    parser.add_argument("--short", action="store_true", help="seconds per peer: shows that it works, measures nothing")
    parser.add_argument("--output", type=Path, default=Path("bench/results"), help="where the results go")
    parser.add_argument("--lock", type=Path, help="hold this file's lock (flock) during each peer, for taking turns")
    return parser.parse_args()


async def _run(names: list[str], sizes: Sizes, lock: Path | None) -> list[Result]:
    results = []
    for name in names:
        with turn_of(lock), tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as folder:
            results.append(await _peer(name, sizes, Path(folder)))
    return results


async def _peer(name: str, sizes: Sizes, folder: Path) -> Result:
    """One peer on a server of its own, or the reason why not."""
    entry, began = PEERS[name], time.monotonic()
    result = Result(name=name)

    def tell(line: str) -> None:
        say(f"[{name}] {line}")

    if entry.server is RedisServer and not RedisServer.is_installed():
        result.skipped = "there is no redis-server here (Debian: apt-get install redis-server)"
    elif not shutil.which(entry.python) and not await _install(folder / "install.log", tell):
        result.skipped = "its environment could not be made (bench/peers/requirements-redis5.txt)"
    else:
        server = entry.server(folder)
        try:
            result.server_version = await server.start()
            result.durability = server.durability
            await _measure(result, entry, server, folder, sizes, tell)
        except MeasureError as error:
            result.skipped = str(error)
        finally:
            await server.stop()
    tell(result.skipped or f"done in {time.monotonic() - began:.0f} s")
    return result


async def _install(log: Path, tell: Callable[[str], None]) -> bool:
    """Makes the second environment, once."""
    folder = str(Path(OLDER_REDIS).parents[1])
    tell(f"making {Path(folder).name} (once)")
    try:
        await run([OWN, "-m", "venv", folder], inherited(), log, INSTALL_SECONDS)
        install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
            OLDER_REQUIREMENTS,
        ]
        await run([OLDER_REDIS, *install], inherited(), log, INSTALL_SECONDS)
    except MeasureError:
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return True


async def _measure(
    result: Result, entry: Entry, server: Server, folder: Path, sizes: Sizes, tell: Callable[[str], None]
) -> None:
    work = folder / "work"
    work.mkdir()
    bench = PeerBench(
        python=entry.python,
        module=f"bench.peers.peer_{result.name}",
        server=server,
        folder=work,
        sizes=sizes,
        tell=tell,
    )
    try:
        result.figures = await bench.measure()
    finally:
        result.description = getattr(bench, "peer", None)
        _keep_log(bench, result, tell)


def _keep_log(bench: PeerBench, result: Result, tell: Callable[[str], None]) -> None:
    """The end of what the processes wrote, when something failed."""
    failed = result.description is None or any("failed" in str(figures) for figures in result.figures.values())
    if failed and bench.log.exists():
        for line in bench.log.read_text(errors="replace").splitlines()[-15:]:
            tell(f"  | {line}")


@contextlib.contextmanager
def turn_of(lock: Path | None) -> Iterator[None]:
    """Holds the lock, if there is one, so that several programs on one machine measure in turns."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(line: str) -> None:
    """A line of progress, with the time."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
