"""A PostgreSQL of this machine's packages, for what the embedded one was not built with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support import leave_out

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


def postgres_built_with(feature: str) -> Path:
    """The binaries of the newest one whose configuration names the feature. Skips the test, or fails it in CI."""
    named = [Path(os.environ["ROTA_TEST_POSTGRES"])] if os.environ.get("ROTA_TEST_POSTGRES") else []
    found = [*named, *(path for place in PLACES for path in sorted(Path("/").glob(place[1:]), reverse=True))]
    for binaries in found:
        if (binaries / "postgres").exists() and (binaries / "pg_config").exists():
            done = subprocess.run([binaries / "pg_config", "--configure"], capture_output=True, text=True, check=False)
            if feature in done.stdout:
                return binaries
    return leave_out(f"no PostgreSQL built with {feature} is installed (apt-get install postgresql)")
