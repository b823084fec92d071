"""Pages for browsers: files of this package, with a policy that lets nothing but their own script and style run."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files

from starlette.responses import Response


def page_response(name: str) -> Response:
    page = _read(name)
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": _policy(page)})


@cache
def _read(name: str) -> str:
    return files("rota.api").joinpath(name).read_text(encoding="utf-8")


@cache
def _policy(page: str) -> str:
    """Allows the page's own script and style by their hash, and requests to its own server."""
    allowed = ["default-src 'none'"]
    for tag in ("script", "style"):
        inside = page.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        if inside:
            allowed.append(f"{tag}-src 'sha256-{b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'")
    return "; ".join(
        [*allowed, "connect-src 'self'", "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'"]
    )
