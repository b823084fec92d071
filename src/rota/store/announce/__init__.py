"""Announced tasks: what workers say of their tasks, and which of it counts where.

A release's tasks are one row, written by the first worker that has them. Each worker's own row names it (by its digest)
and the namespaces that the worker serves, so it counts there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rota.domain.application import Announcement, Application, release_of
from rota.store.postgres.batches import columns
from rota.store.postgres.database import Database


class AnnouncementKey(NamedTuple):
    """Which release: the namespace of its application, the application, its version, and a digest of the tasks."""

    namespace: str
    app: str
    version: str
    digest: str


class Standing(NamedTuple):
    """An announcement in a namespace. `is_live`: one of its workers lives, or was lost a moment ago."""

    key: AnnouncementKey
    is_live: bool


class Announcements:
    """Writes and reads them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def announce(self, app: Application) -> str | None:
        """Makes the application's tasks known; returns their digest, or None if they are too large.

        Must come before the worker's row: a row names only what is there.
        """
        announcement = Announcement(app.tasks)
        if not announcement.fits:
            return None
        key = AnnouncementKey(app.namespace, app.name, app.version, announcement.digest)
        if not await self._database.fetch_value("know_announcement", **key._asdict()):
            await self._database.fetch(
                "announce_tasks",
                namespace=key.namespace,
                app=key.app,
                version=key.version,
                digest=key.digest,
                release=release_of(app.version),
                tasks=announcement.text,
            )
        return key.digest

    async def standing(self, namespaces: Sequence[str]) -> dict[str, list[Standing]]:
        """What counts in each namespace, in that order: live ones first, the newest of each application first."""
        found: dict[str, list[Standing]] = {}
        for row in await self._database.fetch("announcements_of", namespaces=namespaces):
            key = AnnouncementKey(row["app_namespace"], row["app"], row["version"], row["digest"])
            found.setdefault(row["namespace"], []).append(Standing(key, row["live"]))
        return found

    async def unannounced(self, namespaces: Sequence[str]) -> dict[str, frozenset[str]]:
        """Tasks that live workers of each namespace know and have not described."""
        rows = await self._database.fetch("unannounced_tasks", namespaces=namespaces)
        return {row["namespace"]: frozenset(row["tasks"]) for row in rows}

    async def read(self, keys: Collection[AnnouncementKey]) -> Mapping[AnnouncementKey, str]:
        """The tasks of these announcements, as JSON."""
        rows = await self._database.fetch("read_announcements", **columns(keys, "namespaces apps versions digests"))
        return {AnnouncementKey(*row[:-1]): row["tasks"] for row in rows}
