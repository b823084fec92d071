"""`rota token`, `rota whoami` and `rota audit`, against a real server."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from listening import listening
from rota.cli.main import app
from serving import TOKEN


@pytest.fixture
async def rota(api, tmp_path):
    """Runs a command: await rota("token", "list"); token= and namespace= say as whom and where."""
    async with listening(api.services) as server:

        async def run(*arguments, token=TOKEN, namespace=None):
            environment = {"ROTA_URL": server.url, "ROTA_TOKEN": token, "ROTA_HOME": str(tmp_path), "NO_COLOR": "1"}
            environment["ROTA_NAMESPACE"] = namespace or ""
            return await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=environment)

        yield run


async def test_a_key_is_made_used_listed_and_revoked(rota):
    made = await rota("token", "create", "billing", "--role", "submitter", "--expires", "90d")
    assert made.exit_code == 0, made.stderr
    key = made.stdout.strip()
    assert "Save it now" in made.stderr
    who = await rota("whoami", token=key)
    assert who.stdout.splitlines()[0] == "billing (key)"
    assert "submitter" in who.stdout
    listed = await rota("token", "list")
    assert key.rsplit("_", 1)[0][:15] in listed.stdout
    assert key not in listed.stdout
    submitted = await rota("submit", "hello", "--task", "rota.echo", token=key)
    assert submitted.exit_code == 0, submitted.stderr
    for given in (key, "_".join(key.split("_")[:2])):
        revoked = await rota("token", "revoke", given)
        assert revoked.stdout.strip().endswith("(billing) is revoked"), revoked.stderr
    refused = await rota("jobs", token=key)
    assert refused.exit_code == 1
    assert "in ROTA_TOKEN: the key is unknown, has expired or was revoked. Set it to" in refused.stderr


async def test_a_role_that_is_not_enough_is_told(rota):
    key = (await rota("token", "create", "eyes", "--role", "viewer")).stdout.strip()
    done = await rota("pool", "default", "--pause", token=key)
    assert done.exit_code == 2
    assert "your role in namespace 'default' is viewer, which may not operate" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("token", "create", "x"), "--role"),
        (("token", "create", "x", "--role", "root"), "root"),
        (("token", "create", "x", "--role", "viewer", "--scope", "all"), "all"),
        (("token", "create", "x", "--role", "viewer", "--expires", "soon"), "--expires"),
        (("token", "create", "x", "--role", "viewer", "--owner", ""), "--owner"),
        (("token", "create", "x", "--role", "viewer", "--namespace", "a b"), "--namespace"),
        (("token", "revoke", "rota_0000000000"), "no such key"),
        (("token", "revoke", "nonsense"), "KEY"),
        (("audit", "--start", "yesterday"), "--start"),
    ],
)
async def test_what_can_not_be_is_refused_with_exit_code_2(rota, arguments, said):
    done = await rota(*arguments)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


async def test_the_trail_is_shown_for_a_namespace(rota):
    await rota("token", "create", "anna", "--role", "admin", "--namespace", "acme")
    assert "No entry matches in default." in (await rota("audit", namespace="default")).stdout
    shown = await rota("audit", namespace="acme")
    assert "create_key" in shown.stdout
    (entry,) = json.loads((await rota("audit", "--json", "--namespace", "acme")).stdout)["items"]
    assert (entry["actor"], entry["request"]["name"], entry["status"]) == ("admin", "anna", 201)


async def test_a_key_that_may_only_submit_is_told_that_it_did(rota, sql):
    key = (await rota("token", "create", "hook", "--role", "submitter", "--scope", "submit")).stdout.strip()
    done = await rota("submit", "hello", "--task", "rota.echo", "--wait", token=key)
    run_id = await sql.fetchval("SELECT 'run_' || replace(id::text, '-', '') FROM rota.runs")
    assert done.exit_code == 1
    assert f"{run_id} was submitted, but this key can't wait for it" in done.stderr


async def test_a_namespace_that_no_worker_serves_is_named(rota, engine):
    await engine.join(engine.broker())
    await rota("submit", "hello", "--task", "rota.echo", namespace="acmee")
    (run,) = json.loads((await rota("runs", "--json", namespace="acmee")).stdout)["items"]
    said = await rota("why", run["runId"], namespace="acmee")
    assert "no live worker serves namespace acmee" in said.stdout


def test_a_binding_to_what_is_no_namespace_is_refused(tmp_path):
    arguments = ["database-roles", "--worker", "w", "--namespaces", "Ac me"]
    done = CliRunner().invoke(app, arguments, env={"ROTA_HOME": str(tmp_path)})
    assert (done.exit_code, "--namespaces" in done.stderr) == (2, True), done.stderr
