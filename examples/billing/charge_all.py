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

ACCOUNTS = 5
OPENING_CENTS = 1_000_000
WORKERS = 2
UNDONE = "SELECT count(*) FROM rota.runs WHERE task = 'billing.charge' AND status NOT IN ('success', 'failed')"
LOST = "SELECT count(*) FROM rota.attempts WHERE outcome = 'lost'"


class Killer:
    """Keeps workers running, and kills one of them now and then."""

    def __init__(self, kills: int) -> None:
        self._left = kills
        self._workers = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rota.cli.main", "worker", "--app", "billing:app", "--slots", "5"]
        return subprocess.Popen(command, cwd=Path(__file__).parent)

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


async def charge_accounts(database: Any, count: int, killer: Killer, kills: int) -> None:
    """Submits the charges, and kills whenever another part of them is done."""
    calls = [charge.call(f"charge {number}", number % ACCOUNTS, number) for number in range(count)]
    await charge.submit_many(calls)
    for kill in range(kills):
        await until_undone(database, count - count * (kill + 1) // (kills + 2))
        killer.kill()
    await until_undone(database, 0)


async def until_undone(database: Any, most: int) -> None:
    """Waits until so few charges are left to be done."""
    while await database.fetchval(UNDONE) > most:
        await asyncio.sleep(0.05)


async def check(database: Any, count: int) -> bool:
    """Every charge is in the ledger once, and the accounts are what the ledger says."""
    entries = Counter(row["charge"] for row in await database.fetch("SELECT charge FROM ledger"))
    missing = count - len(entries)
    twice = sum(times > 1 for times in entries.values())
    taken = ACCOUNTS * OPENING_CENTS - await database.fetchval("SELECT sum(cents) FROM accounts")
    print(f"{count} charges, {await database.fetchval(LOST)} attempts lost with their workers")
    print(f"{missing} missing, {twice} made twice, {taken - sum(range(count))} cents too many taken")
    return missing == twice == taken - sum(range(count)) == 0


async def main(count: int, kills: int) -> bool:
    """Begins with an empty ledger."""
    database = await asyncpg.connect(os.environ["DATABASE_URL"])
    await database.execute(TABLES + "TRUNCATE accounts, ledger")
    await database.execute(
        "INSERT INTO accounts SELECT n, $2 FROM generate_series(0, $1) n", ACCOUNTS - 1, OPENING_CENTS
    )
    killer = Killer(kills)
    try:
        async with app:
            await charge_accounts(database, count, killer, kills)
    finally:
        killer.stop()
    return await check(database, count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--charges", type=int, default=300)
    parser.add_argument("--kills", type=int, default=4)
    given = parser.parse_args()
    sys.exit(not asyncio.run(main(given.charges, given.kills)))
