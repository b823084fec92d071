"""The entry point `rota`: Ctrl-C shows no traceback, even while modules load."""

from __future__ import annotations

INTERRUPTED = 130  # 128 + SIGINT, as in shells


def main() -> None:
    """Loads and runs the command line."""
    try:
        from rota.cli.main import main as run  # noqa: PLC0415 - can be interrupted while it loads
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    run()
