"""Keys of an identity provider, as a JWKS lists them. What we would not verify with is left out when it is read.

A key belongs to one algorithm, by its own kind and never by what a token says: RSA of 2048 bits or more to RS256, P-256
to ES256, Ed25519 to EdDSA. Secret keys are not taken from a list that is public, and of private ones only what is
public.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from rota.access.jwt_parsing import read_object
from rota.errors import InvalidTokenError, RotaError

MOST_KEYS = 100
LARGEST_SET_BYTES = 512 * 1024
SMALLEST_RSA_BITS = 2048
LARGEST_RSA_BITS = 8192  # larger ones only make verifying slow
# By type and curve: the algorithm, and the members that are public.
_KINDS: dict[tuple[Any, Any], tuple[str, tuple[str, ...]]] = {
    ("RSA", None): ("RS256", ("n", "e")),
    ("EC", "P-256"): ("ES256", ("crv", "x", "y")),
    ("OKP", "Ed25519"): ("EdDSA", ("crv", "x")),
}


class KeysError(RotaError):
    """Keys can't be had; the message says why."""


@dataclass(frozen=True)
class Key:
    """A public key. Two are the same when what they are made of is."""

    algorithm: str
    key_id: str | None
    members: tuple[str, ...] = field(repr=False)
    public: Any = field(repr=False, compare=False)


@dataclass(frozen=True, eq=True)
class KeySet:
    """The keys that a provider has at one time."""

    keys: tuple[Key, ...]

    def knows(self, key_id: str | None) -> bool:
        """Whether asking the provider again would be of no use for this one."""
        return key_id is None or not self._has_ids or any(key.key_id == key_id for key in self.keys)

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """The one key that fits. By algorithm alone where either side names none, if that leaves no choice."""
        fitting = [key for key in self.keys if key.algorithm == algorithm]
        if key_id is not None and self._has_ids:
            fitting = [key for key in fitting if key.key_id == key_id]
        return fitting[0] if len(fitting) == 1 else None

    @property
    def _has_ids(self) -> bool:
        # A provider that has no key at all may well name the next one.
        return not self.keys or any(key.key_id is not None for key in self.keys)


def read_keys(data: bytes) -> KeySet:
    """The usable keys of a JWKS; raises KeysError for what is none."""
    try:
        listed = read_object(data).get("keys")
    except InvalidTokenError:
        raise KeysError("what was found is no JSON object, or one with a key twice") from None
    if not isinstance(listed, list):
        raise KeysError("what was found is no JWKS: it has no list named keys")
    if len(listed) > MOST_KEYS:
        raise KeysError(f"the JWKS lists more than {MOST_KEYS} keys")
    return KeySet(tuple(key for entry in listed if (key := _read_key(entry))))


def _read_key(entry: Any) -> Key | None:
    """The key, or None if it is not for us."""
    if not isinstance(entry, dict) or not _is_for_verifying(entry):
        return None
    kind = _kind(entry)
    key_id = entry.get("kid")
    if kind is None or not (key_id is None or isinstance(key_id, str)):
        return None
    algorithm, names = kind
    members = {name: entry.get(name) for name in names}
    if entry.get("alg", algorithm) != algorithm or not all(isinstance(value, str) for value in members.values()):
        return None
    public = _public_key({"kty": entry["kty"], **members}, algorithm)
    return None if public is None else Key(algorithm, key_id, tuple(str(value) for value in members.values()), public)


def _is_for_verifying(entry: dict[str, Any]) -> bool:
    operations = entry.get("key_ops")
    listed = operations is None or (isinstance(operations, list) and "verify" in operations)
    return entry.get("use", "sig") == "sig" and listed


def _kind(entry: dict[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    kind, curve = entry.get("kty"), entry.get("crv")
    if not isinstance(kind, str) or not (curve is None or isinstance(curve, str)):
        return None
    return _KINDS.get((kind, curve))


def _public_key(members: dict[str, Any], algorithm: str) -> Any:
    try:
        public = jwt.PyJWK(members, algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None  # numbers that make no key
    if isinstance(public, RSAPublicKey) and not SMALLEST_RSA_BITS <= public.key_size <= LARGEST_RSA_BITS:
        return None
    return public
