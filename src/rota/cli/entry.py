"""The entry point `rota`: Ctrl-C while a command starts shows a line and no traceback.

KeyboardInterrupt can't do that. Raised while modules load, it can be swallowed by whatever runs at that moment, and the
command goes on. Until a command begins its work there is nothing to clean up, so the process just ends.
"""

from __future__ import annotations

INTERRUPTED = 130  # 128 + SIGINT, as in shells


def main() -> None:
    """Loads and runs the command line."""
    try:
        import signal  # noqa: PLC0415 - as all that follows, it can be interrupted while it loads

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in the background
            signal.signal(signal.SIGINT, _end)
    except KeyboardInterrupt:
        _end()
    from rota.cli.main import main as run  # noqa: PLC0415 - as above

    run()


def begin_work() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt: there is something to clean up."""
    import signal  # noqa: PLC0415 - see the top

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_signal: object) -> None:
    import os  # noqa: PLC0415 - Python itself has loaded it

    os.write(2, b"Interrupted while starting.\n")
    os._exit(INTERRUPTED)
