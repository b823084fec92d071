"""Object storage: large payloads and results, logs. A directory by default; S3, GCS or Azure by URL.

Objects never change: a key is written once, or again with the same content. Keys begin with a kind and a day, so that a
lifecycle rule or a sweep can delete whole days.

In a directory, each kind has a directory that other users of the host can't enter; the files below it have the umask's
permissions. The group can enter where it can write to the directory above: an operator shares it between accounts so.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import obstore
from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore, from_url

from rota.errors import RotaError, SetupError
from rota.private_files import GROUP_AND_OTHERS, OTHERS, close_to
from rota.time_limits import time_limit

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
_CLIENT: Any = {"timeout": timedelta(seconds=15), "connect_timeout": timedelta(seconds=5)}
_ADDRESS = re.compile(r"""(\w+://)(?:[^\s"')?]*@)?([^\s"')?]*)(?:\?[^\s"')]*)?""")
# S3 refuses longer keys; most file systems refuse longer parts.
_LONGEST_KEY_BYTES = 1000
_LISTED = 500
KINDS = ("payloads", "results", "logs", "inputs", "archive")
_PART = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")


class ListedObject(NamedTuple):
    """An object of a list."""

    key: str
    changed_at: datetime


class BlobError(RotaError):
    """An operation on object storage failed."""


class BlobMissingError(BlobError):
    """The object does not exist."""


class Blobs:
    """A directory or bucket in object storage."""

    def __init__(self, where: str, store: Any, directory: Path | None = None) -> None:
        self.where = _shown(where)
        self._store = store
        self._directory = directory

    @classmethod
    def open(cls, where: str) -> Blobs:
        """Opens a directory, or a URL such as s3://bucket/prefix; raises SetupError if it can't.

        Credentials and endpoint come from the usual AWS_ variables (Google's and Azure's likewise).
        """
        try:
            if "://" not in where:
                directory = Path(where).expanduser().absolute()
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                for kind in KINDS:
                    close_to(directory / kind, forbidden_below(directory))  # older versions left it open
                return cls(where, LocalStore(directory), directory)
            options: dict[str, Any] = {"client_options": _CLIENT, "retry_config": _RETRIES}
            if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
                options["client_options"] = {**_CLIENT, "allow_http": True}
            return cls(where, from_url(where, **options))
        except (BaseError, ValueError, OSError) as error:
            raise SetupError(f"ROTA_BLOBS={_shown(where)} can't be used as object storage: {_brief(error)}") from None

    async def put(self, key: str, body: bytes) -> None:
        """Stores an object, whole or not at all."""
        _check_key(key)

        async def write() -> None:
            if self._directory and "/" in key:
                await asyncio.to_thread(_make_kind, self._directory, key.partition("/")[0])
            await obstore.put_async(self._store, key, body)

        await self._translated(f"could not store {key}", write())

    async def get(self, key: str) -> bytes:
        _check_key(key)

        async def read() -> bytes:
            answer = await obstore.get_async(self._store, key)
            return bytes(await answer.bytes_async())

        return await self._translated(f"could not read {key}", read())

    async def describe(self, key: str) -> tuple[int, str | None]:
        """The size of an object in bytes, and what changes when its content does."""
        _check_key(key)

        async def look() -> tuple[int, str | None]:
            found = await obstore.head_async(self._store, key)
            return found["size"], found["e_tag"]

        return await self._translated(f"could not look at {key}", look())

    async def delete(self, key: str) -> None:
        _check_key(key)
        await self._translated(f"could not delete {key}", obstore.delete_async(self._store, key))

    async def days(self, kind: str) -> list[str]:
        """The days that have objects of this kind, in order."""
        _check_key(kind)

        async def look() -> list[str]:
            found = await obstore.list_with_delimiter_async(self._store, f"{kind}/")
            return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])

        return await self._translated(f"could not list {kind}", look())

    async def listed(self, prefix: str) -> AsyncIterator[list[ListedObject]]:
        """The objects below a prefix, some at a time and in no order."""
        _check_key(prefix.rstrip("/"))
        pages = aiter(obstore.list(self._store, prefix, chunk_size=_LISTED))
        while page := await self._translated(f"could not list {prefix}", anext(pages, None)):
            yield [ListedObject(one["path"], one["last_modified"]) for one in page]

    async def get_piece(self, key: str, first: int, length: int) -> bytes:
        _check_key(key)

        async def read() -> bytes:
            return bytes(await obstore.get_range_async(self._store, key, start=first, length=length))

        return await self._translated(f"could not read {key}", read())

    async def url(self, key: str, valid: timedelta) -> str | None:
        """A URL with which anyone can read the object for a while; None if the storage can't sign URLs."""
        if isinstance(self._store, LocalStore):
            return None
        _check_key(key)
        signed = await self._translated(
            f"could not sign {key}", obstore.sign_async(self._store, "GET", key, expires_in=valid)
        )
        return str(signed)

    async def _translated(self, doing: str, work: Awaitable[T]) -> T:
        try:
            async with time_limit(TIMEOUT_SECONDS):
                return await work
        except (NotFoundError, FileNotFoundError) as error:
            raise BlobMissingError(f"{doing}: it is not in object storage ({self.where})") from error
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            raise BlobError(
                f"{doing}: object storage refuses the credentials ({self.where}): {_brief(error)}"
            ) from error
        except TimeoutError as error:
            raise BlobError(
                f"{doing}: object storage did not answer within {TIMEOUT_SECONDS:g} s ({self.where})"
            ) from error
        except (BaseError, OSError, ValueError) as error:
            raise BlobError(f"{doing}: object storage failed ({self.where}): {_brief(error)}") from error


def _make_kind(directory: Path, kind: str) -> None:
    """Makes the directory of a kind before the store does, which would let other users in."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / kind).mkdir(mode=0o777 & ~forbidden_below(directory), exist_ok=True)


def forbidden_below(directory: Path) -> int:
    """The permissions that directories of kinds must not have."""
    return OTHERS if directory.stat().st_mode & stat.S_IWGRP else GROUP_AND_OTHERS


def _check_key(key: str) -> None:
    """Raises BlobError unless the key is a plain path below our directory or prefix."""
    parts = key.split("/")
    if len(key.encode()) > _LONGEST_KEY_BYTES or not all(map(_PART.fullmatch, parts)) or {".", ".."} & set(parts):
        raise BlobError(f"{key[:100]!r} is not the key of an object")


def _shown(where: str) -> str:
    """The address without user, password and query, which may be secret."""
    return _ADDRESS.sub(r"\1\2", where)


def _brief(error: BaseException) -> str:
    """The first line, without secrets in addresses; the rest of this library's messages is a dump of internals."""
    words = _shown(str(error).strip())
    return words.splitlines()[0][:500] if words else type(error).__name__
