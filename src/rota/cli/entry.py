"""Where `rota` begins: Ctrl-C while it is still loading ends it without a word, too."""

from __future__ import annotations

INTERRUPTED = 130


def main() -> None:
    """Loads the command line, and runs it."""
    try:
        from rota.cli.main import main as run  # noqa: PLC0415 - loading it is what may be interrupted
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    run()
