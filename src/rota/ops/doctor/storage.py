"""Check of object storage: an object is stored, read and deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from rota.blobs import BlobError, Blobs
from rota.errors import SetupError
from rota.ops.doctor.findings import Finding, ok, problem
from rota.settings import Settings

_CONTENT = b"a probe of rota doctor: it may be deleted"


async def check_storage(settings: Settings) -> AsyncIterator[Finding]:
    """Whether ROTA_BLOBS, or the directory in the home once there is one, stores what is put there."""
    if not _is_there(settings):
        yield ok("object storage", f"{settings.blobs} is not there yet; the server makes it")
        return
    fix = "set ROTA_BLOBS to a directory or a bucket that can be written to, and its credentials"
    key = f"doctor/{uuid4().hex}"
    try:
        blobs = Blobs.open(settings.blobs)
        await blobs.put(key, _CONTENT)
        try:
            found = await blobs.get(key)
        finally:
            await _delete(blobs, key)
    except (BlobError, SetupError) as error:
        yield problem("object storage", str(error), fix)
        return
    if found != _CONTENT:
        yield problem("object storage", f"{blobs.where} gave back something else than was stored", fix)
    else:
        yield ok("object storage", f"{blobs.where} takes, gives and deletes")


async def _delete(blobs: Blobs, key: str) -> None:
    with suppress(FileNotFoundError):
        await blobs.delete(key)


def _is_there(settings: Settings) -> bool:
    """The directory in the home is made when it is first needed; any other is expected to be there."""
    return settings.blobs_url is not None or Path(settings.blobs).is_dir()
