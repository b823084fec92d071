"""With Celery: celery -A before.shop worker -B. The broker is a folder, so that nothing else must run."""

import os
from pathlib import Path

from celery import Celery, chain, group
from celery.schedules import crontab

FOLDER = Path(os.environ.get("SHOP_FOLDER", "/tmp/celery_shop"))  # noqa: S108 - for trying it out
OUTBOX = FOLDER / "outbox"
for name in ("queue", "control", "results"):
    (FOLDER / name).mkdir(parents=True, exist_ok=True)

app = Celery("shop", broker="filesystem://", backend=f"file://{FOLDER}/results")
app.conf.broker_transport_options = {
    "data_folder_in": str(FOLDER / "queue"),
    "data_folder_out": str(FOLDER / "queue"),
    "control_folder": str(FOLDER / "control"),
}
app.conf.beat_schedule_filename = str(FOLDER / "beat")


@app.task(bind=True, autoretry_for=(ConnectionError,), max_retries=3, default_retry_delay=1)
def fetch_price(self, item):
    if self.request.retries == 0:
        raise ConnectionError("the price list does not answer")
    return {"chair": 1000, "table": 5000}[item]


@app.task
def add_tax(cents, percent):
    return cents + cents * percent // 100


@app.task
def write_invoice(cents, customer):
    with OUTBOX.open("a") as outbox:
        outbox.write(f"{customer}: {cents} cents\n")


@app.task(time_limit=60)
def resize(width):
    return width // 2


@app.task
def remind(days):
    with OUTBOX.open("a") as outbox:
        outbox.write(f"reminded after {days} days\n")


app.conf.beat_schedule = {
    "remind often": {"task": "before.shop.remind", "schedule": 1.0, "args": (7,)},
    "remind at night": {"task": "before.shop.remind", "schedule": crontab(hour=2, minute=0), "args": (30,)},
}


def place_order(item, customer):
    chain(fetch_price.s(item), add_tax.s(19), write_invoice.s(customer)).delay()


def resize_all(widths):
    return group(resize.s(width) for width in widths).delay().get(timeout=30)
