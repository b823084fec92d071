"""The way to a server: directly, or through the proxy that the environment names."""

from __future__ import annotations

import os
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from rota.client.http_messages import SUCCESS, NotConnectedError, words_of
from rota.errors import SetupError
from rota.settings import LOOPBACK

if TYPE_CHECKING:
    import ssl

MOST_CONNECTIONS = 100  # idle ones of a client; and of an asynchronous one, those in use
# Longer than the pauses of a busy client, and shorter than servers and proxies keep connections (Rota 75 s, others 60).
IDLE_SECONDS = 15.0
# For so long after its last answer a connection is believed to be open.
SURE_SECONDS = 1.0
_PORTS = {"http": 80, "https": 443}


class Route(NamedTuple):
    """Where to connect, and what comes before the first request.

    `authority` is the server's as in `Host`; `before_path` precedes the path in requests. `proxy` names the peer if it
    is one, `tunnel` is the request for a connection through it, and `proxy_authorization` is for a proxy that gets the
    requests themselves.
    """

    host: str
    port: int
    server_name: str
    authority: str
    tls: ssl.SSLContext | None
    before_path: str
    proxy: str | None = None
    tunnel: bytes | None = None
    proxy_authorization: str | None = None

    @property
    def usual_headers(self) -> dict[str, str]:
        """The headers of every request on this way."""
        usual = {"Host": self.authority, "User-Agent": "rota-client"}
        return usual | ({"Proxy-Authorization": self.proxy_authorization} if self.proxy_authorization else {})


def find_route(url: str, tls: ssl.SSLContext | None) -> Route:
    """The way to the server of this address; raises SetupError for a proxy that can't be used."""
    server = urlsplit(url)
    name, port = host_of(server), server.port or _PORTS[server.scheme]
    whole = _authority(name, port)
    authority = whole if server.port else whole.rpartition(":")[0]
    path = quote(server.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
    direct = Route(name, port, name, authority, tls, path)
    proxy = _proxy_for(server)
    if proxy is None:
        return direct
    host, port, authorization = host_of(proxy), proxy.port or _PORTS["http"], _basic(proxy)
    behind = direct._replace(host=host, port=port, proxy=_authority(host, port))
    if tls is None:
        return behind._replace(before_path=f"http://{authority}{path}", proxy_authorization=authorization)
    secret = f"Proxy-Authorization: {authorization}\r\n" if authorization else ""
    return behind._replace(tunnel=f"CONNECT {whole} HTTP/1.1\r\nHost: {whole}\r\n{secret}\r\n".encode("ascii"))


def shares(count: int, seconds: float) -> Iterator[float]:
    """How long to try each of so many addresses: one that swallows packets must leave time for the others."""
    ends = time.monotonic() + seconds
    for tried in range(count):
        yield max((ends - time.monotonic()) / (count - tried), 0.001)


def not_connected(route: Route, error: Exception) -> NotConnectedError:
    """The error for a connection that failed; names the proxy, but never its password."""
    words = words_of(error) if isinstance(error, OSError) else str(error)
    return NotConnectedError(f"{words}, through the proxy {route.proxy}" if route.proxy else words)


def check_tunnel(status: int) -> None:
    """Raises OSError unless the proxy has connected us with the server."""
    if status not in SUCCESS:
        raise ConnectionRefusedError(f"CONNECT was answered with {status}" if status else "CONNECT was not answered")


def _proxy_for(server: SplitResult) -> SplitResult | None:
    # Elsewhere than on macOS, proxies are in the environment only; the module is slow to import.
    if server.hostname in LOOPBACK or not (_names_proxy() or sys.platform == "darwin"):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - see above

    proxies = getproxies()
    given = proxies.get(server.scheme) or proxies.get("all")
    if not given or proxy_bypass(server.netloc):
        return None
    return _read_proxy(given)


def _names_proxy() -> bool:
    return any(name.lower().endswith("_proxy") for name in os.environ)


def _read_proxy(given: str) -> SplitResult:
    """Never shows the address, which may have a password."""
    try:
        proxy = urlsplit(given if "://" in given else f"http://{given}")
        fits = proxy.scheme == "http" and bool(proxy.hostname) and (proxy.port or 80) > 0
    except ValueError:
        fits = False
    if not fits:
        raise SetupError(
            "The proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY can't be used: it must be like http://proxy:3128 "
            "(set NO_PROXY to the server's host to reach it directly)"
        )
    return proxy


def _basic(proxy: SplitResult) -> str | None:
    if not proxy.username and not proxy.password:
        return None
    pair = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def host_of(parts: SplitResult) -> str:
    """The host as it is looked up; raises ValueError for a name that can't be one."""
    name = parts.hostname or ""
    return name if name.isascii() else name.encode("idna").decode("ascii")


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
