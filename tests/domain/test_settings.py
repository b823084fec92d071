"""Settings come from ROTA_* variables and options, and say which of them is wrong."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from rota.errors import SetupError
from rota.settings import DEFAULT_PORT, Settings


def test_without_variables_the_defaults_hold():
    settings = Settings.from_environment({})
    assert settings.home == Path.home() / ".rota"
    assert settings.url == f"http://127.0.0.1:{DEFAULT_PORT}"
    assert DEFAULT_PORT == 7682
    assert settings.worker_lease_seconds <= 6
    assert settings.notify is True


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("ROTA_HOME", "/srv/rota", "home", Path("/srv/rota")),
        ("ROTA_HOST", "0.0.0.0", "host", "0.0.0.0"),  # noqa: S104 - only a value here
        ("ROTA_PORT", "8080", "port", 8080),
        ("ROTA_DATABASE_URL", "postgresql://db/rota", "database_url", "postgresql://db/rota"),
        ("ROTA_LISTEN_URL", "postgresql://db:5433/rota", "listen_url", "postgresql://db:5433/rota"),
        ("ROTA_URL", "https://rota.example", "server_url", "https://rota.example"),
        ("ROTA_TOKEN", "secret", "given_token", "secret"),
        ("ROTA_NOTIFY", "off", "notify", False),
        ("ROTA_LOG_LEVEL", "debug", "log_level", "debug"),
        ("ROTA_LOG_JSON", "on", "log_json", True),
        ("ROTA_WORKER_LEASE_SECONDS", "2.5", "worker_lease_seconds", 2.5),
        ("ROTA_SCHEDULER_LEASE_SECONDS", "4", "scheduler_lease_seconds", 4.0),
        ("ROTA_SLOTS", "7", "slots", 7),
        ("ROTA_THREADS", "3", "threads", 3),
        ("ROTA_POOLS", "fast, slow,", "pools", ("fast", "slow")),
        ("ROTA_NAMESPACES", "one", "namespaces", ("one",)),
        ("ROTA_DRAIN_SECONDS", "0.5", "drain_seconds", 0.5),
        ("ROTA_PAYLOAD_LIMIT_BYTES", "1000", "payload_limit_bytes", 1000),
        ("ROTA_JWT_SECRET", "secret", "jwt_secret", "secret"),
        ("ROTA_JWT_KEYS", "keys.json", "jwt_keys", "keys.json"),
        ("ROTA_JWT_ISSUER", "https://sign-in.example", "jwt_issuer", "https://sign-in.example"),
        ("ROTA_JWT_AUDIENCE", "jobs", "jwt_audience", "jobs"),
        ("ROTA_JWT_LEEWAY_SECONDS", "5", "jwt_leeway_seconds", 5.0),
        ("ROTA_JWT_CLAIM", "realm_access.roles", "jwt_claim", "realm_access.roles"),
        ("ROTA_JWT_DEFAULT_ROLE", "viewer", "jwt_default_role", "viewer"),
        ("ROTA_REQUESTS_PER_SECOND", "2.5", "requests_per_second", 2.5),
        ("ROTA_JOBS_PER_SECOND", "100", "jobs_per_second", 100.0),
        ("ROTA_MOST_FAN_OUT", "50", "most_fan_out", 50),
    ],
)
def test_each_variable_sets_its_setting_and_no_other(variable, text, name, value):
    settings = Settings.from_environment({variable: text})
    defaults = Settings.from_environment({})
    changed = {
        field.name for field in fields(Settings) if getattr(settings, field.name) != getattr(defaults, field.name)
    }
    assert getattr(settings, name) == value
    assert changed == {name}


def test_an_option_wins_over_a_variable_and_one_not_given_does_not():
    environment = {"ROTA_PORT": "8080", "ROTA_SLOTS": "7"}
    settings = Settings.from_environment(environment, port=9090, slots=None)
    assert (settings.port, settings.slots) == (9090, 7)


def test_an_empty_variable_counts_as_not_set():
    assert Settings.from_environment({"ROTA_PORT": "", "ROTA_HOME": ""}).port == DEFAULT_PORT


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ROTA_PORT", "http"),
        ("ROTA_PORT", "7682.5"),
        ("ROTA_SLOTS", "many"),
        ("ROTA_WORKER_LEASE_SECONDS", "5s"),
        ("ROTA_NOTIFY", "maybe"),
        ("ROTA_JOBS_PER_SECOND", "fast"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_variable(variable, text):
    with pytest.raises(SetupError) as refused:
        Settings.from_environment({variable: text})
    assert variable in str(refused.value)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("TRUE", True),
        ("1", True),
        ("yes", True),
        ("Off", False),
        ("false", False),
        ("0", False),
        ("no", False),
    ],
)
def test_a_switch_understands_the_usual_words(text, value):
    assert Settings.from_environment({"ROTA_NOTIFY": text}).notify is value


@pytest.mark.parametrize("text", ["-1", "0.0001", "nan", "inf", "2000000"])
def test_a_rate_that_no_bucket_can_have_is_refused(text):
    with pytest.raises(SetupError, match="ROTA_REQUESTS_PER_SECOND must be 0"):
        Settings.from_environment({"ROTA_REQUESTS_PER_SECOND": text})


def test_a_relative_home_becomes_absolute_and_a_tilde_is_expanded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Settings.from_environment({"ROTA_HOME": "here"}).home == tmp_path / "here"
    assert Settings.from_environment({"ROTA_HOME": "~/there"}).home == Path.home() / "there"


def test_scripts_and_token_live_in_the_home(tmp_path):
    settings = Settings.from_environment({}, home=tmp_path)
    assert settings.scripts == tmp_path / "scripts"
    assert settings.admin_token_file == tmp_path / "admin.token"


def test_the_token_is_the_given_one_else_the_admin_token_else_none(tmp_path):
    settings = Settings(home=tmp_path)
    assert settings.token is None
    settings.admin_token_file.write_text("kept\n")
    found = [settings.token, replace(settings, given_token="given").token]  # noqa: S106 - a test's own
    assert found == ["kept", "given"]


def test_a_given_token_does_not_show_when_settings_are_printed():
    assert "hidden" not in repr(Settings(given_token="hidden"))  # noqa: S106 - a test's own


def test_a_given_server_wins_over_host_and_port():
    assert Settings(server_url="https://rota.example", port=1).url == "https://rota.example"
