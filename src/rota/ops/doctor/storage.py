"""Check of object storage: stores, reads and deletes an object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from rota.blobs import BlobError, Blobs
from rota.errors import SetupError
from rota.ops.doctor.findings import Finding, ok, problem
from rota.settings import Settings

_CONTENT = b"a probe of rota doctor: safe to delete"


async def check_storage(settings: Settings) -> AsyncIterator[Finding]:
    """Whether ROTA_BLOBS works, or the directory in the home, which the server makes when it needs it."""
    try:
        if not _is_there(settings):
            yield ok("object storage", f"{settings.blobs} does not exist yet; the server makes it")
            return
    except PermissionError:
        words = f"{settings.blobs} is out of this account's reach"
        yield problem("object storage", words, "set ROTA_HOME or ROTA_BLOBS to another")
        return
    fix = "set ROTA_BLOBS to a writable directory or bucket, with its credentials"
    key = f"doctor/{uuid4().hex}"
    try:
        blobs = Blobs.open(settings.blobs)
        await blobs.put(key, _CONTENT)
        try:
            found = await blobs.get(key)
        finally:
            with suppress(FileNotFoundError):
                await blobs.delete(key)
    except (BlobError, SetupError) as error:
        yield problem("object storage", str(error), fix)
        return
    if found != _CONTENT:
        yield problem("object storage", f"{blobs.where} returned other content than was stored", fix)
    else:
        yield ok("object storage", f"{blobs.where} stores, returns and deletes")


def _is_there(settings: Settings) -> bool:
    return settings.blobs_url is not None or Path(settings.blobs).is_dir()
