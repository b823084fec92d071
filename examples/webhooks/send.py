"""Tells three customers ten things each; one of them has a server that is down. Rota and the receivers must be up."""

from __future__ import annotations

import asyncio

from webhooks import Customer, app, tell

CUSTOMERS = (
    Customer("acme", "http://127.0.0.1:8111/acme", per_second=5),
    Customer("globex", "http://127.0.0.1:8111/globex", per_second=20),
    Customer("initech", "http://127.0.0.1:8112/initech", per_second=20),
)


async def main() -> None:
    """Waits for those whose server works."""
    async with app:
        runs = {customer.name: [await tell(customer, number=number) for number in range(10)] for customer in CUSTOMERS}
        for name in ("globex", "acme"):
            await asyncio.gather(*(run.result(timeout=60) for run in runs[name]))
            print(f"{name} has been told everything")
        print(f"initech waits: {await runs['initech'][-1].status()}")


if __name__ == "__main__":
    asyncio.run(main())
