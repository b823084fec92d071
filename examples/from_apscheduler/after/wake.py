"""python -m after.wake: from any program, also while no worker is up."""

from datetime import UTC, datetime, timedelta

from after.clock import wake_up

if __name__ == "__main__":
    run = wake_up.sync.at(datetime.now(UTC) + timedelta(seconds=2)).submit("ada")
    print(f"{run.id} wakes ada in two seconds")
