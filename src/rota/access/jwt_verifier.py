"""From the text of a token to who is behind it.

A token says by itself which algorithm and key it wants to be judged by, and must not be believed: HS256 is for the own
secret alone, the others for keys of the provider alone, and each of these for the one algorithm of its kind. Until the
signature is found to be right, all that is said to the sender is that the token is not valid.

What was verified is remembered, by the token's hash: until the token expires, and only while the very set of keys is in
force that it was verified with.
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
_OWN = object()  # stands where a set of keys does, for what the own secret signed


class _Verified(NamedTuple):
    identity: Identity
    expires_at: float
    keys: object


class TokenVerifier:
    """Knows who may sign tokens, and what these must say."""

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
        """The verifier that the settings ask for, or None; raises SetupError."""
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
                issuer=settings.jwt_issuer,
                audience=settings.jwt_audience,
                leeway_seconds=settings.jwt_leeway_seconds,
            ),
            roles=RolesClaim(name=settings.jwt_claim, default_role=_role(settings.jwt_default_role)),
            clock=clock,
        )

    @property
    def fingerprint(self) -> bytes:
        """Tells whether the same secret, provider, issuer and audience are in force as before.

        Sessions are stored with this hash and end when it changes. So the text behind it is written out here, and does
        not follow the names of our classes and fields.
        """
        origin = None if self._keys is None else self._keys.origin
        issuer, audience = self._expectations.issuer, self._expectations.audience
        leeway = self._expectations.leeway_seconds
        text = f"({origin!r}, Expectations(issuer={issuer!r}, audience={audience!r}, leeway_seconds={leeway!r}))"
        parts = (self._secret or b"", text.encode())
        return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).digest()

    async def verify(self, token: str) -> Identity:
        """Who is behind the token; raises InvalidTokenError. Waits only for a key that is not known."""
        check_shape(token)
        digest = hashlib.sha256(token.encode()).digest()
        if known := self._recall(digest):
            return known
        header = read_header(token)
        keys, key = await self._key(header)
        # From here to the end nothing waits: the keys can't change meanwhile.
        claims = read_claims(token, key=key, algorithm=header.algorithm)
        identity, expires_at = self._identify(claims)
        self._remember(digest, _Verified(identity, expires_at, keys))
        return identity

    @property
    def services(self) -> list[Service]:
        """What keeps the keys fresh. Without it, one that the provider took out stays in use for a day."""
        return [] if self._keys is None else [self._keys]

    async def _key(self, header: Header) -> tuple[object, Any]:
        """What to judge the token by, with the set it is from."""
        if header.algorithm == OWN_ALGORITHM and self._secret is not None:
            return _OWN, self._secret
        if header.algorithm in PROVIDER_ALGORITHMS and self._keys is not None:
            found = await self._keys.find(header.key_id, header.algorithm)
            if found is not None:
                keys, key = found
                return keys, key.public
        raise InvalidTokenError(NOT_VALID)

    def _identify(self, claims: dict[str, Any]) -> tuple[Identity, float]:
        subject, expires_at = self._expectations.check(claims, self._clock())
        identity = Identity(
            name=subject,
            kind="jwt",
            grants=self._roles.read(claims),
            expires_at=datetime.fromtimestamp(expires_at, UTC),
        )
        return identity, expires_at

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

    def _remember(self, digest: bytes, verified: _Verified) -> None:
        self._verified[digest] = verified
        if len(self._verified) > self._most_remembered:
            self._verified.popitem(last=False)


def _role(text: str | None) -> Role | None:
    if text is None:
        return None
    try:
        return Role(text)
    except ValueError:
        raise SetupError(f"ROTA_JWT_DEFAULT_ROLE must be one of {', '.join(Role)}, not {text!r}") from None
