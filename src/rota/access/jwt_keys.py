"""The public keys of an identity provider: where they come from, how they are read, and when they are read again.

Verifying does not wait while the key is known. Keys are read again every few minutes, so that removed ones go out of
use here too, and sooner when a token names an unknown key: the provider may have a new one. Made-up key ids cause at
most one read every few seconds, shared by all requests that wait for it; the number of those is limited.

While the provider is unreachable the known keys stay in use for a day. Not longer: an attacker who cut us off from the
provider could otherwise keep using a stolen key that was removed there.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import aiohttp
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from yarl import URL

from rota.access.jwt_parsing import read_object
from rota.errors import InvalidTokenError, KeysUnavailableError, RotaError, SetupError
from rota.service import Service
from rota.telemetry import get_logger
from rota.time_limits import time_limit

KEPT_SECONDS = 24 * 3600.0
LARGEST_SET_BYTES = 512 * 1024
MOST_KEYS = 100
MOST_WAITING = 100
_LOAD_SECONDS = 5.0
_READ_BYTES = 16 * 1024
_SMALLEST_RSA_BITS = 2048
_LARGEST_RSA_BITS = 8192  # larger ones make verifying slow
# By type and curve: the algorithm, and the members that are public.
_KINDS: dict[tuple[Any, Any], tuple[str, tuple[str, ...]]] = {
    ("RSA", None): ("RS256", ("n", "e")),
    ("EC", "P-256"): ("ES256", ("crv", "x", "y")),
    ("OKP", "Ed25519"): ("EdDSA", ("crv", "x")),
}
_OK = 200
_NO_PLACE = "ROTA_JWT_KEYS must be an https:// address of a JWKS (http:// on this machine only), or a file"
_log = get_logger("identity")


class SigningKeys(Service):
    """The keys of one source."""

    def __init__(
        self,
        source: Source,
        *,
        load_seconds: float = _LOAD_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._source = source
        self.origin = source.name
        self._load_seconds = load_seconds
        self._monotonic = monotonic
        self._keys: SigningKeySet | None = None
        self._confirmed_at = float("-inf")
        self._looked_at = float("-inf")
        self._look_task: asyncio.Task[None] | None = None
        self._waiting = 0
        self._failing = False
        self._warned: str | None = None

    @property
    def current(self) -> SigningKeySet | None:
        """The keys to verify with, the same object until they change; None when there are none to rely on."""
        return None if self._monotonic() - self._confirmed_at > KEPT_SECONDS else self._keys

    async def find(self, key_id: str | None, algorithm: str) -> tuple[SigningKeySet, SigningKey] | None:
        """The key that fits, and the set it is from; None if there is none. Raises KeysUnavailableError."""
        keys = self.current
        if keys is None or not keys.knows(key_id):
            await self._look_for_unknown()
            keys = self.current
        if keys is None:
            raise KeysUnavailableError
        key = keys.find(key_id, algorithm)
        return None if key is None else (keys, key)

    @property
    def pause_seconds(self) -> float | None:
        return self._source.retry_seconds if self._failing else self._source.pause_seconds

    async def tick(self) -> int:
        """Loads the keys, once for all requests that wait for them."""
        if self._look_task is None:
            self._look_task = asyncio.create_task(self._look(), name="identity-keys")
            self._look_task.add_done_callback(self._looked)
        # Not awaited directly: one request may be cancelled while others still wait.
        await asyncio.wait({self._look_task})
        return 0

    async def close(self) -> None:
        """Cancels a load in progress."""
        if task := self._look_task:
            task.cancel()
            await asyncio.wait({task})

    async def _look_for_unknown(self) -> None:
        resting = self._monotonic() - self._looked_at < self._source.least_seconds
        if (self._look_task is None and resting) or self._waiting >= MOST_WAITING:
            return
        self._waiting += 1
        try:
            await self.tick()
        finally:
            self._waiting -= 1

    def _looked(self, _task: asyncio.Task[None]) -> None:
        self._look_task = None
        self._looked_at = self._monotonic()

    async def _look(self) -> None:
        try:
            async with time_limit(self._load_seconds):
                found = await self._source.load()
        except TimeoutError:
            self._fail(f"{self._source.name} did not answer within {self._load_seconds:g} s")
        except KeysError as error:
            self._fail(str(error))
        except Exception:  # noqa: BLE001 - requests that wait must not fail
            _log.exception("fetching keys failed", source=self._source.name)
            self._failing = True
        else:
            self._take(found)

    def _fail(self, error: str) -> None:
        self._failing = True
        outcome = "no token of the provider is accepted" if self.current is None else "the known ones stay in use"
        if outcome != self._warned:
            _log.warning(f"can't get the keys for tokens; {outcome}", error=error)
        self._warned = outcome

    def _take(self, found: SigningKeySet | None) -> None:
        if self._warned:
            _log.info("got the keys for tokens again", source=self._source.name)
        self._failing = False
        self._warned = None
        self._confirmed_at = self._monotonic()
        if found is None or found == self._keys:
            return
        self._keys = found
        level = _log.info if found.keys else _log.warning
        level("keys for tokens have changed", source=self._source.name, usable=len(found.keys))


class KeysError(RotaError):
    """Keys could not be loaded; the message says why."""


@dataclass(frozen=True)
class SigningKey:
    """A public key; two are equal when their members are."""

    algorithm: str
    key_id: str | None
    members: tuple[str, ...] = field(repr=False)
    public: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class SigningKeySet:
    """The keys of a provider at one time."""

    keys: tuple[SigningKey, ...]

    def knows(self, key_id: str | None) -> bool:
        """Whether asking the provider again would not help."""
        return key_id is None or not self._has_ids or any(key.key_id == key_id for key in self.keys)

    def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """The one key that fits. By algorithm alone where either side names none, if that leaves no choice."""
        fitting = [key for key in self.keys if key.algorithm == algorithm]
        if key_id is not None and self._has_ids:
            fitting = [key for key in fitting if key.key_id == key_id]
        return fitting[0] if len(fitting) == 1 else None

    @property
    def _has_ids(self) -> bool:
        # A provider without keys may name the next one.
        return not self.keys or any(key.key_id is not None for key in self.keys)


def read_keys(data: bytes) -> SigningKeySet:
    """The usable keys of a JWKS; raises KeysError."""
    try:
        listed = read_object(data).get("keys")
    except InvalidTokenError:
        raise KeysError("the key set is not a JSON object, or has a field twice") from None
    if not isinstance(listed, list):
        raise KeysError("the key set has no list named keys")
    if len(listed) > MOST_KEYS:
        raise KeysError(f"the JWKS lists more than {MOST_KEYS} keys")
    return SigningKeySet(tuple(key for entry in listed if (key := _read_key(entry))))


def _read_key(entry: Any) -> SigningKey | None:
    """The key, or None if we can't use it."""
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
    return None if public is None else SigningKey(algorithm, key_id, tuple(map(str, members.values())), public)


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
    if isinstance(public, RSAPublicKey) and not _SMALLEST_RSA_BITS <= public.key_size <= _LARGEST_RSA_BITS:
        return None
    return public


class Source(Protocol):
    """Loads keys every `pause_seconds`, or `retry_seconds` after a failure.

    Tokens that name an unknown key load sooner, but not within `least_seconds` of the last load.
    """

    name: str
    pause_seconds: float
    retry_seconds: float
    least_seconds: float

    async def load(self) -> SigningKeySet | None:
        """The keys, or None if they have not changed; raises KeysError."""
        ...


class Provider:
    """A JWKS at an address. Redirects are not followed: they could lead to other keys."""

    pause_seconds = 300.0
    retry_seconds = 15.0
    least_seconds = 5.0

    def __init__(self, url: str) -> None:
        parts = _checked(url)
        self._url = url
        # A query may contain secrets, which must not be logged.
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}"

    async def load(self) -> SigningKeySet | None:
        try:
            # A connection every few minutes is not worth keeping.
            async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session:
                return read_keys(await self._fetch(session))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise KeysError(f"{self.name} can't be reached: {str(error) or type(error).__name__}") from None

    async def _fetch(self, session: aiohttp.ClientSession) -> bytes:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with session.get(URL(self._url), headers=headers, allow_redirects=False) as response:
            if response.status != _OK:
                raise KeysError(f"{self.name} answered {response.status}")
            data = b""
            while some := await response.content.read(_READ_BYTES):
                data += some
                if len(data) > LARGEST_SET_BYTES:
                    response.close()
                    raise KeysError(f"{self.name} answered more than {LARGEST_SET_BYTES} bytes")
            return data


class KeyFile:
    """A JWKS in a file, read again when it changes."""

    pause_seconds = 2.0
    retry_seconds = 2.0
    least_seconds = 1.0

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SetupError(f"{_NO_PLACE}; there is no file {path}")
        self._path = path
        self._state: tuple[int, ...] | None = None
        self.name = str(path)

    async def load(self) -> SigningKeySet | None:
        try:
            return await asyncio.to_thread(self._read)
        except OSError as error:
            raise KeysError(f"{self.name} can't be read: {error.strerror}") from None

    def _read(self) -> SigningKeySet | None:
        if not self._path.is_file():
            raise KeysError(f"{self.name} is not a file")
        with self._path.open("rb") as file:
            # Before reading: a write meanwhile changes the state again.
            status = os.fstat(file.fileno())
            state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if state == self._state:
                return None
            data = file.read(LARGEST_SET_BYTES + 1)
        if len(data) > LARGEST_SET_BYTES:
            raise KeysError(f"{self.name} has more than {LARGEST_SET_BYTES} bytes")
        keys = read_keys(data)
        self._state = state  # only now: a half-written file is read again
        return keys


def source_of(place: str) -> Source:
    """The source in ROTA_JWT_KEYS; raises SetupError."""
    return Provider(place) if "://" in place else KeyFile(Path(place).expanduser().absolute())


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        URL(url)
        _ = parts.port
    except ValueError:
        raise SetupError(_NO_PLACE) from None
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and _is_local(parts.hostname))):
        raise SetupError(_NO_PLACE)
    if "@" in parts.netloc:
        raise SetupError("ROTA_JWT_KEYS must not hold a user or password: the keys are public")
    return parts


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
