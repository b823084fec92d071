"""Calls about destinations: what they accept, who may make them, and where messages may go."""

from __future__ import annotations

import asyncio
import sys

import pytest
from receivers import receiver

from rota.destinations import apprise_messages
from support import leave_out


async def test_a_test_message_says_how_it_went(api, put, hook):
    await put("pager", hook.url)
    answer = (await api.post("/v1/destinations/pager/test")).json()
    assert (answer["delivered"], answer["answer"]) == (True, 200)
    assert hook.kinds == ["destination.test"]
    hook.status = 302
    answer = (await api.post("/v1/destinations/pager/test")).json()
    assert (answer["delivered"], answer["error"]) == (False, "answered 302; redirects are not followed")
    assert (await api.post("/v1/destinations/nothing/test")).status_code == 404


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest", "http://127.0.0.2:1/", "http://[::1]:9/", "http://10.0.0.1/"]
)
async def test_messages_go_where_the_settings_let_http_jobs_go(api, put, url):
    await put("inside", url)
    answer = (await api.post("/v1/destinations/inside/test")).json()
    assert answer["error"] == "ROTA_HTTP_ALLOW does not let its address be called"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": "ftp://example.com"},
        {"url": "https://"},
        {"url": "https://example.com", "kinds": []},
        {"url": "https://example.com", "kinds": ["Worker"]},
        {"url": "https://example.com", "leastSeverity": "huge"},
        {"url": "https://example.com", "secret": "short"},
        {"url": "https://example.com", "kind": "mail"},
    ],
)
async def test_what_can_not_be_is_refused(api, body):
    answer = await api.put("/v1/destinations/x", json=body)
    assert answer.status_code == 400, answer.text
    assert (await api.get("/v1/destinations/x")).status_code == 404


async def test_names_are_checked_and_lists_have_pages(api, put):
    assert (await api.put("/v1/destinations/a%20b", json={"url": "https://example.com"})).status_code == 400
    for name in ("c", "a", "b"):
        await put(name, "https://example.com")
    page = (await api.get("/v1/destinations?limit=2")).json()
    assert [item["name"] for item in page["items"]] == ["a", "b"]
    rest = (await api.get("/v1/destinations", params={"cursor": page["nextCursor"]})).json()
    assert [item["name"] for item in rest["items"]] == ["c"]


async def test_what_is_left_out_stays_as_it_is(api, put, hook):
    await put("pager", hook.url, kinds=["worker."], leastSeverity="warning")
    answer = (await api.put("/v1/destinations/pager", json={"enabled": False})).json()
    assert (answer["kinds"], answer["leastSeverity"], answer["enabled"]) == (["worker."], "warning", False)
    assert (await api.post("/v1/destinations/pager/test")).json()["delivered"]


async def test_operators_have_their_namespace_and_admins_of_all_the_installation(api, somebody, put, record, sending):
    operator = await somebody("operator", owner="olga", namespace="shop")
    submitter = await somebody("submitter", owner="sam", namespace="shop")
    admin = await somebody("admin", owner="ada", namespace="shop")
    async with receiver() as ours, receiver() as theirs, receiver() as whole:
        await put("pager", theirs.url, client=operator, kinds=["pool.", "worker.", "scheduler."])
        await put("pager", ours.url, kinds=["pool.", "worker.", "scheduler."])
        await put("pager", whole.url, everywhere=True, kinds=["pool.", "worker.", "scheduler."])
        for method, path in (
            ("GET", ""),
            ("GET", "/pager"),
            ("PUT", "/pager"),
            ("DELETE", "/pager"),
            ("POST", "/pager/test"),
            ("POST", "/pager/rotate"),
            ("GET", "/pager/deliveries"),
        ):
            body = {"json": {"url": ours.url}} if method == "PUT" else {}
            url = f"/v1/destinations{path}"
            assert (await submitter.request(method, url, **body)).status_code == 403
            for client in (operator, admin):
                assert (await client.request(method, f"{url}?everywhere=true", **body)).status_code == 403
        await record("pool.paused", "in shop", "shop")
        await record("pool.paused", "in default", "default")
        await record("scheduler.started", "s", "*")
        await sending()
        assert [event["subject"] for event in theirs.events] == ["in shop"]
        assert [event["subject"] for event in ours.events] == ["in default"]
        assert [event["subject"] for event in whole.events] == ["in shop", "in default", "s"]
        audit = (await api.get("/v1/audit", headers={"Rota-Namespace": "shop"})).json()["items"]
        assert {(entry["action"], entry["actor"]) for entry in audit} >= {("put_destination", "olga")}


async def test_the_installation_hears_of_a_worker_once_and_each_namespace_of_what_is_its_own(
    put, sending, sql, somebody
):
    operator = await somebody("operator", owner="olga", namespace="shop")
    async with receiver() as whole, receiver() as shop:
        await put("all", whole.url, everywhere=True, kinds=["worker."])
        await put("mine", shop.url, client=operator, kinds=["worker."])
        await sql.execute(
            "INSERT INTO rota.workers (id, host, pid, namespaces, pools, tasks, slots, lease)"
            " VALUES (gen_random_uuid(), 'h', 1, '{shop,billing}', '{default}', '{t}', 1, '5s')"
        )
        await sending()
        assert [event["data"]["namespaces"] for event in whole.events] == [["shop", "billing"]]
        assert [event["data"]["namespaces"] for event in shop.events] == [["shop"]]
        assert "billing" not in str(shop.requests)


async def test_a_namespace_has_a_bounded_number_of_destinations(api, put, sql):
    await put("first", "https://example.com")
    await sql.execute(
        "INSERT INTO rota.destinations (id, namespace, name, kind, shown, sealed, kinds, changed_by, position)"
        " SELECT gen_random_uuid(), 'default', n::text, 'webhook', '', '', '{}', '', 0 FROM generate_series(1, 99) AS n"
    )
    assert (await api.put("/v1/destinations/more", json={"url": "https://example.com"})).status_code == 409
    await put("first", "https://example.com/2")


@pytest.fixture
def apprise():
    if not apprise_messages.find_spec("apprise"):
        leave_out("Apprise is not installed")


async def test_apprise_takes_messages_for_people(api, put, record, sending, hook, apprise):
    made = await put("people", f"json://127.0.0.1:{hook.port}/s3cret-path", kind="apprise")
    assert made["address"] == "json://"
    assert "secret" not in made
    await record(subject="lag", data='{"severity": "critical", "rule": "lag of mail"}')
    await sending()
    (message,) = hook.events
    assert message["title"] == "Rota: alert.fired lag"
    assert message["type"] == "failure"
    assert "rule: lag of mail" in message["message"]
    hook.status = 503
    assert (await api.post("/v1/destinations/people/test")).json()["error"] == "answered 503"


@pytest.mark.parametrize("url", ["nonsense://x", "syslog://", "not an address"])
async def test_apprise_addresses_are_checked_first(api, url, apprise):
    answer = await api.put("/v1/destinations/people", json={"kind": "apprise", "url": url})
    assert answer.status_code == 400
    assert "url" in answer.text


async def test_apprise_reaches_no_address_that_http_jobs_may_not(api, put, apprise):
    await put("inside", "json://127.0.0.2:9/x", kind="apprise")
    answer = (await api.post("/v1/destinations/inside/test")).json()
    assert answer["error"] == "ROTA_HTTP_ALLOW does not let its address be called"


FORBIDDEN = """
import os, socket, subprocess, sys
from rota.destinations.apprise_process import ProcessGuard
from rota.http_addresses import AddressGuard
sys.addaudithook(ProcessGuard(AddressGuard(["127.0.0.1"])))
import json.tool  # libraries can still be read
for act in (
    lambda: open(sys.argv[1]).read(),
    lambda: os.open(sys.argv[1], os.O_RDONLY),
    lambda: open(os.devnull, "w"),
    lambda: open("/etc/passwd").read(),
    lambda: os.system("true"),
    lambda: subprocess.run(["true"]),
    lambda: socket.socket(socket.AF_UNIX).connect("/tmp/x"),
    lambda: socket.create_connection(("10.0.0.1", 9), 1),
    lambda: socket.socket().connect(("localhost", 9)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("169.254.169.254", 9)),
):
    try:
        act()
    except PermissionError:
        print("refused")
    except OSError as error:
        print("refused" if "ROTA_HTTP_ALLOW" in str(error) else repr(error))
"""


async def test_the_process_of_apprise_reads_no_file_starts_nothing_and_goes_where_it_may(tmp_path):
    secret = tmp_path / "admin.token"
    secret.write_text("s3cret")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", FORBIDDEN, str(secret)), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.decode().split("\n") == ["refused"] * 10 + [""]


async def test_without_apprise_the_answer_says_what_to_install(api, monkeypatch):
    monkeypatch.setattr(apprise_messages, "find_spec", lambda _name: None)
    answer = await api.put("/v1/destinations/people", json={"kind": "apprise", "url": "slack://a/b/c"})
    assert answer.status_code == 400
    assert "rota[alerts]" in answer.text
