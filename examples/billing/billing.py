"""Charging accounts exactly once: rota worker --app billing:app."""

from __future__ import annotations

import asyncio

import rota

app = rota.App("billing")

# Nothing here forbids a second entry of a charge: if one were made, it would be seen.
TABLES = """
CREATE TABLE IF NOT EXISTS accounts (account integer PRIMARY KEY, cents bigint NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (charge text NOT NULL, account integer NOT NULL, cents bigint NOT NULL);
"""


@app.task(transactional=True, retries=1000, retry=rota.Retry(strategy="fixed", base_seconds=0.5))
async def charge(context: rota.Context, charge: str, account: int, cents: int) -> int:
    """Takes money from an account and enters it into the ledger; returns what is left.

    What is written through context.connection is committed together with the run's success, or not at all. So there is
    no key to look up first, and nothing to repair afterwards.
    """
    execute, fetch = context.connection.execute, context.connection.fetchval
    await execute("INSERT INTO ledger (charge, account, cents) VALUES ($1, $2, $3)", charge, account, cents)
    await asyncio.sleep(0.05)  # a good moment to be killed
    left = await fetch("UPDATE accounts SET cents = cents - $2 WHERE account = $1 RETURNING cents", account, cents)
    if left is None:
        raise rota.Final(f"there is no account {account}")  # the entry above is rolled back
    return int(left)
