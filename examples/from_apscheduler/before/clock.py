"""With APScheduler 3: python -m before.clock."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apscheduler.schedulers.blocking import BlockingScheduler

FOLDER = Path(os.environ.get("CLOCK_FOLDER", "/tmp/apscheduler_clock"))  # noqa: S108 - for trying it out


def note(line):
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{line}\n")


def sweep(room):
    note(f"begin {room}")
    time.sleep(1.5)
    note(f"end {room}")


def chime():
    note("chime")


def wake_up(who):
    note(f"good morning, {who}")


scheduler = BlockingScheduler(timezone="Europe/Berlin")
scheduler.add_job(sweep, "interval", seconds=1, args=["hall"], max_instances=1, coalesce=True, misfire_grace_time=30)
scheduler.add_job(chime, "cron", second="*/2", coalesce=False, misfire_grace_time=3600)
scheduler.add_job(chime, "cron", day_of_week="mon-fri", hour=8, minute=30)

if __name__ == "__main__":
    moment = datetime.now(UTC) + timedelta(seconds=2)
    scheduler.add_job(wake_up, "date", run_date=moment, args=["ada"], misfire_grace_time=600)
    scheduler.start()
