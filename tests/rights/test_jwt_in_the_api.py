"""JWTs at the API: the same rights as keys have, for as long as they say."""

from __future__ import annotations

import time

import httpx
import pytest
from typer.testing import CliRunner

from rota.access.jwt_verifier import TokenVerifier
from rota.cli.main import app
from rota.settings import Settings
from serving import serving
from support import job

SECRET = "a secret of at least thirty-two bytes"  # noqa: S105 - known to the tests alone
OTHER = "another secret of thirty-two bytes or so"


@pytest.fixture
async def jwt_api(database, tmp_path):
    """The API with an own secret for JWTs."""
    verifier = TokenVerifier.from_settings(Settings(jwt_secret=SECRET))
    async with serving(database, tmp_path, verifier) as client:
        yield client


def sign(*arguments, secret=SECRET):
    done = CliRunner().invoke(app, ["token", "sign", *arguments], env={"ROTA_JWT_SECRET": secret})
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()


async def ask(api, token, method="GET", path="/v1/jobs", **options):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=api._transport, base_url="http://rota", headers=headers) as client:
        return await client.request(method, path, **options)


async def test_a_token_that_was_signed_on_the_command_line_gives_its_role(jwt_api):
    token = sign("dora", "--role", "submitter", "--expires", "5m")
    made = await ask(jwt_api, token, "POST", json=job())
    assert made.status_code == 201
    assert (await ask(jwt_api, token, path=f"/v1/jobs/{made.json()['jobId']}")).json()["owner"] == "dora"
    assert (await ask(jwt_api, token, "POST", "/v1/pools/default/pause")).status_code == 403
    who = (await ask(jwt_api, token, path="/v1/session")).json()
    assert (who["name"], who["kind"]) == ("dora", "jwt")
    assert who["grants"] == [{"namespace": "default", "role": "submitter", "sees": "own"}]


async def test_a_token_means_its_own_namespace(jwt_api):
    token = sign("dora", "--role", "operator", "--namespace", "acme")
    assert (await ask(jwt_api, token)).status_code == 200
    refused = await ask(jwt_api, token, headers={"Rota-Namespace": "default"})
    assert refused.status_code == 403


@pytest.mark.parametrize(
    "forge",
    [
        lambda _token: sign("dora", "--role", "admin", secret=OTHER),
        lambda token: token[:-2] + ("AA" if token[-2:] != "AA" else "BB"),
        lambda token: ".".join(
            [token.split(".")[0], sign("eve", "--role", "admin").split(".")[1], token.split(".")[2]]
        ),
        lambda token: token.rsplit(".", 1)[0] + ".",
        lambda _token: "eyJhbGciOiJub25lIn0.eyJzdWIiOiJkb3JhIiwiZXhwIjo5OTk5OTk5OTk5fQ.",
    ],
)
async def test_a_forged_token_is_refused(jwt_api, forge):
    answer = await ask(jwt_api, forge(sign("dora", "--role", "viewer")))
    assert (answer.status_code, answer.json()["detail"]) == (401, "the token is not valid")


async def test_without_a_secret_no_token_is_taken(api):
    assert (await ask(api, sign("dora", "--role", "admin"))).status_code == 401


async def test_a_session_of_a_token_ends_with_it(jwt_api):
    token = sign("dora", "--role", "viewer", "--expires", "60s")
    async with httpx.AsyncClient(transport=jwt_api._transport, base_url="http://rota") as browser:
        answer = await browser.post("/v1/session", json={"token": token})
        assert answer.status_code == 201
        assert (await browser.get("/v1/session")).json()["name"] == "dora"
        lasts = next(iter(browser.cookies.jar)).expires
    assert lasts <= time.time() + 61


def test_signing_without_a_secret_says_what_is_missing():
    done = CliRunner().invoke(app, ["token", "sign", "dora", "--role", "viewer"], env={"ROTA_JWT_SECRET": ""})
    assert (done.exit_code, "ROTA_JWT_SECRET" in done.stderr) == (2, True)
