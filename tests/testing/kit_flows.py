"""Workflows for the tests of the kit."""

from __future__ import annotations

from typing import Any

import rota

app = rota.App("flows")
seen: list[Any] = []
failing: dict[str, int] = {}


def note(what: Any, key: str) -> None:
    """Notes what ran; fails as often as it is told to."""
    seen.append(what)
    if failing.get(key, 0) > 0:
        failing[key] -= 1
        raise ValueError(f"{key} is broken")


@app.task(retries=2, retry=rota.Retry(strategy="fixed", base_seconds=60))
async def extract(day: str) -> dict[str, Any]:
    note(("extract", day), "extract")
    return {"files": ["a", "b", "c"], "count": 3}


@app.task(retries=0)
def clean(file: str) -> int:
    note(("clean", file), file)
    return len(file)


@app.task
async def load(parts: dict[str, int], rows: int) -> str:
    note(("load", parts["success"], rows), "load")
    return f"{rows} rows"


@app.task
def notify(what: str = "done") -> None:
    note(("notify", what), "notify")


@app.task
async def start_child(context: rota.Context) -> str:
    run = await approved.start()
    return run.id


@app.task(isolation="process")
def start_from_a_process() -> str:
    run = approved.sync.start()
    return f"{run.id} {run.status()}"


with app.workflow("nightly", cron="0 2 * * *", timezone="Europe/Berlin") as nightly:
    rows = extract.node(day=nightly.nominal_date)
    parts = clean.map(rows["files"], tolerate_failures=1)
    loaded = load.node(parts, rows["count"]).when(rows["count"] > 0)
    notify.node().after(loaded, trigger="all_ended")

with app.workflow("approved", deadline="10d") as approved:
    pause = approved.wait(seconds="1h").with_options(key="pause")
    asked = approved.wait(signal="go", timeout="2d", on_timeout="skip").after(pause)
    decided = approved.approval(timeout="3d").after(asked).with_options(trigger="all_ended")
    notify.node(asked["who"]).after(decided).when(asked["who"].exists())

with app.workflow("parent", inputs={"name": str}) as parent:
    child = parent.workflow("objects")
    notify.node(parent.input("name")).after(child)

with app.workflow("objects") as objects:
    clean.map(objects.object("files.ndjson"), max_concurrency=2)
