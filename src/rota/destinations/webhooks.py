"""Sends webhooks. Every address that is connected to is checked (http_addresses.py); redirects are not followed.

Nothing of the address may show in an error, so none of the client's own words are used.
"""

from __future__ import annotations

import ssl
from importlib.metadata import version

import aiohttp
from yarl import URL

from rota.destinations.attempts import DeliveryAttempt
from rota.http_addresses import SETTING, AddressGuard, is_refusal
from rota.time_limits import time_limit

_ANSWER_BYTES = 4096  # of the answer are read, so that a receiver sees it was taken
_OK = range(200, 300)
_REDIRECTS = range(300, 400)


class WebhookSender:
    """Posts messages, each on a connection of its own: nothing is shared between destinations."""

    def __init__(self, guard: AddressGuard, timeout_seconds: float) -> None:
        self._guard = guard
        self._timeout = timeout_seconds

    async def send(self, url: str, headers: dict[str, str], body: bytes) -> DeliveryAttempt:
        try:
            async with time_limit(self._timeout):
                return await self._post(url, headers, body)
        except TimeoutError:
            return DeliveryAttempt(error=f"no answer within {self._timeout:g} seconds")
        except aiohttp.ClientConnectorDNSError:
            return DeliveryAttempt(error="the name of its host can't be resolved")
        except aiohttp.ClientConnectorError as error:
            return DeliveryAttempt(error=_reason(error.os_error))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return DeliveryAttempt(error=f"the request failed ({type(error).__name__})")

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> DeliveryAttempt:
        connector = aiohttp.TCPConnector(force_close=True, socket_factory=self._guard.make_socket)
        given = {"Content-Type": "application/json", "User-Agent": f"rota/{version('rota')}"} | headers
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session,
            session.post(URL(url), data=body, headers=given, allow_redirects=False) as response,
        ):
            await response.content.read(_ANSWER_BYTES)
            if response.status in _OK:
                return DeliveryAttempt(answer=response.status)
            why = "; redirects are not followed" if response.status in _REDIRECTS else ""
            return DeliveryAttempt(answer=response.status, error=f"answered {response.status}{why}")


def _reason(error: OSError) -> str:
    if is_refusal(error):
        return f"{SETTING} does not let its address be called"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or type(error).__name__})"
    return "it can't be reached"
