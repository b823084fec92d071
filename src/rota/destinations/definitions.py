"""What a destination is made of: checks what users give, and keeps apart what may be seen and what may not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from rota.contract.destinations import DEFAULT_KINDS, DestinationIn
from rota.destinations.sealing import DestinationSecrets, Sealer, SealError, SigningSecret
from rota.destinations.signatures import check_secret, new_secret
from rota.domain.runner_payloads import check_url
from rota.errors import BadInputError, NotFoundError
from rota.store.deliver.destinations import DestinationRow

OVERLAP = timedelta(days=1)  # for which a secret that was replaced signs beside the new one


class DestinationDefinition:
    """A change of a destination; `secret` is what was made for it, to be shown once."""

    def __init__(self, sealer: Sealer, wanted: DestinationIn, by: str) -> None:
        self._sealer = sealer
        self._wanted = wanted
        self._by = by
        self.secret: str | None = None

    def apply(self, destination_id: UUID, before: Any | None) -> DestinationRow:
        """The row of the destination; raises BadInputError for what can't be."""
        wanted = self._wanted
        kind = wanted.kind or (before["kind"] if before else "webhook")
        is_other = before is None or kind != before["kind"]
        if is_other and wanted.url is None:
            raise BadInputError("is required", field="url")
        secrets = self._secrets(destination_id, before, kind, is_other=is_other)
        severity = wanted.least_severity or (before["least_severity"] if before else None)
        return DestinationRow(
            kind=kind,
            shown=shown_address(kind, secrets.url) if wanted.url or before is None else before["shown"],
            sealed=self._sealer.seal(destination_id, secrets),
            kinds=wanted.kinds or (list(before["kinds"]) if before else DEFAULT_KINDS),
            least_severity=severity,
            enabled=(before["enabled"] if before else True) if wanted.enabled is None else wanted.enabled,
            changed_by=self._by,
        )

    def _secrets(self, destination_id: UUID, before: Any | None, kind: str, *, is_other: bool) -> DestinationSecrets:
        wanted = self._wanted
        if kind != "webhook":
            if wanted.secret is not None:
                raise BadInputError("signs webhooks alone", field="secret")
            url = wanted.url or self._opened(destination_id, before).url
            return DestinationSecrets(url)
        if wanted.secret is not None:
            check_secret(wanted.secret)
        if wanted.url is not None:
            check_webhook_url(wanted.url)
        if is_other or before is None:
            self.secret = None if wanted.secret else new_secret()
            return DestinationSecrets(wanted.url or "", (SigningSecret(wanted.secret or self.secret or ""),))
        if wanted.url is not None and wanted.secret is not None:
            # Everything is new: what was sealed with a key that is lost is not needed.
            return DestinationSecrets(wanted.url, (SigningSecret(wanted.secret),))
        opened = self._opened(destination_id, before)
        signing = opened.signing if wanted.secret is None else rotated(opened.signing, wanted.secret)
        return DestinationSecrets(wanted.url or opened.url, signing)

    def _opened(self, destination_id: UUID, before: Any) -> DestinationSecrets:
        try:
            return self._sealer.open(destination_id, before["sealed"])
        except SealError as error:
            raise BadInputError(str(error), field="url") from None


class Rotation:
    """A new secret for a webhook; the old one signs beside it for a day."""

    def __init__(self, sealer: Sealer, by: str) -> None:
        self._sealer = sealer
        self._by = by
        self.secret = new_secret()

    def apply(self, destination_id: UUID, before: Any | None) -> DestinationRow:
        if before is None:
            raise NotFoundError("there is no such destination")
        if before["kind"] != "webhook":
            raise BadInputError("only webhooks are signed")
        try:
            opened = self._sealer.open(destination_id, before["sealed"])
        except SealError as error:
            raise BadInputError(str(error)) from None
        secrets = msgspec.structs.replace(opened, signing=rotated(opened.signing, self.secret))
        return DestinationRow(
            kind=before["kind"],
            shown=before["shown"],
            sealed=self._sealer.seal(destination_id, secrets),
            kinds=list(before["kinds"]),
            least_severity=before["least_severity"],
            enabled=before["enabled"],
            changed_by=self._by,
        )


def rotated(signing: tuple[SigningSecret, ...], new: str) -> tuple[SigningSecret, ...]:
    """The new secret first, and of the others those that still sign: the latest one until the overlap is over."""
    now = datetime.now(UTC)
    others = [one for one in signing if one.text != new and (one.until is None or now < one.until)]
    kept = [SigningSecret(one.text, one.until or now + OVERLAP) for one in others[:1]]
    return (SigningSecret(new), *kept)


def check_webhook_url(url: str) -> None:
    """Raises BadInputError for what is no web address; nothing of it is repeated."""
    try:
        check_url(url)
    except BadInputError:
        words = "must begin with http:// or https://, name a host, and have no spaces or control characters"
        raise BadInputError(words, field="url") from None


def shown_address(kind: str, url: str) -> str:
    """What may be seen of an address. Apprise has tokens in any place but the scheme."""
    parts = urlsplit(url)
    if kind == "apprise":
        return f"{parts.scheme}://"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port}" if parts.port else f"{parts.scheme}://{host}"
