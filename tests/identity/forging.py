"""Keys and tokens, right ones and forged ones, made without the code under test."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import timedelta
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

SECRET = "a secret of the tests, long enough to be one"  # noqa: S105 - known to the tests alone
ISSUER = "https://sign-in.example"
AUDIENCE = "rota"
NOW = timedelta()


def part(data: Any) -> str:
    """A part of a token: bytes and text as they are, the rest as JSON."""
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else json.dumps(data)).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, size: int | None = None) -> str:
    return part(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def claims(**changes: Any) -> dict[str, Any]:
    """What a good token says. A change to None leaves that out; a timedelta is a time from now on."""
    given = {"sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "iat": NOW, "exp": timedelta(minutes=10)} | changes
    return {name: _moment(value) for name, value in given.items() if value is not None}


def _moment(value: Any) -> Any:
    return int(time.time()) + value.total_seconds() if isinstance(value, timedelta) else value


class Signer:
    """A private key: signs, and tells its public half as a JWK."""

    def __init__(self, private: Any, algorithm: str, key_id: str | None) -> None:
        self.private = private
        self.algorithm = algorithm
        self.key_id = key_id

    def sign(self, data: bytes) -> bytes:
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if isinstance(self.private, ed25519.Ed25519PrivateKey):
            return self.private.sign(data)
        size = (self.private.curve.key_size + 7) // 8
        return b"".join(
            value.to_bytes(size, "big")
            for value in decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
        )

    def token(self, payload: Any = None, header: Any = None, **changes: Any) -> str:
        """A token; `header` is added to the usual one, or takes its place where it is text."""
        usual = {"alg": self.algorithm, "typ": "JWT"} | ({"kid": self.key_id} if self.key_id else {})
        first = header if isinstance(header, str) else usual | (header or {})
        signed = f"{part(first)}.{part(claims(**changes) if payload is None else payload)}"
        return f"{signed}.{part(self.sign(signed.encode()))}"

    def jwk(self, **changes: Any) -> dict[str, Any]:
        """The public half; a change to None leaves that out."""
        given = {"kid": self.key_id, "use": "sig", "alg": self.algorithm} | self._members() | changes
        return {name: value for name, value in given.items() if value is not None}

    def pem(self) -> bytes:
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def _members(self) -> dict[str, str]:
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            numbers = public.public_numbers()
            return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
        if isinstance(public, ed25519.Ed25519PublicKey):
            return {"kty": "OKP", "crv": "Ed25519", "x": part(public.public_bytes_raw())}
        size = (public.curve.key_size + 7) // 8
        names = {"secp256r1": "P-256", "secp384r1": "P-384", "secp256k1": "secp256k1"}
        point = public.public_numbers()
        return {
            "kty": "EC",
            "crv": names[public.curve.name],
            "x": number(point.x, size),
            "y": number(point.y, size),
        }


class OwnSigner(Signer):
    """The own secret, or what somebody takes for it."""

    def __init__(self, secret: str | bytes = SECRET) -> None:
        super().__init__(secret.encode() if isinstance(secret, str) else secret, "HS256", None)

    def sign(self, data: bytes) -> bytes:
        return hmac.digest(self.private, data, hashlib.sha256)


@cache
def rsa_signer(key_id: str | None = "r1", bits: int = 2048) -> Signer:
    return Signer(rsa.generate_private_key(65537, bits), "RS256", key_id)


@cache
def ec_signer(key_id: str | None = "e1", curve: type[ec.EllipticCurve] = ec.SECP256R1) -> Signer:
    return Signer(ec.generate_private_key(curve()), "ES256", key_id)


@cache
def ed_signer(key_id: str | None = "d1") -> Signer:
    return Signer(ed25519.Ed25519PrivateKey.generate(), "EdDSA", key_id)


def key_set(*keys: Signer | dict[str, Any]) -> str:
    """A JWKS."""
    return json.dumps({"keys": [key.jwk() if isinstance(key, Signer) else key for key in keys]})
