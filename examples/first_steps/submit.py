"""Submits tasks from Python: first with await, then from code that can't."""

from __future__ import annotations

import asyncio

from tasks import app, count, greet


async def main() -> None:
    """Some runs at once, and one for later."""
    run = await greet.submit("Ada", times=2)
    print(await run.result(timeout=30))
    many = await greet.submit_many(greet.call(name) for name in ("Grace", "Alan"))
    print(await asyncio.gather(*(one.result(timeout=30) for one in many)))
    later = await greet.after("1h").submit("team")
    print("later:", await later.status())
    await later.cancel()
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
    print(count.sync.with_options(priority="high").submit(3).result(timeout=30))
