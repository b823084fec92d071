"""Where keys come from: an address of an identity provider, or a file."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

import aiohttp
from yarl import URL

from rota.access.jwt_key_set import LARGEST_SET_BYTES, KeysError, KeySet, read_keys
from rota.errors import SetupError

READ_BYTES = 16 * 1024
_OK = 200
_NO_PLACE = "ROTA_JWT_KEYS must be an https:// address of a JWKS (http:// on this machine only), or a file"


class Source(Protocol):
    """Looks for keys. `pause_seconds` is between two looks, `retry_seconds` after one in vain.

    Tokens that name an unknown key have it look sooner, but not within `least_seconds` of the last look.
    """

    name: str
    pause_seconds: float
    retry_seconds: float
    least_seconds: float

    async def load(self) -> KeySet | None:
        """The keys, or None if they are those of the last time; raises KeysError."""
        ...


class Provider:
    """A JWKS behind an address. Redirects are not followed: who could make one could name keys of their own."""

    pause_seconds = 300.0
    retry_seconds = 15.0
    least_seconds = 5.0

    def __init__(self, url: str) -> None:
        parts = _checked(url)
        self._url = url
        # A query may hold what is not for logs.
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}"

    async def load(self) -> KeySet | None:
        """What the provider lists now."""
        try:
            # One connection every few minutes is not worth being kept.
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
            while some := await response.content.read(READ_BYTES):
                data += some
                if len(data) > LARGEST_SET_BYTES:
                    response.close()
                    raise KeysError(f"{self.name} answered more than {LARGEST_SET_BYTES} bytes")
            return data


class KeyFile:
    """A JWKS in a file, read again when it is another one or has changed."""

    pause_seconds = 2.0
    retry_seconds = 2.0
    least_seconds = 1.0

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SetupError(f"{_NO_PLACE}; there is no file {path}")
        self._path = path
        self._state: tuple[int, ...] | None = None
        self.name = str(path)

    async def load(self) -> KeySet | None:
        """What is in the file, if that is not what was there the last time."""
        try:
            return await asyncio.to_thread(self._read)
        except OSError as error:
            raise KeysError(f"{self.name} can't be read: {error.strerror}") from None

    def _read(self) -> KeySet | None:
        if not self._path.is_file():
            raise KeysError(f"{self.name} is no file")
        with self._path.open("rb") as file:
            # Before reading: what is written meanwhile changes the state once more.
            state = _state(os.fstat(file.fileno()))
            if state == self._state:
                return None
            data = file.read(LARGEST_SET_BYTES + 1)
        if len(data) > LARGEST_SET_BYTES:
            raise KeysError(f"{self.name} has more than {LARGEST_SET_BYTES} bytes")
        keys = read_keys(data)
        self._state = state  # only now: a file caught half written is read again
        return keys


def source_of(place: str) -> Source:
    """The source that ROTA_JWT_KEYS names; raises SetupError."""
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


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
