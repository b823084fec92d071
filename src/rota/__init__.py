"""Rota: a distributed job scheduler on PostgreSQL."""

from importlib.metadata import version

from rota.app import App
from rota.errors import RotaError
from rota.worker.context import Context, Final, Snooze

__all__ = ["App", "Context", "Final", "RotaError", "Snooze", "__version__"]

__version__ = version("rota")
