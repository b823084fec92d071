"""Checks of the ROTA_ variables, alone and together. Values are never shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from urllib.parse import urlsplit

from rota.domain.text import nearest
from rota.errors import SetupError
from rota.ops.doctor.findings import Finding, ok, problem, warning
from rota.settings import SECRET_PREFIX, VARIABLES, Settings

_CHECK = "settings"
PREFIX = "ROTA_"
# Not settings: variables for child processes and tests.
_OTHERS = frozenset({"ROTA_SUPERVISED", "ROTA_TEST_DATABASE_URL", "ROTA_TEST_POSTGRES"})
_TOGETHER = frozenset({"ROTA_TLS_CERTIFICATE", "ROTA_TLS_KEY"})


def read_settings(environment: MutableMapping[str, str]) -> tuple[Settings, list[Finding]]:
    """The usable settings, and findings about the others.

    Invalid variables are removed from the environment, so that later checks don't fail on them again.
    """
    given = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    findings = list(_unknown(given))
    refused = dict(_refused(given))
    for name, words in refused.items():
        findings.append(problem(_CHECK, words, f"change {name}, or unset it"))
        del environment[name]
    try:
        settings = Settings.from_environment(environment)
    except SetupError as error:
        findings.append(problem(_CHECK, str(error), "change or unset what it names"))
        for name in given.keys() - {"ROTA_HOME"}:
            environment.pop(name, None)
        settings = Settings.from_environment(environment)
    findings += _contradictions(settings, given)
    if not findings:
        count = f"{len(given)} ROTA_ variables are" if len(given) != 1 else "1 ROTA_ variable is"
        findings.append(ok(_CHECK, f"{count} set, and can be used" if given else "no ROTA_ variable is set"))
    return settings, findings


def _unknown(given: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(given.keys() - VARIABLES - _OTHERS):
        if name.startswith(SECRET_PREFIX):
            continue
        near = nearest(name, VARIABLES)
        hint = f"did you mean {near}?" if near else "see docs/reference/settings.md"
        yield warning(_CHECK, f"{name} is not a setting, and is ignored", hint)


def _refused(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Tries each variable alone, so that one error does not hide another."""
    for name in sorted((given.keys() & VARIABLES) - _TOGETHER):
        try:
            Settings.from_environment({name: given[name]})
        except SetupError as error:
            yield name, str(error)


def _contradictions(settings: Settings, given: Mapping[str, str]) -> Iterator[Finding]:
    """Settings that contradict each other."""
    if settings.server_url and "ROTA_PORT" in given and urlsplit(settings.server_url).port != settings.port:
        words = "ROTA_URL and ROTA_PORT have different ports; commands use ROTA_URL"
        yield warning(_CHECK, words, "unset one of them")
    if settings.listen_url and not settings.notify:
        yield warning(_CHECK, "ROTA_LISTEN_URL is set, but ROTA_NOTIFY=off disables it", "unset one of them")
    if settings.listen_url and not settings.database_url:
        words = "ROTA_LISTEN_URL is set without ROTA_DATABASE_URL: the embedded server is used"
        yield warning(_CHECK, words, "set both, or none")
    if settings.is_exposed:
        words = f"ROTA_HOST={settings.host} exposes the server to the network in plain text"
        yield warning(_CHECK, words, "set ROTA_TLS_CERTIFICATE and ROTA_TLS_KEY, or use a proxy with TLS")
    if settings.worker_port and settings.worker_port == settings.port:
        yield problem(_CHECK, "ROTA_WORKER_PORT and ROTA_PORT are the same", "set ROTA_WORKER_PORT to another port")
