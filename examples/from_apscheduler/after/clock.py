"""With Rota: rota up --app after.clock:app."""

import os
import time
from pathlib import Path

import rota

FOLDER = Path(os.environ.get("CLOCK_FOLDER", "/tmp/rota_clock"))  # noqa: S108 - for trying it out

app = rota.App("clock")


def note(line: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{line}\n")


@app.every("1s", arguments={"room": "hall"}, overlap="skip", misfire=rota.Misfire(policy="latest", window_seconds=30))
@app.task
def sweep(room: str) -> None:
    note(f"begin {room}")
    time.sleep(1.5)
    note(f"end {room}")


@app.cron("*/2 * * * * *", name="often", misfire=rota.Misfire(policy="all", window_seconds=3600))
@app.cron("30 8 * * MON-FRI", name="mornings", timezone="Europe/Berlin")
@app.task
def chime() -> None:
    note("chime")


@app.task(expires="10m")
def wake_up(who: str) -> None:
    note(f"good morning, {who}")
