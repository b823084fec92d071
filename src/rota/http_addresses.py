"""Which addresses HTTP jobs and messages to destinations may reach. Checked when connecting, so that no host name gets
around it.

The public internet is allowed; private, loopback and other special networks only if the process's settings list them;
link-local addresses and the metadata services of clouds never.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from rota.errors import SetupError

Address = IPv4Address | IPv6Address
SETTING = "ROTA_HTTP_ALLOW"

_NEVER = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local; AWS, Azure, Google and others answer at 169.254.169.254
        "fe80::/10",
        "fd00:ec2::254/128",  # AWS over IPv6
        "fd20:ce::254/128",  # Google over IPv6
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure's own services
        "192.0.0.192/32",  # Oracle
        "0.0.0.0/8",
        "::/128",
        "255.255.255.255/32",
    )
)
# Special networks that the standard library considers public, or that only embed IPv4 in IPv6.
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "fec0::/10",
        "::/96",
        "::ffff:0:0:0/96",
        "5f00::/16",
        "3fff::/20",
        "192.88.99.0/24",
        "192.0.0.0/24",
    )
)
# IPv6 networks whose last 32 bits are an IPv4 address: NAT64 and older forms.
_CARRIERS = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")))


class ForbiddenAddressError(OSError):
    """This worker must not call the address of an HTTP job."""


class AddressGuard:
    """Checks addresses against the rules above and the allowed networks."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = tuple(_network(text) for text in allowed)

    def check(self, text: str) -> None:
        """Raises ForbiddenAddressError for an address that must not be called."""
        for meant in _meanings(ip_address(text.partition("%")[0])):
            if any(meant in network for network in _NEVER) or meant.is_multicast:
                raise ForbiddenAddressError(f"{text} is an address that no HTTP job may call, with any {SETTING}")
            public = meant.is_global and not any(meant in network for network in _NOT_PUBLIC)
            if not public and not any(meant in network for network in self._allowed):
                raise ForbiddenAddressError(
                    f"{text} is a private address; HTTP jobs may call it where the worker's {SETTING} names it"
                )

    def make_socket(self, info: Any) -> socket.socket:
        """For aiohttp's connector: a socket for an address that passes the check."""
        family, kind, protocol, _, address = info
        self.check(str(address[0]))
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made


def is_refusal(error: OSError) -> bool:
    """Whether the guard refused an address. Of several addresses that failed, only the words are left."""
    return SETTING in str(error)


def is_address(host: str) -> bool:
    """Whether it is an address rather than a name."""
    try:
        ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def _meanings(address: Address) -> Iterable[Address]:
    """The address, and any IPv4 address embedded in it."""
    yield address
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            yield address.ipv4_mapped
        if address.sixtofour:
            yield address.sixtofour
        if address.teredo:
            yield from address.teredo
        if any(address in network for network in _CARRIERS):
            yield IPv4Address(int(address) & 0xFFFFFFFF)


def _network(text: str) -> Any:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise SetupError(
            f"ROTA_HTTP_ALLOW must be networks separated by commas, such as 10.0.0.0/8,127.0.0.1, not {text!r}"
        ) from None
