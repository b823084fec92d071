"""The entry point `rota`: Ctrl-C ends it without a traceback even while it is still loading."""

from __future__ import annotations

INTERRUPTED = 130  # as shells count it: 128 and the number of the signal


def main() -> None:
    """Loads the command line, and runs it."""
    try:
        from rota.cli.main import main as run  # noqa: PLC0415 - loading it is what may be interrupted
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    run()
