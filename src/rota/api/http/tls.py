"""TLS of the API: certificate and key from files, loaded again when these change.

After a renewal new connections get the new certificate, open ones keep theirs. Files that don't fit together, because
only one is new yet, are tried again at the next tick.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from rota.errors import SetupError
from rota.service import Service
from rota.settings import Settings
from rota.telemetry import get_logger

_WARN_BEFORE = timedelta(days=14)
_WARN_EVERY = timedelta(days=1)
_log = get_logger("tls")


class Certificate(Service):
    """The server's certificate; `context` stays the same object when it is renewed."""

    interval_seconds = 60.0

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises SetupError for files that are not a certificate and its key."""
        super().__init__()
        self._files = certificate, key
        self._seen = self._state()
        self._warned: datetime | None = None
        self.context = load(certificate, key)
        self._warn()

    @classmethod
    def of(cls, settings: Settings) -> Certificate | None:
        """The certificate in the settings; None: no TLS."""
        if settings.tls_certificate is None or settings.tls_key is None:
            return None
        return cls(settings.tls_certificate, settings.tls_key)

    async def tick(self) -> int:
        """Loads the files again if they changed; returns whether the certificate was renewed."""
        state = self._state()
        renewed = state != self._seen and self._renew()
        if renewed:
            self._seen = state
        self._warn()
        return renewed

    def _renew(self) -> bool:
        try:
            load(*self._files)  # tried separately: half of it must not get into the context in use
            self.context.load_cert_chain(*self._files, password=_refuse_password)
        except (SetupError, OSError) as error:
            _log.warning("the new certificate can't be used; the old one is kept", error=str(error))
            return False
        self._warned = None
        _log.info("the certificate was renewed", certificate=str(self._files[0]))
        return True

    def _state(self) -> list[tuple[int, int, int] | None]:
        return [_look_at(file) for file in self._files]

    def _warn(self) -> None:
        ends, now = _end_of(self._files[0]), datetime.now(UTC)
        if ends is None or ends - now > _WARN_BEFORE or (self._warned and now - self._warned < _WARN_EVERY):
            return
        self._warned = now
        what = "has expired: clients refuse it" if ends <= now else "expires soon"
        _log.warning(f"the certificate {what}; renew it", certificate=str(self._files[0]), until=ends.isoformat())


def load(certificate: Path, key: Path) -> ssl.SSLContext:
    """A context with this certificate; raises SetupError."""
    for variable, file in (("ROTA_TLS_CERTIFICATE", certificate), ("ROTA_TLS_KEY", key)):
        try:
            file.open("rb").close()
        except OSError as error:
            raise SetupError(f"{variable}: {file} can't be read ({error.strerror}); name a file in PEM form") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except ssl.SSLError as error:
        raise SetupError(_words(error, certificate, key)) from error
    return context


def _words(error: ssl.SSLError, certificate: Path, key: Path) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"ROTA_TLS_KEY: {key} is not the key of {certificate}; name the key that was made for it"
    if _holds(certificate, b"PRIVATE KEY-----") and _holds(key, b"-----BEGIN CERTIFICATE-----"):
        return (
            f"ROTA_TLS_CERTIFICATE and ROTA_TLS_KEY are swapped: {certificate} is a key, and {key} is a certificate; "
            "exchange them"
        )
    for variable, file, wanted in (
        ("ROTA_TLS_CERTIFICATE", certificate, b"-----BEGIN CERTIFICATE-----"),
        ("ROTA_TLS_KEY", key, b"PRIVATE KEY-----"),
    ):
        if not _holds(file, wanted):
            what = "certificate" if b"CERT" in wanted else "private key"
            return f"{variable}: there is no {what} in PEM form in {file}; name the file that holds it"
    return (
        f"ROTA_TLS_CERTIFICATE, ROTA_TLS_KEY: {certificate} and {key} can't be used ({error.reason or error}); they "
        "must be a certificate, with those that lead to its authority behind it, and its key, both in PEM form"
    )


def _holds(file: Path, words: bytes) -> bool:
    try:
        return words in file.read_bytes()
    except OSError:
        return False


def _refuse_password() -> NoReturn:
    raise SetupError("ROTA_TLS_KEY: the key is encrypted; store it without a password, readable by the server alone")


def _look_at(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _end_of(certificate: Path) -> datetime | None:
    """When it expires; None if that can't be read now."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - takes a while, and only TLS needs it

    try:
        return load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None
