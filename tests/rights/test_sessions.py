"""Signing in: a cookie that no script reads, that other sites can't use, and that ends with what it was made of."""

from __future__ import annotations

import re

import pytest

from serving import TOKEN
from support import job


async def sign_in(somebody, token, **options):
    """A browser that signed in, as far as its cookies go; what it was told."""
    browser = await somebody.with_token(**options)
    answer = await browser.post("/v1/session", json={"token": token})
    assert answer.status_code == 201, answer.text
    return browser, answer


async def test_a_session_is_a_secret_of_its_own_in_a_cookie_that_no_script_reads(somebody, sql):
    viewer = await somebody("viewer")
    browser, answer = await sign_in(somebody, viewer.key["key"])
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(
        r"rota_session=rotasession_\w+_[\w-]+; HttpOnly; Max-Age=\d+; Path=/; SameSite=strict", cookie
    ), cookie
    assert viewer.key["key"] not in cookie
    assert browser.cookies["rota_session"] not in str(await sql.fetch("SELECT * FROM rota.api_keys"))
    who = (await browser.get("/v1/session")).json()
    assert (who["name"], who["csrfToken"]) == ("alice", answer.json()["csrfToken"])
    assert (await browser.get("/v1/jobs")).status_code == 200


async def test_over_tls_the_cookie_is_for_this_host_and_for_tls_alone(api, somebody):
    browser = await somebody.with_token()
    answer = await browser.post("https://rota/v1/session", json={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-rota_session=")
    assert "; Secure" in cookie
    assert "domain" not in cookie.lower()


async def test_a_change_needs_the_sessions_own_csrf_token(somebody):
    key = (await somebody("submitter")).key["key"]
    browser, answer = await sign_in(somebody, key)
    _, other = await sign_in(somebody, key)
    right, wrong = answer.json()["csrfToken"], other.json()["csrfToken"]
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": wrong}, {"X-CSRF-Token": right[:-1]}):
        refused = await browser.post("/v1/jobs", json=job(), headers=headers)
        assert (refused.status_code, refused.json()["title"]) == (403, "Forbidden")
    taken = await browser.post("/v1/jobs", json=job(), headers={"X-CSRF-Token": right})
    assert taken.status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://rota.evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_of_another_site_can_neither_sign_in_nor_change(somebody, headers):
    key = (await somebody("submitter")).key["key"]
    browser, answer = await sign_in(somebody, key)
    headers = {"X-CSRF-Token": answer.json()["csrfToken"], **headers}
    assert (await browser.post("/v1/jobs", json=job(), headers=headers)).status_code == 403
    assert (await browser.post("/v1/session", json={"token": key}, headers=headers)).status_code == 403


async def test_a_bearer_token_needs_no_csrf_token(somebody):
    client = await somebody("submitter")
    answer = await client.post("/v1/jobs", json=job(), headers={"Origin": "https://elsewhere.example"})
    assert answer.status_code == 201


async def test_a_cookie_that_was_copied_is_of_no_use_after_signing_out(somebody):
    browser, answer = await sign_in(somebody, (await somebody("viewer")).key["key"])
    thief = await somebody.with_token(cookies=dict(browser.cookies))
    assert (await thief.get("/v1/jobs")).status_code == 200
    out = await browser.delete("/v1/session", headers={"X-CSRF-Token": answer.json()["csrfToken"]})
    assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (200, True)
    refused = await thief.get("/v1/jobs")
    assert (refused.status_code, refused.json()["detail"]) == (401, "the session is over; sign in again")


async def test_a_session_ends_with_the_key_it_was_made_of(api, somebody):
    viewer = await somebody("viewer")
    browser, _ = await sign_in(somebody, viewer.key["key"])
    await api.delete(f"/v1/keys/{viewer.key['keyId']}")
    assert (await browser.get("/v1/jobs")).status_code == 401


async def test_a_session_of_the_admin_ends_with_the_admin_token(api, somebody, sql):
    browser, _ = await sign_in(somebody, TOKEN)
    assert (await browser.get("/v1/keys")).status_code == 200
    await sql.execute("UPDATE rota.api_keys SET authority = sha256('another')")
    api.services.credentials.forget()
    assert (await browser.get("/v1/keys")).status_code == 401


async def test_a_session_is_over_after_a_while_and_never_outlives_its_key(api, somebody, sql):
    short = await somebody("viewer", expiresSeconds=60)
    _, answer = await sign_in(somebody, short.key["key"])
    assert int(re.search(r"Max-Age=(\d+)", answer.headers["set-cookie"])[1]) <= 60
    browser, _ = await sign_in(somebody, (await somebody("viewer")).key["key"])
    await sql.execute("UPDATE rota.api_keys SET expires_at = now() WHERE kind = 'session'")
    api.services.credentials.forget()
    assert (await browser.get("/v1/jobs")).status_code == 401


@pytest.mark.parametrize("value", ["", "x", "rotasession_x_y", "rota_x_y", "rotasession_" + "x" * 9000, "\x01"])
async def test_a_cookie_that_was_made_up_is_refused(somebody, value):
    browser = await somebody.with_token()
    answer = await browser.get("/v1/jobs", headers={"Cookie": f"rota_session={value}"})
    assert answer.status_code == 401


async def test_a_session_is_no_bearer_token_and_a_key_no_session(somebody):
    viewer = await somebody("viewer")
    browser, _ = await sign_in(somebody, viewer.key["key"])
    stranger = await somebody.with_token(browser.cookies["rota_session"])
    assert (await stranger.get("/v1/jobs")).status_code == 401
    thief = await somebody.with_token(cookies={"rota_session": viewer.key["key"]})
    assert (await thief.get("/v1/jobs")).status_code == 401


async def test_a_wrong_token_signs_nobody_in(somebody, sql):
    browser = await somebody.with_token()
    answer = await browser.post("/v1/session", json={"token": "rota_wrong"})
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert await sql.fetchval("SELECT count(*) FROM rota.api_keys") == 0


async def test_the_page_runs_its_own_script_and_nothing_else(somebody):
    answer = await (await somebody.with_token()).get("/sign-in")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert len(re.findall(r"sha256-[\w+/=]{44}'", policy)) == 2
