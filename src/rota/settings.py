"""What a process is told from outside: environment variables and command line options, read once."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from rota.errors import SetupError

DEFAULT_PORT = 7682
DEFAULT_NAMESPACE = "default"
DEFAULT_POOL = "default"
MAX_PORT = 65535
SHORTEST_LEASE_SECONDS = 1.0
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything configurable. `from_environment` is the only reader of os.environ."""

    home: Path = field(default_factory=lambda: Path.home() / ".rota")
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    database_url: str | None = None
    listen_url: str | None = None
    server_url: str | None = None
    given_token: str | None = field(default=None, repr=False)
    notify: bool = True
    log_level: str = "info"
    log_json: bool = False
    worker_lease_seconds: float = 5.0
    scheduler_lease_seconds: float = 3.0
    slots: int = 100
    threads: int = 32
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    drain_seconds: float = 30.0
    payload_limit_bytes: int = 64 * 1024

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Settings from ROTA_* variables; keyword arguments that are not None win over them."""
        environment = os.environ if environment is None else environment
        found = {
            name: parse(environment[variable], variable)
            for variable, (name, parse) in _VARIABLES.items()
            if environment.get(variable)
        }
        chosen = {name: value for name, value in overrides.items() if value is not None}
        settings = cls(**(found | chosen))
        settings.check()
        return replace(settings, home=settings.home.expanduser().absolute())

    def check(self) -> None:
        """Raises SetupError for values that can't work."""
        for variable, (name, _) in _VARIABLES.items():
            value = getattr(self, name)
            if variable.endswith("_SECONDS") and not 0 < value < math.inf:
                raise SetupError(f"{variable} must be a positive number of seconds, not {value:g}")
        if min(self.worker_lease_seconds, self.scheduler_lease_seconds) < SHORTEST_LEASE_SECONDS:
            raise SetupError(f"a lease must be at least {SHORTEST_LEASE_SECONDS:g} seconds")
        for variable in ("ROTA_SLOTS", "ROTA_THREADS", "ROTA_PAYLOAD_LIMIT_BYTES"):
            if getattr(self, _VARIABLES[variable][0]) < 1:
                raise SetupError(f"{variable} must be at least 1")
        if not 1 <= self.port <= MAX_PORT:
            raise SetupError(f"ROTA_PORT must be from 1 to {MAX_PORT}, not {self.port}")
        if not self.pools or not self.namespaces:
            raise SetupError("ROTA_POOLS and ROTA_NAMESPACES must name at least one each")
        if self.log_level.lower() not in LOG_LEVELS:
            raise SetupError(f"ROTA_LOG_LEVEL must be one of {', '.join(LOG_LEVELS)}, not {self.log_level!r}")

    @property
    def url(self) -> str:
        """Where the server is, for the command line."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.server_url or f"http://{host}:{self.port}"

    @property
    def token(self) -> str | None:
        """The token the command line presents: given, or the admin token if it can be read."""
        if self.given_token:
            return self.given_token
        try:
            return self.admin_token_file.read_text().strip()
        except OSError:
            return None

    @property
    def scripts(self) -> Path:
        """The one directory scripts may be run from."""
        return self.home / "scripts"

    @property
    def admin_token_file(self) -> Path:
        """Where the token made at the first start is kept."""
        return self.home / "admin.token"


def _text(value: str, _variable: str) -> str:
    return value


def _path(value: str, _variable: str) -> Path:
    return Path(value)


def _whole(value: str, variable: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise SetupError(f"{variable} must be a whole number, not {value!r}") from None


def _seconds(value: str, variable: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise SetupError(f"{variable} must be a number of seconds, not {value!r}") from None


def _switch(value: str, variable: str) -> bool:
    known = {
        "on": True,
        "true": True,
        "1": True,
        "yes": True,
        "off": False,
        "false": False,
        "0": False,
        "no": False,
    }
    try:
        return known[value.lower()]
    except KeyError:
        raise SetupError(f"{variable} must be on or off, not {value!r}") from None


def _words(value: str, _variable: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


_VARIABLES: dict[str, tuple[str, Any]] = {
    "ROTA_HOME": ("home", _path),
    "ROTA_HOST": ("host", _text),
    "ROTA_PORT": ("port", _whole),
    "ROTA_DATABASE_URL": ("database_url", _text),
    "ROTA_LISTEN_URL": ("listen_url", _text),
    "ROTA_URL": ("server_url", _text),
    "ROTA_TOKEN": ("given_token", _text),
    "ROTA_NOTIFY": ("notify", _switch),
    "ROTA_LOG_LEVEL": ("log_level", _text),
    "ROTA_LOG_JSON": ("log_json", _switch),
    "ROTA_WORKER_LEASE_SECONDS": ("worker_lease_seconds", _seconds),
    "ROTA_SCHEDULER_LEASE_SECONDS": ("scheduler_lease_seconds", _seconds),
    "ROTA_SLOTS": ("slots", _whole),
    "ROTA_THREADS": ("threads", _whole),
    "ROTA_POOLS": ("pools", _words),
    "ROTA_NAMESPACES": ("namespaces", _words),
    "ROTA_DRAIN_SECONDS": ("drain_seconds", _seconds),
    "ROTA_PAYLOAD_LIMIT_BYTES": ("payload_limit_bytes", _whole),
}
