"""A person who uses Rota for the first time: commands with a HOME of their own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from commands import Commands


class Newcomer(Commands):
    """A home directory, a port, and commands."""

    def __init__(self, home: Path, port: int, **variables: str) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        super().__init__(home, port, **{"HOME": str(home), "COLUMNS": "60", "PATH": path} | variables)
