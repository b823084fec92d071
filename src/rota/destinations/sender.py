"""Sends a message to a destination, whatever its kind. An attempt never raises: a failure is words without secrets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rota.destinations.apprise_messages import AppriseSender
from rota.destinations.attempts import DeliveryAttempt
from rota.destinations.messages import Message
from rota.destinations.sealing import DestinationSecrets, Sealer, SealError
from rota.destinations.signatures import signed_headers
from rota.destinations.webhooks import WebhookSender
from rota.errors import RotaError
from rota.http_addresses import AddressGuard
from rota.settings import Settings
from rota.telemetry import get_logger

TIMEOUT_SECONDS = 10.0
_START_SECONDS = 5.0  # of a process that loads Apprise
_log = get_logger("destinations")


class EventSender:
    """Opens what is sealed and sends."""

    def __init__(self, sealer: Sealer, *, allow: Sequence[str] = (), timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.sealer = sealer
        self.timeout_seconds = timeout_seconds
        self.apprise = AppriseSender(allow, timeout_seconds + _START_SECONDS)
        self._webhooks = WebhookSender(AddressGuard(allow), timeout_seconds)

    @classmethod
    def of(cls, settings: Settings) -> EventSender:
        return cls(Sealer.of(settings), allow=settings.http_allow)

    async def send(self, destination: Any, message: Message) -> DeliveryAttempt:
        """One attempt to send a message to a destination (its row)."""
        try:
            opened = self.sealer.open(destination["id"], destination["sealed"])
            if destination["kind"] == "apprise":
                return await self.apprise.send(opened.url, message)
            return await self._post(opened, message)
        except (SealError, RotaError) as error:
            return DeliveryAttempt(error=str(error))
        except Exception as error:  # noqa: BLE001 - one bad destination must not stop the others
            # Not the error itself: its words and its traceback may show the address.
            _log.error("a message could not be sent", destination=destination["name"], error=type(error).__name__)
            return DeliveryAttempt(error=f"it could not be sent ({type(error).__name__})")

    async def _post(self, opened: DestinationSecrets, message: Message) -> DeliveryAttempt:
        body, now = message.body, datetime.now(UTC)
        signing = [one.text for one in opened.signing if one.until is None or now < one.until]
        headers = signed_headers(message.id, int(time.time()), body, signing)
        return await self._webhooks.send(opened.url, headers, body)
