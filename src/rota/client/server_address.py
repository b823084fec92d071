"""The server's address, and the token and headers of requests to it."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from rota.errors import SetupError
from rota.settings import LOOPBACK, Settings

_CONNECT_SECONDS = 5.0
_PORTS = range(1, 65536)


def find_server(url: str | None, token: str | None) -> tuple[str, str | None]:
    """Address and token: as given, else as the environment says; raises SetupError when they can't be right.

    The admin token of this machine's home goes to the server of that home only, never to another address.
    """
    if url is None or token is None:
        settings = Settings.from_environment()
        at_home = url is None or url.rstrip("/") == settings.url.rstrip("/")
        url = settings.url if url is None else url
        if token is None:
            token = settings.token if at_home else settings.given_token
    if token and not (token.isascii() and token.isprintable()):
        raise SetupError("The token holds characters that no token has; look at ROTA_TOKEN or admin.token.")
    return check_url(url), token


def request_headers(token: str | None, namespace: str | None) -> dict[str, str]:
    """What goes with every request; without a namespace the server chooses: the token's only one, or the default."""
    namespace = namespace or Settings.from_environment().namespace
    if namespace and not (namespace.isascii() and namespace.isprintable()):
        raise SetupError(f"{namespace!r} is not the name of a namespace; look at ROTA_NAMESPACE.")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return headers | ({"Rota-Namespace": namespace} if namespace else {})


def check_url(url: str) -> str:
    """The server's address; raises SetupError when it can't be one."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 80) in _PORTS
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        fits = False
    if fits and "@" in parts.netloc:
        raise SetupError("ROTA_URL holds a name or a password: leave them out, the server wants a token (ROTA_TOKEN)")
    if not fits:
        raise SetupError(f"{url!r} is not the address of a server, such as http://127.0.0.1:7682 (ROTA_URL, ROTA_PORT)")
    return url.rstrip("/")


def trust(url: str, ca_file: str | Path | None = None) -> ssl.SSLContext | bool:
    """Whose certificates are believed: what is in this file (given, or in ROTA_CA_FILE), else what httpx believes."""
    if not url.startswith("https:"):
        return True
    ca_file = ca_file or Settings.from_environment().ca_file
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise SetupError(f"ROTA_CA_FILE: {ca_file} holds no certificates in PEM form ({error})") from error


def needs_proxy(url: str) -> bool:
    """A proxy for the outside world is of no use on the way to this very machine."""
    return urlsplit(url).hostname not in LOOPBACK


def time_limits(seconds: float) -> httpx.Timeout:
    """How long a try may take; an address where nothing listens is noticed sooner."""
    return httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
