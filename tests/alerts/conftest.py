"""Alerts on a real database: rules made through the API, evaluated round by round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rota.scheduler.scheduler import Scheduler
from support import GUARD_SECONDS, eventually


class Alerting:
    """A scheduler that owns all shards and evaluates when it is told to, and what its rules came to."""

    def __init__(self, engine: Any, sql: Any, home: Path) -> None:
        self.engine = engine
        self.api = engine.api
        self.sql = sql
        self.home = home
        # Nothing renews its leases, however long a busy machine takes for the test.
        self.scheduler = self.another(lease_seconds=10 * GUARD_SECONDS)

    def another(self, *, lease_seconds: float, **options: Any) -> Scheduler:
        """A scheduler that evaluates often."""
        return Scheduler(
            database=self.engine.database,
            listen_url=self.engine.url,
            lease_seconds=lease_seconds,
            blobs=self.engine.blobs,
            home=self.home,
            alert_seconds=0.2,
            **options,
        )

    async def rule(self, name: str, kind: str, *, scope: str = "namespace", **fields: Any) -> dict[str, Any]:
        body = {"kind": kind, "resolveSeconds": 0, "forSeconds": 0} | fields
        answer = await self.api.put(f"/v1/alerts/rules/{name}", json=body, params={"scope": scope})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def evaluate(self) -> int:
        scheduler = self.scheduler
        return await scheduler.alert_evaluator.serve(scheduler.leases.owned)

    async def alert(self, rule: str, state: str = "firing") -> dict[str, Any]:
        """Evaluates until an alert of the rule is in this state."""

        async def there() -> Any:
            await self.evaluate()
            found = await self.alerts(rule)
            assert not await self.sql.fetchval("SELECT max(error) FROM rota.alert_rules"), "every rule is evaluated"
            return next((each for each in found if each["state"] == state), None)

        return await eventually(there, every=0.1)

    async def alerts(self, rule: str) -> list[dict[str, Any]]:
        answer = await self.api.get("/v1/alerts", params={"state": "pending,firing,resolved", "limit": 500})
        assert answer.status_code == 200, answer.text
        return [each for each in answer.json()["items"] if each["rule"] == rule]

    async def events(self, rule: str) -> list[tuple[str, dict[str, Any]]]:
        """Kind and data of what was told of a rule, in order."""
        rows = await self.sql.fetch("SELECT kind, data FROM rota.events WHERE data IS NOT NULL ORDER BY id")
        told = [(row["kind"], json.loads(row["data"])) for row in rows]
        return [(kind, data) for kind, data in told if data.get("alert") == rule]

    async def told(self, rule: str) -> list[str]:
        return [kind for kind, _ in await self.events(rule)]


@pytest.fixture
async def alerting(engine, sql, tmp_path):
    found = Alerting(engine, sql, tmp_path)
    await found.scheduler.leases.tick()
    # Only what a test asks for: the rules that come with the installation look at the machine's disk as well.
    await sql.execute("UPDATE rota.alert_rules SET enabled = false")
    return found
