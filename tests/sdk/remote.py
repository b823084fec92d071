"""An application that submits over HTTP."""

from __future__ import annotations

from contextlib import asynccontextmanager

import rota
from serving import TOKEN


@asynccontextmanager
async def remote(url):
    """A task of an application that submits over HTTP."""
    app = rota.App("remote", url=url, token=TOKEN)

    @app.task(name="send")
    async def send(to: str) -> str:
        return to

    try:
        yield send
    finally:
        await app.close()
