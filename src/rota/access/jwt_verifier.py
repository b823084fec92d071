"""From the text of a token to its identity.

A token names its own algorithm and key, which must not be trusted: HS256 is only for our own secret, the others only
for keys of the provider, and each of those keys for one algorithm. Until the signature is verified, the sender learns
only that the token is not valid.

Verified tokens are remembered by their hash until they expire or the set of keys changes.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

from rota.access.jwt_claims import Expectations, RolesClaim
from rota.access.jwt_keys import SigningKeys, source_of
from rota.access.jwt_parsing import (
    NOT_VALID,
    OWN_ALGORITHM,
    PROVIDER_ALGORITHMS,
    Header,
    check_shape,
    read_claims,
    read_header,
)
from rota.access.jwt_signing import secret_bytes
from rota.domain.rights import Identity, Role
from rota.errors import InvalidTokenError, SetupError
from rota.service import Service
from rota.settings import Settings

_MOST_REMEMBERED = 10_000
_OWN = object()  # in place of a set of keys, for tokens signed with our own secret


class _Verified(NamedTuple):
    identity: Identity
    expires_at: float
    keys: object


class TokenVerifier:
    """Verifies tokens against the secret and the provider's keys."""

    def __init__(
        self,
        *,
        secret: bytes | None,
        keys: SigningKeys | None,
        expectations: Expectations,
        roles: RolesClaim,
        clock: Callable[[], float] = time.time,
        most_remembered: int = _MOST_REMEMBERED,
    ) -> None:
        self._secret = secret
        self._keys = keys
        self._expectations = expectations
        self._roles = roles
        self._clock = clock
        self._most_remembered = most_remembered
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    @classmethod
    def from_settings(cls, settings: Settings, *, clock: Callable[[], float] = time.time) -> Self | None:
        """The verifier for these settings, if any; raises SetupError."""
        if settings.jwt_secret is None and settings.jwt_keys is None:
            return None
        if settings.jwt_keys is not None and not settings.jwt_audience:
            raise SetupError(
                "ROTA_JWT_KEYS needs ROTA_JWT_AUDIENCE: without, tokens that the provider issued for others would do"
            )
        return cls(
            secret=None if settings.jwt_secret is None else secret_bytes(settings.jwt_secret),
            keys=None if settings.jwt_keys is None else SigningKeys(source_of(settings.jwt_keys)),
            expectations=Expectations(
                issuer=settings.jwt_issuer, audience=settings.jwt_audience, leeway_seconds=settings.jwt_leeway_seconds
            ),
            roles=RolesClaim(name=settings.jwt_claim, default_role=_role(settings.jwt_default_role)),
            clock=clock,
        )

    @property
    def fingerprint(self) -> bytes:
        """A hash of the secret, provider, issuer and audience.

        Sessions are stored with it and end when it changes, so its text must not follow the names of our classes.
        """
        origin = None if self._keys is None else self._keys.origin
        issuer, audience = self._expectations.issuer, self._expectations.audience
        leeway = self._expectations.leeway_seconds
        text = f"({origin!r}, Expectations(issuer={issuer!r}, audience={audience!r}, leeway_seconds={leeway!r}))"
        parts = (self._secret or b"", text.encode())
        return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).digest()

    async def verify(self, token: str) -> Identity:
        """The identity of a token; raises InvalidTokenError. Waits only for unknown keys."""
        check_shape(token)
        digest = hashlib.sha256(token.encode()).digest()
        if known := self._recall(digest):
            return known
        header = read_header(token)
        keys, key = await self._key(header)
        # Nothing below awaits: the keys can't change meanwhile.
        claims = read_claims(token, key=key, algorithm=header.algorithm)
        subject, expires_at = self._expectations.check(claims, self._clock())
        grants, expiry = self._roles.read(claims), datetime.fromtimestamp(expires_at, UTC)
        identity = Identity(name=subject, kind="jwt", grants=grants, expires_at=expiry)
        self._verified[digest] = _Verified(identity, expires_at, keys)
        if len(self._verified) > self._most_remembered:
            self._verified.popitem(last=False)
        return identity

    @property
    def services(self) -> list[Service]:
        """The service that keeps the keys fresh; without it, removed keys stay in use for a day."""
        return [] if self._keys is None else [self._keys]

    async def _key(self, header: Header) -> tuple[object, Any]:
        """The key to verify with, and the set it is from."""
        if header.algorithm == OWN_ALGORITHM and self._secret is not None:
            return _OWN, self._secret
        if header.algorithm in PROVIDER_ALGORITHMS and self._keys is not None:
            found = await self._keys.find(header.key_id, header.algorithm)
            if found is not None:
                return found[0], found[1].public
        raise InvalidTokenError(NOT_VALID)

    def _recall(self, digest: bytes) -> Identity | None:
        found = self._verified.get(digest)
        if found is None:
            return None
        in_force = found.keys is _OWN or (self._keys is not None and found.keys is self._keys.current)
        if not in_force or self._clock() >= found.expires_at:
            del self._verified[digest]
            return None
        self._verified.move_to_end(digest)
        return found.identity


def _role(text: str | None) -> Role | None:
    if text is None:
        return None
    try:
        return Role(text)
    except ValueError:
        raise SetupError(f"ROTA_JWT_DEFAULT_ROLE must be one of {', '.join(Role)}, not {text!r}") from None
