"""What is secret of a destination shows nowhere, and a copy of the database does not have it."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from receivers import is_signed, receiver
from structlog.testing import capture_logs

from rota.destinations.definitions import OVERLAP, rotated
from rota.destinations.sealing import DestinationSecrets, Sealer, SealError, SigningSecret
from rota.settings import Settings

SECRET = "whsec_" + "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
PARTS = ("s3cret-path", "s3cret-query", "s3cret-password", SECRET, SECRET.removeprefix("whsec_"))


def hidden_in(text):
    return not [part for part in PARTS if part in text]


async def everything(sql):
    """All rows of all tables, as text."""
    tables = await sql.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'rota'")
    rows = []
    for table in tables:
        rows += [str(dict(row)) for row in await sql.fetch(f"SELECT t.*, t::text AS whole FROM rota.{table[0]} AS t")]
    return "\n".join(rows)


async def test_secrets_are_in_no_answer_no_row_and_no_log(api, sending, record, sql):
    with capture_logs() as logs:
        async with receiver() as hook:
            hook.status = 500
            url = hook.url.replace("http://", "http://someone:s3cret-password@")
            answers = [await api.put("/v1/destinations/pager", json={"url": url, "secret": SECRET})]
            await record()
            await sending()
            answers.append(await api.post("/v1/destinations/pager/test"))
        await record()
        await sending()
        answers += [
            await api.put("/v1/destinations/pager", json={"kinds": ["worker."], "secret": SECRET}),
            await api.put("/v1/destinations/pager", json={"url": f"ftp://{url}", "secret": SECRET}),
            await api.put("/v1/destinations/pager", json={"url": f"{url}\n", "secret": SECRET, "other": url}),
            await api.put("/v1/destinations/pager", json={"secret": f"{SECRET}!"}),
            await api.put("/v1/destinations/other", json={"url": url, "kind": "apprise", "secret": SECRET}),
            await api.get("/v1/destinations"),
            await api.get("/v1/destinations/pager"),
            await api.get("/v1/destinations/pager/deliveries"),
            await api.post("/v1/destinations/pager/test"),
            await api.get("/v1/events"),
            await api.get("/v1/audit"),
            await api.delete("/v1/destinations/pager"),
        ]
        assert (await api.put("/v1/destinations/again", json={"url": url, "secret": SECRET})).status_code == 200
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    assert [answer.status_code for answer in answers[3:6]] == [400, 400, 400]
    for answer in answers:
        assert hidden_in(answer.text), answer.text
    assert "put_destination" in answers[-2].text
    assert hidden_in(str(logs))
    rows = await everything(sql)
    assert "again" in rows
    assert hidden_in(rows)


async def test_a_secret_that_is_made_is_shown_once(api, hook, put):
    made = await put("pager", hook.url)
    assert made["secret"].startswith("whsec_")
    assert made["address"] == f"http://127.0.0.1:{hook.port}"
    assert "secret" not in await put("pager", hook.url)
    assert "secret" not in (await api.get("/v1/destinations/pager")).json()


async def test_for_a_day_after_a_rotation_both_secrets_sign(api, put, record, sending, hook):
    first = (await put("pager", hook.url))["secret"]
    answer = await api.post("/v1/destinations/pager/rotate")
    second = answer.json()["secret"]
    assert second != first
    await record()
    await sending()
    assert all(is_signed(*hook.requests[0], secret) for secret in (first, second))
    third = (await api.post("/v1/destinations/pager/rotate")).json()["secret"]
    await record()
    await sending()
    assert [is_signed(*hook.requests[1], secret) for secret in (first, second, third)] == [False, True, True]
    assert (await api.post("/v1/destinations/nothing/rotate")).status_code == 404


def test_a_secret_that_was_replaced_long_ago_is_dropped():
    old = SigningSecret("old", datetime.now(UTC) - OVERLAP)
    assert [one.text for one in rotated((SigningSecret("now"), old), "new")] == ["new", "now"]
    assert [one.text for one in rotated((old,), "new")] == ["new"]


def test_what_is_sealed_opens_for_its_destination_and_its_keys_alone():
    what, mine, other = DestinationSecrets("https://x/y"), uuid4(), uuid4()
    old, new = Sealer(lambda: ["k" * 32]), Sealer(lambda: ["n" * 32, "k" * 32])
    sealed = old.seal(mine, what)
    assert b"https" not in sealed
    assert new.open(mine, sealed) == what
    with pytest.raises(SealError):
        old.open(other, sealed)
    with pytest.raises(SealError, match="ROTA_DESTINATION_KEY"):
        old.open(mine, new.seal(mine, what))
    assert "https" not in repr(what)
    assert "old" not in repr(SigningSecret("old"))


def test_a_home_keeps_its_key(tmp_path):
    one, two = Sealer.of(Settings(home=tmp_path)), Sealer.of(Settings(home=tmp_path))
    place = uuid4()
    assert two.open(place, one.seal(place, DestinationSecrets("u"))).url == "u"
    assert (tmp_path / "destination.key").stat().st_mode & 0o077 == 0


async def test_a_destination_that_was_sealed_with_another_key_says_so(api, put, sql, hook, record, sending):
    await put("pager", hook.url)
    await sql.execute("UPDATE rota.destinations SET sealed = sealed || '\\x00'")
    await record()
    await sending()
    (item,) = (await api.get("/v1/destinations/pager/deliveries")).json()["items"]
    assert "ROTA_DESTINATION_KEY" in item["error"]
    assert (await api.put("/v1/destinations/pager", json={"kinds": ["pool."]})).status_code == 400
    await put("pager", hook.url, secret=SECRET)
    assert (await api.post("/v1/destinations/pager/test")).json()["delivered"]
