"""Tokens: which are taken, as whom, and a table of forged ones, of which none is."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from forging import (
    AUDIENCE,
    ISSUER,
    SECRET,
    OwnSigner,
    claims,
    ec_signer,
    ed_signer,
    key_set,
    number,
    part,
    rsa_signer,
)

from rota.access.jwt_signing import sign_token
from rota.access.jwt_verifier import TokenVerifier
from rota.domain.rights import Grant, Identity, Role
from rota.errors import BadInputError, InvalidTokenError, SetupError
from rota.settings import Settings

NOT_VALID = "the token is not valid"
ISSUED = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}


@pytest.fixture
def keys(tmp_path):
    """A file with keys: keys.write_text(key_set(…))."""
    path = tmp_path / "keys.json"
    path.write_text(key_set(rsa_signer(), ec_signer(), ed_signer()))
    return path


@pytest.fixture
def verifier(keys):
    """Takes tokens of the provider and of the own secret."""
    return TokenVerifier.from_settings(Settings(jwt_secret=SECRET, jwt_keys=str(keys), **ISSUED))


@pytest.fixture
def verifier_of_keys(keys):
    return TokenVerifier.from_settings(Settings(jwt_keys=str(keys), **ISSUED))


@pytest.fixture
def verifier_of_secret():
    return TokenVerifier.from_settings(Settings(jwt_secret=SECRET, **ISSUED))


async def refusal(verifier, token):
    """Why a token is refused."""
    with pytest.raises(InvalidTokenError) as refused:
        await verifier.verify(token)
    assert type(refused.value) is InvalidTokenError
    return str(refused.value)


SIGNERS = [OwnSigner, rsa_signer, ec_signer, ed_signer]


@pytest.mark.parametrize("signer", SIGNERS, ids=["HS256", "RS256", "ES256", "EdDSA"])
async def test_a_token_is_taken_for_whom_it_stands(verifier, signer):
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    token = signer().token(sub="ann@example", exp=int(expires_at.timestamp()), rota={"orders": "operator"})
    expected = Identity(name="ann@example", kind="jwt", grants={"orders": Grant(Role.OPERATOR)}, expires_at=expires_at)
    assert await verifier.verify(token) == expected
    assert await verifier.verify(token) == expected  # now from memory


def test_without_secret_and_keys_there_is_no_verifier():
    assert TokenVerifier.from_settings(Settings(jwt_issuer=ISSUER, jwt_audience=AUDIENCE)) is None


def the_pem_as_secret():
    return OwnSigner(rsa_signer().pem()).token()


def the_jwk_as_secret():
    return OwnSigner(json.dumps(rsa_signer().jwk())).token(header={"kid": "r1"})


def with_another_signature():
    good, other = rsa_signer().token(), rsa_signer().token(sub="eve")
    return ".".join([*good.split(".")[:2], other.split(".")[2]])


def with_other_claims():
    good = rsa_signer().token().split(".")
    return ".".join([good[0], part(claims(sub="eve")), good[2]])


def unsigned(algorithm):
    return f"{part({'alg': algorithm, 'typ': 'JWT', 'kid': 'r1'})}.{part(claims())}."


def brings_its_key(name):
    """Signed by a stranger, whose key is in the header."""
    stranger = rsa_signer("stranger")
    header = {
        "jwk": stranger.jwk(),
        "jku": "https://stranger.example/keys",
        "x5u": "https://stranger.example/chain",
        "x5c": [part(stranger.pem())],
    }
    return stranger.token(header={"kid": "r1", name: header[name]})


def der_signature():
    """As OpenSSL writes it, and not as JWS wants it."""
    signed = f"{part({'alg': 'ES256', 'kid': 'e1'})}.{part(claims())}"
    return f"{signed}.{part(ec_signer().private.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))}"


def as_json_serialization():
    first, second, third = rsa_signer().token().split(".")
    return json.dumps({"protected": first, "payload": second, "signature": third})


def own(payload):
    """Signed with the own secret, whatever is in it."""
    return OwnSigner().token(payload=payload)


def own_header(header):
    return OwnSigner().token(header=header)


def utf16_header():
    signer = OwnSigner()
    signed = f"{part(json.dumps({'alg': 'HS256'}).encode('utf-16-le'))}.{part(claims())}"
    return f"{signed}.{part(signer.sign(signed.encode()))}"


# None of these says more to its sender than that it is not valid: the signature was not found to be right, or what it
# signs can't be read in one way.
FORGED = {
    "empty": lambda: "",
    "no token": lambda: "rota_key_123",
    "two parts": lambda: ".".join(rsa_signer().token().split(".")[:2]),
    "four parts": lambda: rsa_signer().token() + ".e30",
    "five parts, as encrypted ones": lambda: "e30.e30.e30.e30.e30",
    "JSON serialization": as_json_serialization,
    "a space": lambda: " " + rsa_signer().token(),
    "a line break at the end": lambda: rsa_signer().token() + "\n",
    "padding": lambda: rsa_signer().token() + "==",
    "letters beyond ASCII": lambda: rsa_signer().token().replace("e", "é"),
    "half a surrogate pair": lambda: rsa_signer().token() + "\ud800",
    "too long": lambda: OwnSigner().token(padding="x" * 8192),
    "none": lambda: unsigned("none"),
    "None": lambda: unsigned("None"),
    "none, with a signature": lambda: rsa_signer().token(header={"alg": "none"}),
    "HS256 by the public key as PEM": the_pem_as_secret,
    "HS256 by the public key as JWK": the_jwk_as_secret,
    "HS256 by another secret": lambda: OwnSigner(SECRET + "x").token(),
    "HS256 by an empty secret": lambda: OwnSigner("").token(),
    "HS512": lambda: OwnSigner().token(header={"alg": "HS512"}),
    "RS512": lambda: rsa_signer().token(header={"alg": "RS512"}),
    "PS256": lambda: rsa_signer().token(header={"alg": "PS256"}),
    "lower case": lambda: rsa_signer().token(header={"alg": "rs256"}),
    "no algorithm": lambda: rsa_signer().token(header=json.dumps({"kid": "r1"})),
    "an algorithm that is a list": lambda: rsa_signer().token(header={"alg": ["RS256"]}),
    "an algorithm that is a number": lambda: rsa_signer().token(header={"alg": 256}),
    "an algorithm of another key": lambda: rsa_signer().token(header={"kid": "e1"}),
    "EdDSA by the key for ES256": lambda: ed_signer().token(header={"kid": "e1"}),
    "ES256 by the key for RS256": lambda: ec_signer().token(header={"kid": "r1"}),
    "another curve": lambda: ec_signer("e1", ec.SECP384R1).token(),
    "a curve of coins": lambda: ec_signer("e1", ec.SECP256K1).token(),
    "a signature in DER": der_signature,
    "a stranger's key": lambda: rsa_signer("stranger").token(header={"kid": "r1"}),
    "a stranger's key and id": lambda: rsa_signer("stranger").token(),
    "the signature of another": with_another_signature,
    "other claims": with_other_claims,
    "jwk": lambda: brings_its_key("jwk"),
    "jku": lambda: brings_its_key("jku"),
    "x5u": lambda: brings_its_key("x5u"),
    "x5c": lambda: brings_its_key("x5c"),
    "crit": lambda: rsa_signer().token(header={"crit": ["exp"], "exp": 1}),
    "crit, empty": lambda: rsa_signer().token(header={"crit": []}),
    "crit, null": lambda: rsa_signer().token(header={"crit": None}),
    "b64": lambda: rsa_signer().token(header={"b64": False, "crit": ["b64"]}),
    "b64 alone": lambda: rsa_signer().token(header={"b64": False}),
    "a key id that is a path": lambda: rsa_signer().token(header={"kid": "../../../dev/null"}),
    "a key id that is SQL": lambda: rsa_signer().token(header={"kid": "' UNION SELECT 'key' --"}),
    "a key id with NUL": lambda: rsa_signer().token(header={"kid": "r1\0"}),
    "a key id that is a number": lambda: rsa_signer().token(header={"kid": 1}),
    "a key id that is an object": lambda: rsa_signer().token(header={"kid": {"$ne": ""}}),
    "a key id that is null": lambda: rsa_signer().token(header={"kid": None}),
    "a key id that is empty": lambda: rsa_signer().token(header={"kid": ""}),
    "a key id that is long": lambda: rsa_signer().token(header={"kid": "r" * 256}),
    "no key id, of several": lambda: rsa_signer("stranger").token(header=json.dumps({"alg": "RS256"})),
    "a header with alg twice": lambda: own_header('{"alg": "none", "alg": "HS256"}'),
    "a header that is a list": lambda: own_header('["HS256"]'),
    "a header that is no JSON": lambda: own_header("{alg: HS256}"),
    "a header with something behind": lambda: own_header('{"alg": "HS256"} {}'),
    "a header in UTF-16": utf16_header,
    "a header with a byte order mark": lambda: own_header('\ufeff{"alg": "HS256"}'),
    "a header that is deep": lambda: own_header('{"alg": "HS256", "x": ' + "[" * 2500 + "]" * 2500 + "}"),
    "claims that are a list": lambda: own([claims()]),
    "claims that are text": lambda: own('"ann"'),
    "claims that are no JSON": lambda: own("sub=ann"),
    "claims with sub twice": lambda: own(json.dumps(claims())[:-1] + ', "sub": "admin"}'),
    "claims with a role twice": lambda: own(json.dumps(claims())[:-1] + ', "rota": {"a": "viewer", "a": "admin"}}'),
    "claims that are not UTF-8": lambda: own(json.dumps(claims()).encode().replace(b"ann", b"a\xff")),
    "claims in UTF-16": lambda: own(json.dumps(claims()).encode("utf-16")),
    "claims with a comment": lambda: own(json.dumps(claims()) + " // ann"),
    "claims that are deep": lambda: own('{"sub": ' + "[" * 2500 + "]" * 2500 + "}"),
    "claims that are a token": lambda: own(OwnSigner().token()),
    "exp that is NaN": lambda: own(json.dumps(claims(exp=float("nan")))),
    "exp that is infinite": lambda: own(json.dumps(claims(exp=float("inf")))),
    "exp of 5000 digits": lambda: own(json.dumps(claims(exp=0))[:-2] + "9" * 5000 + "}"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
async def test_a_forged_token_is_refused_and_nothing_told_about_why(verifier, forged):
    assert await refusal(verifier, forged()) == NOT_VALID


# These are signed as they should be, by somebody who may sign: what is wrong is told.
WRONG = {
    "expired": ({"exp": -timedelta(seconds=31)}, "the token has expired"),
    "expired long ago": ({"exp": 0}, "the token has expired"),
    "no exp": ({"exp": None}, "the token has no exp"),
    "exp as text": ({"exp": "4102444800"}, "exp of the token"),
    "exp as truth": ({"exp": True}, "exp of the token"),
    "exp as a list": ({"exp": [4102444800]}, "exp of the token"),
    "exp beyond all times": ({"exp": 10**12}, "exp of the token"),
    "exp of 300 digits": ({"exp": 10**300}, "exp of the token"),
    "exp of 400 digits": ({"exp": 10**400}, "exp of the token"),
    "exp below zero": ({"exp": -1}, "exp of the token"),
    "nbf in the future": ({"nbf": timedelta(hours=1)}, "not valid yet"),
    "nbf as text": ({"nbf": "0"}, "nbf of the token"),
    "nbf as truth": ({"nbf": False}, "nbf of the token"),
    "iat in the future": ({"iat": timedelta(hours=1)}, "not valid yet"),
    "iat as an object": ({"iat": {}}, "iat of the token"),
    "no issuer": ({"iss": None}, "another issuer"),
    "another issuer": ({"iss": ISSUER + "/"}, "another issuer"),
    "an issuer that is a list": ({"iss": [ISSUER]}, "another issuer"),
    "no audience": ({"aud": None}, "another audience"),
    "another audience": ({"aud": "payroll"}, "another audience"),
    "an audience that has ours in it": ({"aud": "rota-staging"}, "another audience"),
    "other audiences": ({"aud": ["payroll", "Rota"]}, "another audience"),
    "an audience that is a number": ({"aud": 1}, "aud of the token"),
    "audiences that are numbers": ({"aud": ["rota", 1]}, "aud of the token"),
    "an audience that is an object": ({"aud": {"rota": True}}, "aud of the token"),
    "no subject": ({"sub": None}, "sub of the token"),
    "an empty subject": ({"sub": ""}, "sub of the token"),
    "a subject that is a number": ({"sub": 1}, "sub of the token"),
    "a subject of 201 characters": ({"sub": "a" * 201}, "sub of the token"),
    "a subject with NUL": ({"sub": "ann\0"}, "sub of the token"),
    "a subject with a line break": ({"sub": "ann\n"}, "sub of the token"),
    "a subject that is half a surrogate pair": ({"sub": "\ud800"}, "sub of the token"),
    "the admin": ({"sub": "admin"}, "reserved"),
}


@pytest.mark.parametrize(("changes", "reason"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("signer", [OwnSigner, ed_signer], ids=["own", "provider"])
async def test_a_token_that_says_the_wrong_thing_is_refused_with_the_reason(verifier, signer, changes, reason):
    token = signer().token(**changes)
    told = await refusal(verifier, token)
    assert reason in told
    assert token.split(".")[1][:20] not in told


async def test_what_can_not_be_told_from_json_null_is_refused(verifier):
    for name in ("exp", "sub", "nbf", "iat", "aud", "iss"):
        assert await refusal(verifier, own(claims() | {name: None}))


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": timedelta(seconds=600.5)},
        {"exp": -timedelta(seconds=5)},  # within the leeway
        {"nbf": timedelta(seconds=5), "iat": timedelta(seconds=5)},
        {"iat": None},
        {"aud": ["payroll", "rota"]},
        {"sub": "a" * 200},
        {"sub": "Änne Ö. 🦉"},
        {"sub": "Admin"},
    ],
)
async def test_what_is_unusual_but_right_is_taken(verifier, changes):
    identity = await verifier.verify(OwnSigner().token(**changes))
    assert identity.name == changes.get("sub", "ann")


async def test_leeway_ends_where_the_settings_say(keys):
    now = time.time()
    strict = TokenVerifier.from_settings(Settings(jwt_secret=SECRET, jwt_leeway_seconds=0, **ISSUED), clock=lambda: now)
    assert await strict.verify(OwnSigner().token(iat=int(now), exp=now + 1))
    assert await refusal(strict, OwnSigner().token(iat=None, exp=now)) == "the token has expired"
    assert "not valid yet" in await refusal(strict, OwnSigner().token(iat=None, nbf=now + 1))


async def test_an_own_token_is_refused_where_only_keys_are_set(verifier_of_keys):
    assert await refusal(verifier_of_keys, OwnSigner().token()) == NOT_VALID
    assert await refusal(verifier_of_keys, the_pem_as_secret()) == NOT_VALID
    assert await verifier_of_keys.verify(rsa_signer().token())


async def test_a_token_of_a_provider_is_refused_where_only_a_secret_is_set(verifier_of_secret):
    for signer in (rsa_signer(), ec_signer(), ed_signer()):
        assert await refusal(verifier_of_secret, signer.token()) == NOT_VALID
    assert await verifier_of_secret.verify(OwnSigner().token())


async def test_a_token_with_an_audience_is_refused_by_who_has_no_name():
    verifier = TokenVerifier.from_settings(Settings(jwt_secret=SECRET))
    assert await refusal(verifier, OwnSigner().token(aud="payroll")) == "the token is for another audience"
    assert await verifier.verify(OwnSigner().token(aud=None))


UNUSABLE = {
    "RSA of 1024 bits": (lambda: rsa_signer("r1", 1024), {}),
    "for encryption": (rsa_signer, {"use": "enc"}),
    "for signing only": (rsa_signer, {"key_ops": ["sign"]}),
    "with operations that are no list": (rsa_signer, {"key_ops": "verify"}),
    "of another algorithm of its kind": (rsa_signer, {"alg": "PS256"}),
    "of an algorithm of another kind": (rsa_signer, {"alg": "ES256"}),
    "of an algorithm that is HS256": (rsa_signer, {"alg": "HS256"}),
    "of another type": (rsa_signer, {"kty": "EC"}),
    "of a type that is a list": (rsa_signer, {"kty": ["RSA"]}),
    "with an id that is a number": (rsa_signer, {"kid": 1}),
    "with a modulus that is a number": (rsa_signer, {"n": 7}),
    "with a modulus that is no base64": (rsa_signer, {"n": "ä"}),
    "with an even exponent": (rsa_signer, {"e": part(b"\x02")}),
    "on another curve": (lambda: ec_signer("e1", ec.SECP384R1), {}),
    "on another curve without alg": (lambda: ec_signer("e1", ec.SECP384R1), {"alg": None}),
    "on a curve of coins": (lambda: ec_signer("e1", ec.SECP256K1), {"alg": None}),
    "on no curve": (ec_signer, {"crv": None}),
    "off the curve": (ec_signer, {"x": part(b"\x01" * 32)}),
    "too short": (ed_signer, {"x": part(b"\x01" * 31)}),
}


@pytest.mark.parametrize(("signer", "changes"), UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_a_key_that_is_not_for_this_is_not_used(keys, verifier_of_keys, signer, changes):
    keys.write_text(key_set(signer().jwk(**changes), ed_signer("other")))
    assert await refusal(verifier_of_keys, signer().token()) == NOT_VALID
    assert await verifier_of_keys.verify(ed_signer("other").token())  # one that can't be used is no harm to the rest


async def test_a_symmetric_key_in_a_key_set_is_not_used(keys, verifier_of_keys):
    keys.write_text(key_set({"kty": "oct", "kid": "s1", "alg": "HS256", "k": part(SECRET)}))
    assert await refusal(verifier_of_keys, OwnSigner().token(header={"kid": "s1"})) == NOT_VALID


async def test_of_a_private_key_in_a_key_set_the_public_half_is_used(keys, verifier_of_keys):
    keys.write_text(key_set(rsa_signer().jwk(d=number(rsa_signer().private.private_numbers().d))))
    assert await verifier_of_keys.verify(rsa_signer().token())


async def test_keys_without_ids_do_when_one_fits_the_algorithm(keys, verifier_of_keys):
    keys.write_text(key_set(rsa_signer().jwk(kid=None), ec_signer().jwk(kid=None, alg=None, use=None)))
    assert await verifier_of_keys.verify(rsa_signer().token())
    assert await verifier_of_keys.verify(ec_signer().token(header=json.dumps({"alg": "ES256"})))
    assert await refusal(verifier_of_keys, ed_signer().token()) == NOT_VALID


async def test_keys_without_ids_do_not_when_two_fit(keys, verifier_of_keys):
    keys.write_text(key_set(rsa_signer().jwk(kid=None), rsa_signer("r2").jwk(kid=None)))
    assert await refusal(verifier_of_keys, rsa_signer().token()) == NOT_VALID


async def test_a_token_without_key_id_does_when_one_key_fits(verifier_of_keys):
    assert await verifier_of_keys.verify(rsa_signer().token(header=json.dumps({"alg": "RS256"})))


async def test_of_two_keys_with_one_id_that_of_the_algorithm_is_used(keys, verifier_of_keys):
    keys.write_text(key_set(rsa_signer().jwk(kid="k"), ec_signer().jwk(kid="k")))
    for signer in (rsa_signer(), ec_signer()):
        assert await verifier_of_keys.verify(signer.token(header={"kid": "k"}))


async def test_the_bits_that_base64_leaves_over_must_be_zero(verifier):
    token = ed_signer().token()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[alphabet.index(token[-1]) + 1]
    same = [base64.urlsafe_b64decode(text.rpartition(".")[2] + "==") for text in (token, token[:-1] + last)]
    assert same[0] == same[1]
    assert await refusal(verifier, token[:-1] + last) == NOT_VALID


async def test_a_remembered_token_ends_when_it_expires():
    now = [time.time()]
    settings = Settings(jwt_secret=SECRET, **ISSUED)
    verifier = TokenVerifier.from_settings(settings, clock=lambda: now[0])
    token = OwnSigner().token(exp=now[0] + 60)
    assert await verifier.verify(token)
    now[0] += 60 + settings.jwt_leeway_seconds
    assert await refusal(verifier, token) == "the token has expired"


async def test_no_more_tokens_are_remembered_than_the_bound_and_the_oldest_go_first(verifier_of_secret):
    verifier = verifier_of_secret
    verifier._most_remembered = 3
    tokens = [OwnSigner().token(sub=f"user-{index}") for index in range(4)]
    for token in [*tokens[:3], tokens[0], tokens[3]]:
        await verifier.verify(token)
    assert sorted(entry.identity.name for entry in verifier._verified.values()) == ["user-0", "user-2", "user-3"]
    assert (await verifier.verify(tokens[1])).name == "user-1"


async def test_a_refused_token_is_not_remembered(verifier):
    for forged in ("none", "a stranger's key", "HS256 by the public key as PEM"):
        await refusal(verifier, FORGED[forged]())
    assert not verifier._verified


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"jwt_secret": "x" * 31}, "ROTA_JWT_SECRET must have at least 32 bytes"),
        ({"jwt_secret": rsa_signer().pem().decode()}, "ROTA_JWT_SECRET is a public key"),
        ({"jwt_secret": json.dumps(rsa_signer().jwk())}, "ROTA_JWT_SECRET is a public key"),
        ({"jwt_keys": "https://sign-in.example/keys"}, "ROTA_JWT_AUDIENCE"),
        ({"jwt_keys": "https://sign-in.example/keys", "jwt_secret": SECRET}, "ROTA_JWT_AUDIENCE"),
        ({"jwt_keys": "http://sign-in.example/keys", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "http://127.0.0.1.example/keys", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "http://10.0.0.1/keys", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "ftp://sign-in.example/keys", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "file:///keys.json", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "https://", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "https://[::1/keys", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "https://a.example:99999/", "jwt_audience": "rota"}, "ROTA_JWT_KEYS must be an https://"),
        ({"jwt_keys": "https://ann:pw@sign-in.example/", "jwt_audience": "rota"}, "must not hold a user"),
        ({"jwt_keys": "/no/such/file", "jwt_audience": "rota"}, "there is no file /no/such/file"),
        ({"jwt_secret": SECRET, "jwt_default_role": "boss"}, "viewer, submitter, operator, admin, not 'boss'"),
    ],
)
def test_settings_that_are_not_safe_are_refused(settings, words):
    with pytest.raises(SetupError) as refused:
        TokenVerifier.from_settings(Settings(**settings))
    assert words in str(refused.value)
    assert settings.get("jwt_secret", "…") not in str(refused.value)


@pytest.mark.parametrize("text", ["-1", "301", "nan", "inf"])
def test_a_leeway_that_is_no_leeway_is_refused(text):
    with pytest.raises(SetupError, match="ROTA_JWT_LEEWAY_SECONDS"):
        Settings.from_environment({"ROTA_JWT_LEEWAY_SECONDS": text})


def test_a_leeway_of_none_and_of_the_most_is_taken():
    found = [Settings.from_environment({"ROTA_JWT_LEEWAY_SECONDS": text}).jwt_leeway_seconds for text in ("0", "300")]
    assert found == [0, 300]


def test_the_secret_does_not_show():
    settings = Settings.from_environment({"ROTA_JWT_SECRET": SECRET})
    verifier = TokenVerifier.from_settings(settings)
    assert SECRET not in repr(settings) + repr(verifier)
    assert TokenVerifier.from_settings(Settings(jwt_secret="\udcff" * 32))  # bytes that are no text


@pytest.fixture
def soon():
    return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


async def test_a_token_of_our_own_making_gives_what_it_was_made_with(soon):
    grants = {"orders": Grant(Role.VIEWER, "all"), "*": Grant(Role.SUBMITTER)}
    for claim in ("rota", "realm_access.roles", "https://rota.example/roles"):
        verifier = TokenVerifier.from_settings(Settings(jwt_secret=SECRET, jwt_claim=claim, **ISSUED))
        token = sign_token(SECRET, "ann", grants, soon, ISSUER, AUDIENCE, claim)
        assert await verifier.verify(token) == Identity(name="ann", kind="jwt", grants=grants, expires_at=soon)


@pytest.mark.parametrize(
    ("subject", "grants"),
    [("", {}), ("admin", {}), ("a\n", {}), ("\ud800", {}), ("ann", {"": Grant(Role.VIEWER)})],
)
def test_a_token_that_would_be_refused_is_not_made(soon, subject, grants):
    with pytest.raises(BadInputError):
        sign_token(SECRET, subject, grants, soon, None, None)


def test_a_token_that_would_be_too_long_is_not_made(soon):
    with pytest.raises(BadInputError, match="fewer namespaces"):
        sign_token(SECRET, "ann", {f"namespace-{index}": Grant(Role.VIEWER) for index in range(300)}, soon, None, None)


def test_a_token_is_not_made_with_a_short_secret(soon):
    with pytest.raises(SetupError):
        sign_token("short", "ann", {}, soon, None, None)
