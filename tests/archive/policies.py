"""Retention policies that tests set."""

from __future__ import annotations

from typing import Any


async def keep(api: Any, days: int = 30, *, namespace: str = "default", history: Any = None, **policy: Any) -> None:
    """All outcomes stay so many days, unless `history` says something else of one."""
    outcomes = dict.fromkeys(("success", "failed", "cancelled", "skipped"), days) | (history or {})
    headers = {"Rota-Namespace": namespace}
    answer = await api.put("/v1/retention", json={"history": outcomes, **policy}, headers=headers)
    assert answer.status_code == 200, answer.text
