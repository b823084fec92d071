"""The server's address, token and headers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rota.client.http_messages import TimeLimits
from rota.client.http_routes import host_of
from rota.errors import SetupError
from rota.settings import Settings

if TYPE_CHECKING:
    import ssl

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
        fits = fits and url.isprintable() and " " not in url and bool(host_of(parts))
    except ValueError:
        fits = False
    if fits and "@" in parts.netloc:
        raise SetupError("ROTA_URL has a user name or password: remove it, and set ROTA_TOKEN instead")
    if not fits:
        raise SetupError(f"{url!r} is not the address of a server, such as http://127.0.0.1:7682 (ROTA_URL, ROTA_PORT)")
    return url.rstrip("/")


def trust(url: str, ca_file: str | Path | None = None) -> ssl.SSLContext | None:
    """The trusted certificates: those in `ca_file` or ROTA_CA_FILE, else the system's; None without TLS."""
    if not url.startswith("https:"):
        return None
    import ssl  # noqa: PLC0415 - only who uses TLS pays for it

    ca_file = ca_file or Settings.from_environment().ca_file
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise SetupError(f"ROTA_CA_FILE: {ca_file} has no PEM certificates ({error})") from error


def time_limits(seconds: float) -> TimeLimits:
    """The time-outs of a try: of silence, and a shorter one for connecting."""
    return TimeLimits(connect=min(seconds, _CONNECT_SECONDS), silence=seconds)
