"""The server's address, token and headers."""

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
    """Address and token, as given or from the environment; raises SetupError if they are invalid.

    The admin token of this machine's home is sent only to the server of that home.
    """
    if url is None or token is None:
        settings = Settings.from_environment()
        at_home = url is None or url.rstrip("/") == settings.url.rstrip("/")
        url = settings.url if url is None else url
        if token is None:
            token = settings.token if at_home else settings.given_token
    if token and not (token.isascii() and token.isprintable()):
        raise SetupError("The token has invalid characters; check ROTA_TOKEN or admin.token.")
    return check_url(url), token


def request_headers(token: str | None, namespace: str | None) -> dict[str, str]:
    """The headers of every request; without a namespace the server uses the token's only one, or the default."""
    namespace = namespace or Settings.from_environment().namespace
    if namespace and not (namespace.isascii() and namespace.isprintable()):
        raise SetupError(f"{namespace!r} is not a namespace's name; check ROTA_NAMESPACE.")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return headers | ({"Rota-Namespace": namespace} if namespace else {})


def check_url(url: str) -> str:
    """The server's address; raises SetupError if it is invalid."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 80) in _PORTS
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        fits = False
    if fits and "@" in parts.netloc:
        raise SetupError("ROTA_URL has a user name or password: remove it, and set ROTA_TOKEN instead")
    if not fits:
        raise SetupError(f"{url!r} is not the address of a server, such as http://127.0.0.1:7682 (ROTA_URL, ROTA_PORT)")
    return url.rstrip("/")


def trust(url: str, ca_file: str | Path | None = None) -> ssl.SSLContext | bool:
    """The trusted certificates: those in `ca_file` or ROTA_CA_FILE, else httpx's default."""
    if not url.startswith("https:"):
        return True
    ca_file = ca_file or Settings.from_environment().ca_file
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise SetupError(f"ROTA_CA_FILE: {ca_file} has no PEM certificates ({error})") from error


def needs_proxy(url: str) -> bool:
    """Whether to use a proxy: not for this machine."""
    return urlsplit(url).hostname not in LOOPBACK


def time_limits(seconds: float) -> httpx.Timeout:
    """The timeout of a try; connecting has a shorter one."""
    return httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
