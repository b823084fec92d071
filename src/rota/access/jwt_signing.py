"""Tokens of our own: signed with the secret that the API verifies them with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import jwt
from jwt.algorithms import HMACAlgorithm

from rota.access.jwt_claims import RolesClaim, read_subject
from rota.access.jwt_parsing import LONGEST_TOKEN, OWN_ALGORITHM
from rota.domain.rights import Grant
from rota.errors import BadInputError, InvalidTokenError, SetupError
from rota.settings import Settings

_LEAST_SECRET_BYTES = 32


def secret_bytes(secret: str) -> bytes:
    """The secret as it is used in signatures; raises SetupError, which does not show it."""
    # From the environment come bytes that are no text as halves of surrogate pairs.
    data = secret.encode("utf-8", "surrogateescape")
    if len(data) < _LEAST_SECRET_BYTES:
        raise SetupError(f"ROTA_JWT_SECRET must have at least {_LEAST_SECRET_BYTES} bytes: openssl rand -base64 48")
    try:
        HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(data)
    except jwt.InvalidKeyError:
        raise SetupError("ROTA_JWT_SECRET is a public key or a JWK: use random bytes that only you know") from None
    return data


def sign_token(
    secret: str,
    subject: str,
    grants: Mapping[str, Grant],
    expires_at: datetime,
    issuer: str | None = None,
    audience: str | None = None,
    claim: str = Settings.jwt_claim,
) -> str:
    """A token that the API with these settings accepts; raises BadInputError if it would not."""
    roles = {namespace: {"role": grant.role.value, "sees": grant.sees} for namespace, grant in grants.items()}
    claims: dict[str, Any] = {"sub": subject, "iat": int(time.time()), "exp": int(expires_at.timestamp()), claim: roles}
    claims |= {name: value for name, value in (("iss", issuer), ("aud", audience)) if value is not None}
    try:
        read_subject(subject)
        RolesClaim(name=claim).read(claims)
    except InvalidTokenError as error:
        raise BadInputError(str(error)) from None
    token = jwt.encode(claims, secret_bytes(secret), algorithm=OWN_ALGORITHM)
    if len(token) > LONGEST_TOKEN:
        raise BadInputError(f"the token would be longer than {LONGEST_TOKEN} characters: name fewer namespaces")
    return token
