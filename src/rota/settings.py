"""Settings of a process, from environment variables and command line options.

Each field of `Settings` is a variable: its name gives the variable, its type the parser, its `Bounds` the limits.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self
from urllib.parse import unquote

from rota.domain.fleet import NAMESPACE_SHARE
from rota.domain.limits import FASTEST_PER_SECOND, SLOWEST_PER_SECOND
from rota.errors import SetupError

DEFAULT_PORT = 7682
DEFAULT_NAMESPACE = "default"
DEFAULT_POOL = "default"
SHORTEST_LEASE_SECONDS = 1.0
SECRET_PREFIX = "ROTA_SECRET_"  # noqa: S105 - not a secret
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MAX_WEIGHT = 1000
_MAX_PORT = 65535
_MIN_SECRET = 4
_MIN_DESTINATION_KEY = 32
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Pool names as in the API (contract/fields.py).
_WEIGHTED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.:-]{0,99})(?:=([0-9]{1,4}))?")
# Secrets that object storage, PostgreSQL and OpenTelemetry read from the environment.
_CREDENTIALS = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "PGPASSWORD",
)
_SECRET_PARAMETERS = frozenset({"password", "sslpassword", "sig", "secret", "token"})
_LOG_LEVELS = ("debug", "info", "warning", "error")
_SWITCH = dict.fromkeys(("on", "true", "1", "yes"), True) | dict.fromkeys(("off", "false", "0", "no"), False)


class Bounds(NamedTuple):
    """The limits of a number, and optionally a description of them."""

    least: float
    most: float = math.inf
    words: str = ""
    or_zero: bool = False

    def check(self, variable: str, value: float) -> None:
        """Raises SetupError if the value is outside the limits, or NaN."""
        if self.least <= value <= self.most or (self.or_zero and value == 0):
            return
        near = f"at most {self.most}" if value > self.most else f"at least {self.least}"
        raise SetupError(f"{variable} must be {self.words.format(value) or near}")


_RATE = Bounds(
    SLOWEST_PER_SECOND,
    FASTEST_PER_SECOND,
    words=f"0 (no limit), or from {SLOWEST_PER_SECOND:g} to {FASTEST_PER_SECOND:,.0f}",
    or_zero=True,
)
SECONDS = Bounds(math.ulp(0.0), 366 * 86400.0, "a number of seconds above 0, at most a year, not {:g}")
_Count = Annotated[int, Bounds(1)]
_CountOrZero = Annotated[int, Bounds(0)]
_Seconds = Annotated[float, SECONDS]
_Rate = Annotated[float, _RATE]


class OtelSignals(NamedTuple):
    """What OpenTelemetry's own variables ask for."""

    traces: bool = False
    metrics: bool = False
    metric_seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings. `from_environment` is the only reader of os.environ.

    The text below each field goes to docs/reference/settings.md.
    """

    home: Path = field(default_factory=lambda: Path.home() / ".rota")
    """the directory for the embedded database, `admin.token`, `scripts/` and `blobs/`"""
    host: str = "127.0.0.1"
    """the address the API listens on, and where the command line looks for it"""
    port: Annotated[int, Bounds(1, _MAX_PORT)] = DEFAULT_PORT
    """the port of the API"""
    database_url: str | None = field(default=None, repr=False)
    """`postgresql://user:password@host:port/database`, version 15 or newer, also through PgBouncer in transaction
    mode. Default: the embedded PostgreSQL"""
    listen_url: str | None = field(default=None, repr=False)
    """where to LISTEN; set it to the server itself if `ROTA_DATABASE_URL` is a pooler. Default: `ROTA_DATABASE_URL`,
    unless that is a pooler"""
    server_url: str | None = None
    """the server's address. Default: from `ROTA_HOST` and `ROTA_PORT`"""
    given_token: str | None = field(default=None, repr=False)
    """the token that clients present: a [key](../how-to/give-people-and-programs-keys.md), a JWT or the admin token.
    For an API server it *is* the admin token; set it if several hosts share one. Default: `admin.token` in the home"""
    namespace: str | None = None
    """the namespace to use. Default: the token's only one, or `default`"""
    notify: bool = True
    """`off`: neither NOTIFY nor LISTEN; all processes poll"""
    log_level: str = "info"
    """`debug`, `info`, `warning` or `error`. Default: `info`; `warning` under `rota up` and `rota dev`"""
    log_json: bool = False
    """`on`: one JSON object per line instead of text"""
    log_failures: bool = False
    """`on`: workers log every failed attempt, not only runs that failed for good; the default in `rota dev`"""
    worker_lease_seconds: _Seconds = 5.0
    """how long a silent worker keeps its runs"""
    scheduler_lease_seconds: _Seconds = 3.0
    """how long a silent scheduler keeps its shards"""
    slots: _Count = 100
    """runs at a time per worker"""
    threads: _Count = 32
    """synchronous functions at a time per worker"""
    transactions: _Count = 10
    """[transactional](tasks.md#exactly-once) runs at a time per worker; each has its own connection"""
    app_patience_seconds: _Seconds = 600.0
    """how long schedules declared in code continue when all workers of the application are gone"""
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    """the pools a worker serves, with optional weights for sharing its slots: `mail=3,reports=1`"""
    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    """the namespaces a worker serves, with optional weights for sharing its slots: `shop=3,billing=1`"""
    namespace_share: Annotated[float, Bounds(0.1, 1.0)] = NAMESPACE_SHARE
    """if a worker serves several namespaces: the part of its slots that one of them may hold; see
    [fairness](policies.md#namespaces)"""
    drain_seconds: _Seconds = 30.0
    """how long a stopping worker lets its runs continue"""
    grace_seconds: _Seconds = 10.0
    """how long a stopping run can take before it is killed, or abandoned if that is impossible"""
    processes: _Count = field(default_factory=lambda: os.cpu_count() or 1)
    """functions with `isolation="process"` at a time per worker. Default: one per core"""
    allow_shell: bool = False
    """`on`: this worker runs shell jobs. Then everyone who can submit jobs can run anything on its host"""
    http_allow: tuple[str, ...] = ()
    """networks that HTTP jobs, and messages to [destinations](../how-to/be-told-what-happens.md), can reach besides the
    public internet, such as `10.0.0.0/8,127.0.0.1`"""
    destination_key: tuple[str, ...] = field(default=(), repr=False)
    """the key that seals addresses and secrets of [destinations](../how-to/be-told-what-happens.md), at least 32
    characters; the same for all API servers and schedulers. Several, separated by commas: the first seals, all open.
    Default: `destination.key` in the home"""
    blobs_url: str | None = field(default=None, repr=False)
    """object storage: a directory, or `s3://bucket/prefix`, `gs://…`, `az://…`; the same for all hosts. Default:
    `blobs/` in the home"""
    payload_limit_bytes: _Count = 10 * 1024 * 1024
    """the largest payload the API accepts"""
    check_payloads: bool = True
    """`off`: also accept payloads that don't fit the parameters that workers [announce](tasks.md#jobs-from-elsewhere);
    these runs fail"""
    log_limit_bytes: Annotated[int, Bounds(1024)] = 2 * 1024 * 1024
    """how much of an attempt's log is kept"""
    log_export_url: str | None = field(default=None, repr=False)
    """where schedulers [send logs](../how-to/search-and-ship-logs.md#ship-logs-elsewhere): `elasticsearch+https://host:9200/index`,
    `opensearch+https://…`, `loki+https://host:3100`, `file:///path` or `stdout:`; the same for all schedulers. Default:
    nowhere"""
    log_export_authorization: str | None = field(default=None, repr=False)
    """the `Authorization` header for it, such as `ApiKey …` or `Bearer …`. Default: user and password of the address"""
    log_export_tenant: str | None = None
    """the `X-Scope-OrgID` header for it, for Loki with tenants"""
    worker_port: Annotated[int, Bounds(0, _MAX_PORT)] = 0
    """a port on which the worker answers `GET /healthz`; 0: none, as under `rota dev`"""
    most_waiting_per_owner: _CountOrZero = 0
    """backlog limit per owner: with this many waiting runs, more jobs are rejected with 429; `0`: no limit"""
    jwt_secret: str | None = field(default=None, repr=False)
    """a secret of at least 32 bytes, for HS256"""
    jwt_keys: str | None = None
    """the JWKS of the provider: an `https://` address (`http://` on this machine only), or a file. For RS256, ES256 and
    EdDSA"""
    jwt_issuer: str | None = None
    """the required `iss`. Default: any"""
    jwt_audience: str | None = None
    """the required `aud`; must be set with `ROTA_JWT_KEYS`"""
    jwt_leeway_seconds: Annotated[float, Bounds(0, 300)] = 30.0
    """how far clocks can differ, 0 to 300"""
    jwt_claim: str = "rota"
    """the claim with the roles; dots reach into objects: `realm_access.roles`"""
    jwt_default_role: str | None = None
    """the role in the namespace `default` for tokens without that claim. Default: none"""
    requests_per_second: _Rate = 0.0
    """request rate limit per owner (over all their keys), unless [another limit](../how-to/limit-your-tenants.md) is
    set; `0`: no limit"""
    jobs_per_second: _Rate = 0.0
    """job rate limit per owner; `0`: no limit"""
    most_fan_out: _CountOrZero = 100_000
    """how many jobs one run can submit"""
    connections: _CountOrZero = 0
    """open connections per API process; `0`: the limit of open files less 512, at most 16384. Beyond that the longest
    idle connection is closed"""
    trusted_proxies: tuple[str, ...] = ()
    """addresses or networks of proxies before the API, such as `10.0.0.5,10.1.0.0/16`: their `X-Forwarded-For` and
    `X-Forwarded-Proto` are trusted, for the audit trail and for cookies; those of others are ignored"""
    tls_certificate: Path | None = None
    """a file in PEM form; with `ROTA_TLS_KEY`, the API [speaks TLS](../how-to/serve-over-tls.md), 1.2 or newer, and the
    command line looks for it at `https://`"""
    tls_key: Path | None = None
    """the certificate's key, a file in PEM form"""
    ca_file: Path | None = None
    """a file with the trusted authorities' certificates for a server with TLS. Default: the system's"""
    alert_seconds: _Seconds = 10.0
    """how often [alerts](alerts.md) are evaluated while one is open; three times as long while none is"""
    heartbeat_url: str | None = field(default=None, repr=False)
    """an `https://` address of a monitor outside, called by GET while schedules fire on time and the database can be
    written to; see [the heartbeat](../how-to/be-alerted.md#a-heartbeat-to-the-outside). Default: none"""
    heartbeat_seconds: Annotated[float, Bounds(1, 86400)] = 60.0
    """how often"""
    metrics_port: Annotated[int, Bounds(0, _MAX_PORT)] = 0
    """a port on which this process answers [`GET /metrics`](../how-to/monitor-with-prometheus.md); 0: none. Under
    `rota up` the API has this port, the scheduler the next one, then each worker one"""
    metrics_host: str = "127.0.0.1"
    """the address of `ROTA_METRICS_PORT`. It asks for no token: choose a private one"""
    metrics_public: bool = False
    """`on`: the API's own `/metrics` asks for no token"""
    metrics_task_label: bool = False
    """`on`: metrics of runs have the label `task`"""
    statsd: str | None = None
    """`host:port` of a StatsD server that gets the metrics of this process by UDP. Default: none"""
    statsd_tags: bool = False
    """`on`: labels are sent as tags, as Datadog and Telegraf read them, instead of parts of the name"""
    statsd_seconds: _Seconds = 5.0
    """how often metrics are sent to StatsD"""
    tracing: bool = False
    """`on`: [traces](../how-to/trace-with-opentelemetry.md) even without `OTEL_EXPORTER_OTLP_ENDPOINT`"""
    otel: OtelSignals = field(default_factory=OtelSignals)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **overrides: Any) -> Self:
        """Settings from ROTA_* variables; keyword arguments that are not None win over them."""
        environment = os.environ if environment is None else environment
        found: dict[str, Any] = {
            setting.name: parse(variable, environment[variable])
            for variable, setting in VARIABLES.items()
            if environment.get(variable)
        }
        found["secrets"] = {
            variable.removeprefix(SECRET_PREFIX): value
            for variable, value in environment.items()
            if variable.startswith(SECRET_PREFIX)
        }
        found["otel"] = _signals(environment)
        found["credentials"] = tuple(environment[name] for name in _CREDENTIALS if environment.get(name))
        chosen = {name: value for name, value in overrides.items() if value is not None}
        settings = cls(**(found | chosen))
        settings.check()
        return replace(settings, home=_find_home(settings.home))

    def check(self) -> None:
        """Raises SetupError for values that can't work."""
        for variable, setting in VARIABLES.items():
            if bounds := bounds_of(variable):
                bounds.check(variable, getattr(self, setting.name))
        if min(self.worker_lease_seconds, self.scheduler_lease_seconds) < SHORTEST_LEASE_SECONDS:
            raise SetupError(f"a lease must be at least {SHORTEST_LEASE_SECONDS:g} seconds")
        if not self.pools or not self.namespaces:
            raise SetupError("ROTA_POOLS and ROTA_NAMESPACES must name at least one each")
        _ = self.pool_weights, self.namespace_weights
        if self.log_level.lower() not in _LOG_LEVELS:
            raise SetupError(f"ROTA_LOG_LEVEL must be one of {', '.join(_LOG_LEVELS)}, not {self.log_level!r}")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise SetupError("ROTA_TLS_CERTIFICATE and ROTA_TLS_KEY go together: set both, or neither")
        for word in self.trusted_proxies:
            _check_network("ROTA_TRUSTED_PROXIES", word)
        _ = self.statsd_address
        for name, value in self.secrets.items():
            _check_secret(name, value)
        if any(len(key) < _MIN_DESTINATION_KEY for key in self.destination_key):
            raise SetupError(f"ROTA_DESTINATION_KEY must have at least {_MIN_DESTINATION_KEY} characters")

    @property
    def hidden(self) -> tuple[str, ...]:
        """What to mask in logs, errors and results: secrets, the token, passwords in addresses."""
        addresses = (self.database_url, self.listen_url, self.blobs_url, self.log_export_url)
        texts = [*self.secrets.values(), *self.credentials, self.given_token or "", self.jwt_secret or ""]
        texts += self.destination_key
        texts.append(self.heartbeat_url or "")
        texts.append(self.log_export_authorization or "")
        texts += [text for address in addresses if address for text in _passwords(address)]
        return tuple(text for text in texts if len(text) >= _MIN_SECRET)

    @property
    def statsd_address(self) -> tuple[str, int] | None:
        """Where StatsD listens."""
        if self.statsd is None:
            return None
        host, _, port = self.statsd.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
            raise SetupError(f"ROTA_STATSD must be host:port, such as 127.0.0.1:8125, not {self.statsd!r}")
        return host.strip("[]"), int(port)

    @property
    def pool_names(self) -> tuple[str, ...]:
        """The pools a worker serves."""
        return tuple(word.partition("=")[0] for word in self.pools)

    @property
    def pool_weights(self) -> tuple[int, ...]:
        """How pools share a worker's slots: 'mail=3,reports=1' gives mail three quarters."""
        return _weights("pool", self.pools, "mail=3,reports=1")

    @property
    def namespace_names(self) -> tuple[str, ...]:
        """The namespaces a worker serves."""
        return tuple(word.partition("=")[0] for word in self.namespaces)

    @property
    def namespace_weights(self) -> tuple[int, ...]:
        """How namespaces share a worker's slots: 'shop=3,billing=1' gives shop three quarters."""
        return _weights("namespace", self.namespaces, "shop=3,billing=1")

    @property
    def url(self) -> str:
        """The server's address for the command line."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.server_url or f"{self.scheme}://{host}:{self.port}"

    @property
    def scheme(self) -> str:
        """https if there is a certificate."""
        return "https" if self.tls_certificate else "http"

    @property
    def is_exposed(self) -> bool:
        """Whether the server is reachable over the network without TLS."""
        return self.tls_certificate is None and self.host not in LOOPBACK

    @property
    def token(self) -> str | None:
        """The given token, or the admin token if it can be read."""
        if self.given_token:
            return self.given_token
        try:
            return self.admin_token_file.read_text().strip()
        except OSError:
            return None

    @property
    def scripts(self) -> Path:
        """The directory of scripts."""
        return self.home / "scripts"

    @property
    def blobs(self) -> str:
        """Where large payloads, results and logs are kept: a URL, or a directory."""
        return self.blobs_url or str(self.home / "blobs")

    @property
    def admin_token_file(self) -> Path:
        """The file of the token made at the first start."""
        return self.home / "admin.token"


def _passwords(address: str) -> list[str]:
    """Passwords in an address, both quoted and unquoted."""
    account, found, _ = address.partition("://")[2].rpartition("@")
    written = [account.partition(":")[2]] if found else []
    for pair in address.partition("?")[2].split("&"):
        name, _, value = pair.partition("=")
        if name.lower() in _SECRET_PARAMETERS:
            written.append(value)
    return [text for part in written if part for text in (part, unquote(part))]


def _signals(environment: Mapping[str, str]) -> OtelSignals:
    """The signals that have an endpoint and are not switched off."""

    def is_wanted(signal: str) -> bool:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
        is_off = is_off or environment.get(f"OTEL_{signal}_EXPORTER", "").lower() == "none"
        return not is_off and any(environment.get(name) for name in endpoints)

    interval = environment.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    seconds = int(interval) / 1000 if interval.isdecimal() and int(interval) else OtelSignals().metric_seconds
    return OtelSignals(is_wanted("TRACES"), is_wanted("METRICS"), seconds)


def _find_home(given: Path) -> Path:
    try:
        return given.expanduser().absolute()
    except RuntimeError:
        raise SetupError(f"ROTA_HOME={given}: there is no such user, or it has no home directory") from None


def _check_secret(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise SetupError(f"{SECRET_PREFIX}{name}: a secret's name has only letters, digits and _")
    if len(value) < _MIN_SECRET:
        raise SetupError(f"{SECRET_PREFIX}{name} is too short to be masked in logs; use a longer secret")


def _weights(kind: str, words: Sequence[str], example: str) -> tuple[int, ...]:
    variable, weights = f"ROTA_{kind.upper()}S", {}
    for word in words:
        match = _WEIGHTED.fullmatch(word)
        if match is None or not 1 <= int(match[2] or 1) <= _MAX_WEIGHT:
            raise SetupError(f"{variable} must be names with optional weights ({example}), not {word[:100]!r}")
        weights[match[1]] = int(match[2] or 1)
    if len(weights) < len(words):
        raise SetupError(f"{variable} names a {kind} twice")
    return tuple(weights.values())


def _check_network(variable: str, word: str) -> None:
    try:
        ip_network(word)
    except ValueError:
        raise SetupError(f"{variable} must be addresses and networks (10.0.0.5,10.1.0.0/16), not {word!r}") from None


_VARIABLE_NAMES = {"server_url": "ROTA_URL", "given_token": "ROTA_TOKEN", "blobs_url": "ROTA_BLOBS"}
# The field that each variable sets. Secrets have variables of any name that begins with SECRET_PREFIX.
VARIABLES = {
    _VARIABLE_NAMES.get(each.name, f"ROTA_{each.name.upper()}"): each
    for each in fields(Settings)
    if each.name not in ("otel", "secrets", "credentials")
}


# Settings that are not shown are secrets, or addresses that can have one in them.
_SECRET_VARIABLES = frozenset({variable for variable, each in VARIABLES.items() if not each.repr}).union(_CREDENTIALS)


def is_secret(variable: str) -> bool:
    """Whether the value of this environment variable must not be shown."""
    return variable in _SECRET_VARIABLES or variable.startswith(SECRET_PREFIX)


def parse(variable: str, text: str) -> Any:
    """The value of a variable's text; raises SetupError if it is invalid."""
    annotation: Any = VARIABLES[variable].type
    if annotation in (str, str | None):
        return text
    if annotation in (Path, Path | None):
        return Path(text)
    if annotation == tuple[str, ...]:
        return tuple(word.strip() for word in text.split(",") if word.strip())
    try:
        return _SWITCH[text.lower()] if annotation is bool else annotation.__origin__(text)
    except (KeyError, ValueError):
        number = "a number of seconds" if variable.endswith("_SECONDS") else "a number"
        wanted = "on or off" if annotation is bool else "a whole number" if annotation.__origin__ is int else number
        raise SetupError(f"{variable} must be {wanted}, not {text!r}") from None


def bounds_of(variable: str) -> Bounds | None:
    """The limits of a variable's number; None if it is not a number."""
    return next(iter(getattr(VARIABLES[variable].type, "__metadata__", ())), None)
