"""Whatever comes as a token: it is refused with InvalidTokenError, or it is one of ours."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import cache

import pytest
from forging import AUDIENCE, ISSUER, SECRET, OwnSigner, claims, ec_signer, ed_signer, key_set, part, rsa_signer
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.access.jwt_claims import Expectations, RolesClaim
from rota.access.jwt_keys import KeysError, SigningKeys, read_keys
from rota.access.jwt_verifier import TokenVerifier
from rota.domain.rights import Identity
from rota.errors import InvalidTokenError

SIGNERS = [OwnSigner(), rsa_signer(), ec_signer(), ed_signer()]


def json_of(leaves):
    return st.recursive(
        leaves | st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
        max_leaves=10,
    )


strict_values = json_of(st.floats(allow_nan=False, allow_infinity=False))
values = json_of(st.floats())  # NaN is no JSON, but some writers write it
roles = st.sampled_from(["viewer", "admin", "boss", "orders:viewer", "*:admin", "*", "role", "sees", "all"]) | values
grants = st.dictionaries(st.sampled_from(["orders", "*", "role", "sees"]), roles) | st.lists(roles) | values
header_names = ["alg", "kid", "typ", "cty", "crit", "b64", "jwk", "jku", "x5u", "x5c", "zip", "enc"]
algorithms = st.sampled_from(["none", "HS256", "HS512", "RS256", "PS256", "ES256", "ES384", "EdDSA", "r1", "e1", "d1"])
headers = st.dictionaries(st.sampled_from(header_names), algorithms | values)
claim_names = ["sub", "exp", "nbf", "iat", "aud", "iss", "jti"]
changes = st.dictionaries(st.sampled_from(claim_names), values) | st.fixed_dictionaries({"rota": grants})


class ConstantSource:
    """Has all keys at once."""

    name = "constant"
    pause_seconds = retry_seconds = least_seconds = 60.0

    async def load(self):
        return read_keys(key_set(rsa_signer(), ec_signer(), ed_signer()).encode())


@cache
def verifier():
    return TokenVerifier(
        secret=SECRET.encode(),
        keys=SigningKeys(ConstantSource()),
        expectations=Expectations(issuer=ISSUER, audience=AUDIENCE),
        roles=RolesClaim(name="rota"),
    )


def outcome(token):
    """The identity, or the refusal; nothing else may come out."""
    try:
        return asyncio.run(verifier().verify(token))
    except InvalidTokenError as refused:
        return str(refused)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_refused(text):
    assert outcome(text) == "the token is not valid"


@settings(deadline=None)
@given(st.lists(st.binary(), min_size=3, max_size=3))
def test_any_bytes_in_three_parts_are_refused(parts):
    assert outcome(".".join(map(part, parts))) == "the token is not valid"


@settings(deadline=None)
@given(values | headers, values | changes, st.binary(max_size=80))
def test_any_json_without_a_signature_is_refused(header, payload, signature):
    token = ".".join([part(json.dumps(header)), part(json.dumps(payload)), part(signature)])
    assert outcome(token) == "the token is not valid"


@settings(deadline=None)
@given(st.sampled_from(SIGNERS), headers)
def test_any_header_well_signed_is_taken_or_refused(signer, header):
    found = outcome(signer.token(header=header))
    if isinstance(found, Identity):
        assert header.get("alg", signer.algorithm) == signer.algorithm
        assert "crit" not in header
        assert header.get("kid", signer.key_id) == signer.key_id or signer.algorithm == "HS256"


@settings(deadline=None)
@given(st.sampled_from(SIGNERS), changes)
def test_any_claims_well_signed_are_taken_or_refused(signer, changed):
    payload = claims() | changed
    found = outcome(signer.token(payload=json.dumps(payload)))
    if isinstance(found, Identity):
        assert found.name == payload["sub"] != "admin"
        assert found.expires_at.timestamp() == pytest.approx(payload["exp"])
        assert payload["iss"] == ISSUER
        assert AUDIENCE in payload["aud"]


@settings(deadline=None)
@given(st.sampled_from(SIGNERS), values)
def test_any_payload_well_signed_is_taken_or_refused(signer, payload):
    assert isinstance(outcome(signer.token(payload=json.dumps(payload))), str)


@settings(deadline=None)
@given(st.sampled_from(SIGNERS), st.data())
def test_a_token_with_one_bit_flipped_is_refused(signer, data):
    token = signer.token()
    position = data.draw(st.integers(0, len(token) - 1))
    bit = data.draw(st.integers(0, 7))
    flipped = token[:position] + chr(ord(token[position]) ^ 1 << bit) + token[position + 1 :]
    assert outcome(flipped) == "the token is not valid"


@settings(deadline=None)
@given(st.sampled_from(SIGNERS), st.data())
def test_a_token_cut_short_is_refused(signer, data):
    token = signer.token()
    start = data.draw(st.integers(0, 5))
    end = data.draw(st.integers(0, len(token) - (start == 0)))
    assert outcome(token[start:end]) == "the token is not valid"


@settings(deadline=None)
@given(st.binary() | values.map(lambda value: json.dumps({"keys": value}).encode()))
def test_any_key_set_is_read_or_refused(data):
    with suppress(KeysError):
        assert not read_keys(data).keys


@settings(deadline=None)
@given(
    st.sampled_from([rsa_signer(), ec_signer(), ed_signer()]),
    st.dictionaries(
        st.sampled_from(["kty", "crv", "alg", "use", "key_ops", "kid", "n", "e", "x", "y", "d"]), strict_values
    ),
)
def test_any_key_changed_at_random_is_read_or_passed_over(signer, changed):
    keys = read_keys(json.dumps({"keys": [signer.jwk() | changed]}).encode()).keys
    assert all(key.algorithm == signer.algorithm for key in keys)
