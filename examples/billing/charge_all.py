"""Charges some accounts while the workers that do it are killed; then counts. Rota must be up."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
from billing import TABLES, app, charge

import rota

ACCOUNTS = 5
OPENING_CENTS = 1_000_000
WORKERS = 2


class Killer:
    """Keeps workers running, and kills one of them now and then."""

    def __init__(self, kills: int) -> None:
        self._left = kills
        self._workers = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rota.cli.main", "worker", "--app", "billing:app", "--slots", "5"]
        quiet = {**os.environ, "ROTA_LOG_LEVEL": "error"}  # a busy machine makes them warn
        return subprocess.Popen(command, cwd=Path(__file__).parent, env=quiet)

    def kill(self) -> None:
        """SIGKILL for the one that has lived longest: no handler, no last words. Another one takes its place."""
        if self._left:
            self._left -= 1
            victim = self._workers.pop(0)
            victim.kill()
            victim.wait()
            self._workers.append(self._start())

    def stop(self) -> None:
        """The others may finish what they do."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait()


async def charge_accounts(database: Any, count: int, killer: Killer, kills: int) -> list[rota.Run[int]]:
    """Submits the charges, and kills whenever another part of them is in the ledger."""
    calls = [charge.call(f"charge {number}", number % ACCOUNTS + 1, number) for number in range(count)]
    runs = await charge.submit_many(calls)
    for kill in range(kills):
        await until_entered(database, count * (kill + 1) // (kills + 2))
        killer.kill()
    await asyncio.gather(*(run.result() for run in runs))
    return runs


async def until_entered(database: Any, least: int) -> None:
    """Waits until there are so many entries."""
    while await database.fetchval("SELECT count(*) FROM ledger") < least:  # noqa: ASYNC110 - others write it
        await asyncio.sleep(0.05)


async def count_lost(runs: list[rota.Run[int]]) -> int:
    """How many attempts came to nothing."""
    ours = {run.id for run in runs}
    async with rota.AsyncClient() as client:
        return sum([run.attempt - 1 async for run in client.runs(task=charge.name) if run.run_id in ours])


async def check(database: Any, count: int) -> bool:
    """Every charge is in the ledger once, and the accounts are what the ledger says."""
    entries = Counter(row["charge"] for row in await database.fetch("SELECT charge FROM ledger"))
    missing = count - len(entries)
    twice = sum(times > 1 for times in entries.values())
    left = await database.fetchval("SELECT sum(cents) FROM accounts")
    surplus: int = ACCOUNTS * OPENING_CENTS - left - sum(range(count))
    print(f"{missing} missing, {twice} made twice, {surplus} cents too many taken")
    return missing == twice == surplus == 0


async def main(count: int, kills: int) -> bool:
    """Begins with an empty ledger."""
    database = await asyncpg.connect(os.environ["DATABASE_URL"])
    await database.execute(TABLES + "TRUNCATE accounts, ledger")
    opening = "INSERT INTO accounts SELECT number, $2 FROM generate_series(1, $1) number"
    await database.execute(opening, ACCOUNTS, OPENING_CENTS)
    killer = Killer(kills)
    try:
        async with app:
            runs = await charge_accounts(database, count, killer, kills)
    finally:
        killer.stop()
    print(f"{count} charges, {await count_lost(runs)} attempts lost with their workers")
    return await check(database, count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--charges", type=int, default=300)
    parser.add_argument("--kills", type=int, default=4)
    given = parser.parse_args()
    sys.exit(not asyncio.run(main(given.charges, given.kills)))
