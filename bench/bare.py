"""The same server without a database: what the route for one job can do when nothing is written.

Everything up to the commit is the real thing (uvicorn, routing, token, decoding, checks, the answer); only the group
committer says yes at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
import uvloop

from rota.access.authenticator import Authenticator
from rota.api.app import build_app
from rota.api.backend import Backend
from rota.api.server import http_config
from rota.domain.job import Submission


class _Yes:
    async def submit(self, items: Sequence[Submission]) -> list[None]:
        return [None] * len(items)


def build_bare_app(token: str) -> Any:
    """The API with everything but its database."""
    services = Backend(database=None, shards=64, payload_limit_bytes=64 * 1024, blobs=None)  # type: ignore[arg-type]
    services.gateway._committer = _Yes()  # type: ignore[assignment]  # noqa: SLF001 - nothing public leads there
    services.gateway.limits.number = 0  # nobody has limits
    return build_app(services, Authenticator(token), "bench")


def main() -> None:
    """Serves on a port until it is told to stop: python -m bench.bare PORT TOKEN."""
    port, token = int(sys.argv[1]), sys.argv[2]
    uvloop.run(uvicorn.Server(http_config(build_bare_app(token), "127.0.0.1", port)).serve())


if __name__ == "__main__":
    main()
