"""With Rota: rota up --app after.shop:app is the worker, the scheduler, the broker and the result backend."""

import os
from collections.abc import Iterable
from pathlib import Path

import rota

FOLDER = Path(os.environ.get("SHOP_FOLDER", "/tmp/rota_shop"))  # noqa: S108 - for trying it out
OUTBOX = FOLDER / "outbox"
FOLDER.mkdir(parents=True, exist_ok=True)

app = rota.App("celery-shop")


@app.task(retries=3, retry=rota.Retry(strategy="fixed", base_seconds=1))
def fetch_price(context: rota.Context, item: str, customer: str) -> None:
    if context.attempt == 1:
        raise ConnectionError("the price list does not answer")
    cents = {"chair": 1000, "table": 5000}[item]
    # A step that is attempted twice submits the next one once.
    add_tax.sync.with_options(idempotency_key=f"tax {context.run_id}").submit(cents, 19, customer)


@app.task
def add_tax(context: rota.Context, cents: int, percent: int, customer: str) -> None:
    whole = cents + cents * percent // 100
    write_invoice.sync.with_options(idempotency_key=f"invoice {context.run_id}").submit(whole, customer)


@app.task
def write_invoice(cents: int, customer: str) -> None:
    with OUTBOX.open("a") as outbox:
        outbox.write(f"{customer}: {cents} cents\n")


@app.task(timeout=60)
def resize(width: int) -> int:
    return width // 2


@app.every("1s", name="remind often", arguments={"days": 7})
@app.cron("0 2 * * *", name="remind at night", arguments={"days": 30})
@app.task
def remind(days: int) -> None:
    with OUTBOX.open("a") as outbox:
        outbox.write(f"reminded after {days} days\n")


def place_order(item: str, customer: str) -> None:
    fetch_price.sync.submit(item, customer)


def resize_all(widths: Iterable[int]) -> list[int]:
    runs = resize.sync.submit_many(resize.call(width) for width in widths)
    return [run.result(timeout=30) for run in runs]
