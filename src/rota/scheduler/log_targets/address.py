"""The target that a setting names."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rota.errors import SetupError
from rota.scheduler.log_targets import LogTarget
from rota.scheduler.log_targets.http import Elasticsearch, Loki
from rota.scheduler.log_targets.json_lines import LineFile, LineStream

_DEFAULT_INDEX = "rota-logs"
_FORMS = (
    "elasticsearch+https://host:9200/index, opensearch+https://host:9200/index, loki+https://host:3100, "
    "file:///var/log/rota.jsonl or stdout:"
)


def open_target(url: str | None, authorization: str | None, tenant: str | None) -> LogTarget | None:
    """The target behind ROTA_LOG_EXPORT_URL; None: logs are not exported. Raises SetupError, which quotes no secret."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise _unreadable() from None
    if url == "stdout:":
        return LineStream()
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return LineFile(Path(unquote(parts.path)))
    kind, _, transport = parts.scheme.partition("+")
    if transport not in ("http", "https") or not parts.hostname:
        raise _unreadable()
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    headers = _headers(authorization, parts.username, parts.password) | ({"X-Scope-OrgID": tenant} if tenant else {})
    path = parts.path.rstrip("/")
    if kind == "loki":
        return Loki(f"{transport}://{host}{port}{path}", headers)
    if kind in ("elasticsearch", "opensearch"):
        prefix, _, index = path.rpartition("/")
        return Elasticsearch(f"{transport}://{host}{port}{prefix}", index or _DEFAULT_INDEX, headers)
    raise _unreadable()


def _headers(authorization: str | None, user: str | None, password: str | None) -> dict[str, str]:
    if authorization:
        return {"Authorization": authorization}
    if user is None:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {b64encode(pair).decode()}"}


def _unreadable() -> SetupError:
    return SetupError(f"ROTA_LOG_EXPORT_URL can't be read: it must look like {_FORMS}")
