"""Alerts, retention, the archive and metrics; a part of `AsyncClient`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from rota.client.async_submissions import AsyncJobSubmissions
from rota.client.bodies import fields_of
from rota.contract.alerts import (
    AlertList,
    AlertOut,
    AlertRuleList,
    AlertRuleOut,
    AlertTestOut,
    SilenceList,
    SilenceOut,
)
from rota.contract.retention import ArchiveList, ArchiveOut, ArchiveRound, ArchiveState, RetentionOut

_PAGE_SIZE = 100
_MOST = 500


class AsyncObservingCalls(AsyncJobSubmissions):
    """Reads alerts, changes their rules, and says how long things stay."""

    async def alerts(self) -> list[AlertOut]:
        """Alerts that fire or are about to, and those that were resolved of late."""
        return (await self._ask(AlertList, "GET", "/v1/alerts", query={"limit": _MOST}, repeatable=True)).items

    def alert_rules(self, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[AlertRuleOut]:
        """Rules of the namespace and of the installation, by name."""
        return self._items(AlertRuleList, "/v1/alerts/rules", {}, page_size)

    async def alert_rule(self, name: str, *, everywhere: bool = False) -> AlertRuleOut:
        """A rule."""
        return await self._ask(AlertRuleOut, "GET", _rule(name), query=_scope(everywhere), repeatable=True)

    async def put_alert_rule(self, name: str, rule: Mapping[str, Any], *, everywhere: bool = False) -> AlertRuleOut:
        """Creates or replaces a rule, given as the body of `PUT /v1/alerts/rules/{rule}`."""
        return await self._ask(
            AlertRuleOut, "PUT", _rule(name), query=_scope(everywhere), body=dict(rule), repeatable=True
        )

    async def delete_alert_rule(self, name: str, *, everywhere: bool = False) -> AlertRuleOut:
        """Deletes a rule; what it fires is resolved."""
        return await self._ask(AlertRuleOut, "DELETE", _rule(name), query=_scope(everywhere))

    async def test_alert_rule(self, name: str, *, everywhere: bool = False) -> AlertTestOut:
        """Records an event as if a rule fired. Not retried once sent."""
        return await self._ask(AlertTestOut, "POST", f"{_rule(name)}/test", query=_scope(everywhere))

    async def silences(self) -> list[SilenceOut]:
        """Silences that have not ended."""
        return (await self._ask(SilenceList, "GET", "/v1/alerts/silences", repeatable=True)).items

    async def silence(
        self, until: datetime, reason: str, *, rule: str | None = None, key: str | None = None, everywhere: bool = False
    ) -> SilenceOut:
        """Alerts (of a rule, with a key) are not told until then. Not retried once sent."""
        body = fields_of({"until": until, "reason": reason, "rule": rule, "key": key})
        return await self._ask(SilenceOut, "POST", "/v1/alerts/silences", query=_scope(everywhere), body=body)

    async def end_silence(self, silence_id: str, *, everywhere: bool = False) -> SilenceOut:
        """Ends a silence."""
        path = f"/v1/alerts/silences/{quote(silence_id, safe='')}"
        return await self._ask(SilenceOut, "DELETE", path, query=_scope(everywhere))

    async def retention(self) -> RetentionOut:
        """How long things stay in this namespace."""
        return await self._ask(RetentionOut, "GET", "/v1/retention", repeatable=True)

    async def put_retention(self, policy: Mapping[str, Any]) -> RetentionOut:
        """Sets how long things stay, given as the body of `PUT /v1/retention`; what is not given stays for ever."""
        return await self._ask(RetentionOut, "PUT", "/v1/retention", body=dict(policy), repeatable=True)

    def archives(self, *, page_size: int = _PAGE_SIZE) -> AsyncIterator[ArchiveOut]:
        """Days that are archived or on their way, latest first."""
        return self._items(ArchiveList, "/v1/archive", {}, page_size)

    async def archive_now(self) -> ArchiveRound:
        """Has a scheduler look now for days whose retention is over."""
        return await self._ask(ArchiveRound, "POST", "/v1/archive/now", repeatable=True)

    async def restore_archive(self, day: str, *, days: int | None = None) -> ArchiveState:
        """Brings an archived day, such as 20261118, back into the database, for so many days. Not retried once sent."""
        path = f"/v1/archive/{quote(day, safe='')}/restore"
        return await self._ask(ArchiveState, "POST", path, body=fields_of({"days": days}))

    async def metrics(self) -> str:
        """Metrics in the format of Prometheus."""
        return await self.read_text("/metrics")


def _rule(name: str) -> str:
    return f"/v1/alerts/rules/{quote(name, safe='')}"


def _scope(everywhere: bool) -> dict[str, str]:
    return {"scope": "installation"} if everywhere else {}
