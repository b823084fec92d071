"""Every night the order files of the day are found, cleaned one by one and loaded: rota up --app pipeline:app."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import rota

DATA = Path(os.environ.get("PIPELINE_DATA", "data"))

app = rota.App("pipeline")


@app.task(retries=3)
def find_files(day: str) -> dict[str, Any]:
    """The files of a day."""
    files = sorted(file.name for file in (DATA / "orders").glob(f"{day}-*.json"))
    return {"day": day, "files": files, "count": len(files)}


@app.task(retries=1, timeout="5m", final_on=ValueError)
def clean(file: str) -> int:
    """Keeps the orders that are worth something. A file that is no JSON fails for good."""
    orders = json.loads((DATA / "orders" / file).read_text())
    kept = [order for order in orders if order["cents"] > 0]
    write("clean", file, kept)
    return len(kept)


@app.task(concurrency_key="load", concurrency_limit=1)
def load(day: str, cleaned: dict[str, int]) -> dict[str, Any]:
    """Sums up what was cleaned. `cleaned` has the counts of the map."""
    files = sorted((DATA / "clean").glob(f"{day}-*.json"))
    cents = sum(order["cents"] for file in files for order in json.loads(file.read_text()))
    total = {"day": day, "cents": cents, "files": cleaned["success"], "broken": cleaned["failed"]}
    write("totals", f"{day}.json", total)
    return total


@app.task
def tell(text: str, about: Any = None) -> None:
    """Someone should know."""
    print(text, json.dumps(about))


def write(kind: str, name: str, content: Any) -> None:
    """Whole or not at all."""
    place = DATA / kind
    place.mkdir(parents=True, exist_ok=True)
    (place / f".{name}").write_text(json.dumps(content))
    (place / f".{name}").replace(place / name)


with app.workflow("nightly", cron="0 2 * * *", timezone="Europe/Berlin", deadline="4h", overlap="skip") as nightly:
    found = find_files.node(day=nightly.nominal_date)
    cleaned = clean.map(found["files"], max_concurrency=10, tolerate_failures="25%")
    loaded = load.node(found["day"], cleaned).when(found["count"] > 0)
    tell.node("loaded", loaded).with_options(key="tell_success")
    tell.node("the night failed").after(loaded, trigger="any_failed").with_options(key="tell_failure")

# For one day, by hand, with a person's approval before anything is written.
with app.workflow("again", inputs={"day": str}) as again:
    files = find_files.node(day=again.input("day"))
    approved = again.approval(timeout="1d").after(files)
    done = clean.map(files["files"]).after(approved)
    load.node(files["day"], done)
