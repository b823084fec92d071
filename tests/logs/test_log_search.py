"""Searching logs: wherever they are, whoever asks, page by page."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from log_writing import ago, copied, forget_chunks, found, leader_of, plain, run_at, texts, write

from rota.api import log_search
from rota.domain import log_index
from rota.store.logs.blocks import LogBlocks


async def test_a_text_is_found_wherever_its_log_is(engine, sql):
    await write(engine, ago(days=3), "a needle of an older day")
    await copied(engine)
    await forget_chunks(sql)
    await write(engine, ago(hours=1), "a needle that was copied")
    await copied(engine)
    await write(engine, ago(minutes=1), "a needle that waits for its copy")
    assert await texts(engine.api, "needle") == [
        "a needle that waits for its copy",
        "a needle that was copied",
        "a needle of an older day",
    ]


async def test_what_a_run_writes_is_found_while_it_goes_on(engine, sql):
    await engine.submit(task="rota.echo")
    broker = engine.broker()
    worker_id = await engine.join(broker, "rota.echo")
    await sql.execute("UPDATE rota.live_runs SET worker_id = $1, claim = 1, claimed_at = now()", worker_id)
    run_id = await sql.fetchval("SELECT id FROM rota.live_runs")
    await write(engine, run_id, "still at the needle", last=False)
    assert await texts(engine.api, "needle") == ["still at the needle"]


async def test_the_log_of_a_killed_worker_is_found_a_minute_later(engine, sql):
    run_id = ago(minutes=5)
    await write(engine, run_id, "the last words of a worker", last=False)
    await sql.execute(
        "INSERT INTO rota.attempts (namespace, run_id, claim, number, finished_at, outcome) "
        "VALUES ('default', $1, 1, 1, now() - interval '2 minutes', 'lost')",
        run_id,
    )
    await copied(engine)
    assert await texts(engine.api, "last words") == ["the last words of a worker"]


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("Order 47110815 was paid", "order 4711"),
        ("Order 47110815 was paid", "0815"),
        ("customer 9f8e7d6c-5b4a-4321-8765-0fedcba98765", "5B4A-4321"),
        ("50% of a_b (100) [x]* \\d+ .* ^$ | 'q' \"p\"", "a_b (100) [x]* \\d+ .* ^$ | 'q' \"p\""),
        ("die Straße nach Ägypten", "STRASSE NACH ägypten"),
        (
            "\u039b\u039f\u0393\u039f\u03a3 \u039b\u039f\u0393\u039f\u03a5",
            "\u03bb\u03bf\u03b3\u03bf\u03c2",
        ),  # a sigma at the end
        ("İstanbul und Kelvin: 300 \u212a", "300 k"),
        ("漢字を探す", "字を"),
        ("ab cd", "b c"),
        ("a\ttab", "a\ttab"),
        ("🙂 smile", "🙂"),
    ],
)
async def test_any_part_of_a_line_is_found_in_any_case(engine, sql, is_copied, line, text):
    await write(engine, ago(minutes=1), "something else", line)
    if is_copied:
        await copied(engine)
        await forget_chunks(sql)
    assert await texts(engine.api, text) == [line]
    assert await texts(engine.api, f"{text}?!") == []


@pytest.mark.parametrize("is_copied", [False, True])
async def test_time_and_stream_of_a_line_are_not_searched(engine, is_copied):
    await write(engine, ago(minutes=1), "something")
    if is_copied:
        await copied(engine)
    assert await texts(engine.api, "2026-01") == []
    assert await texts(engine.api, "stdout") == []


async def test_highlights_and_context_are_shown(engine):
    await write(engine, ago(minutes=1), *(f"line {number}" for number in range(10)), "Straße, STRASSE")
    (line,) = await found(engine.api, "line 5", context=2)
    assert (line["highlights"], line["line"]) == ([[0, 6]], 6)
    assert (line["before"], line["after"]) == (["line 3", "line 4"], ["line 6", "line 7"])
    (line,) = await found(engine.api, "strasse")
    assert [line["text"][begin:end] for begin, end in line["highlights"]] == ["Straße", "STRASSE"]
    (line,) = await found(engine.api, "line 0", context=20)
    assert ("before" in line, len(line["after"])) == (False, 10)


async def test_pages_have_every_line_once_while_logs_move_to_object_storage(engine, sql, monkeypatch):
    monkeypatch.setattr(log_index, "BLOCK_BYTES", 300)
    random = Random(1)
    wanted = []
    for number in range(60):
        run_id = ago(seconds=random.randrange(600))
        lines = [f"needle {number} {at}" if random.random() < 0.5 else "hay" for at in range(6)]
        wanted.append((run_id, [line for line in lines if line != "hay"]))
        await write(engine, run_id, *lines)
        if number == 25:
            await copied(engine)
    expected = [line for _, lines in sorted(wanted, reverse=True) for line in lines]
    seen, cursor = [], None
    while True:
        query = {"search": "needle", "limit": random.randint(1, 7)} | ({"cursor": cursor} if cursor else {})
        page = (await engine.api.get("/v1/logs", params=query)).json()
        seen += [item["text"] for item in page["items"]]
        cursor = page["nextCursor"]
        if len(seen) > 50:
            await copied(engine)
            await forget_chunks(sql)
        if not cursor:
            break
    assert seen == expected


async def test_many_blocks_of_one_moment_are_searched_to_their_end(engine, sql, monkeypatch):
    monkeypatch.setattr(log_index, "BLOCK_BYTES", 1)
    moment = datetime.now(UTC) - timedelta(minutes=3)
    runs = [run_at(moment + timedelta(milliseconds=number)) for number in range(50)]
    for number, run_id in enumerate(runs):
        await write(engine, run_id, f"needle {number}")
    await copied(engine)
    # Each of them is as wide as all: no round sees the end of one before it has seen all.
    await sql.execute("CREATE TABLE wide AS SELECT * FROM rota.log_blocks")
    await sql.execute("DELETE FROM rota.log_blocks")
    await sql.execute(
        "INSERT INTO rota.log_blocks (namespace, last_run, blob, first, length, first_run, owner, members, filter) "
        "SELECT namespace, $1, blob, first, length, $2, owner, members, filter FROM wide",
        max(runs),
        min(runs),
    )
    assert await texts(engine.api, "needle", limit=7) == [f"needle {number}" for number in reversed(range(50))]


async def test_only_runs_planned_in_the_time_are_searched(engine):
    moment = datetime.now(UTC)
    for minutes in (10, 20, 30):
        await write(engine, run_at(moment - timedelta(minutes=minutes)), f"needle {minutes}")
    await copied(engine)
    times = {
        "startTime": (moment - timedelta(minutes=25)).isoformat(),
        "endTime": (moment - timedelta(minutes=15)).isoformat(),
    }
    assert await texts(engine.api, "needle", **times) == ["needle 20"]


@pytest.mark.parametrize("is_copied", [False, True])
async def test_filters_choose_runs_and_lines(engine, is_copied):
    one = await engine.submit(task="one", name="first", tags=["red", "blue"])
    other = await engine.submit(task="other", name="second", pool="far")
    await write(engine, plain(one), "needle of one")
    await write(engine, plain(other), "ERROR needle of other", stream="log")
    if is_copied:
        await copied(engine)
    job_id = one.replace("run_", "job_")
    for query in ({"task": "one"}, {"name": "first"}, {"tag": "blue"}, {"jobId": job_id}, {"runId": one}):
        assert await texts(engine.api, "needle", **query) == ["needle of one"], query
    for query in ({"pool": "far"}, {"stream": "log"}, {"level": "error"}, {"runId": other, "task": "other"}):
        assert await texts(engine.api, "needle", **query) == ["ERROR needle of other"], query
    for query in ({"task": "none"}, {"task": "one", "pool": "far"}, {"level": "info"}, {"owner": "stranger"}):
        assert await texts(engine.api, "needle", **query) == [], query


@pytest.mark.parametrize("is_copied", [False, True])
async def test_owners_and_tenants_find_their_own_lines_only(engine, somebody, is_copied):
    clients = {}
    for owner, namespace in (("alice", "default"), ("bob", "default"), ("alice", "other")):
        client = clients[owner, namespace] = await somebody("submitter", owner=owner, namespace=namespace)
        answer = await client.post("/v1/jobs", json={"name": "x", "scheduleType": "immediate", "task": "t"})
        await write(engine, plain(answer.json()["runId"]), f"needle of {owner} in {namespace}", namespace=namespace)
    if is_copied:
        await copied(engine)
    for (owner, namespace), client in clients.items():
        assert await texts(client, "needle") == [f"needle of {owner} in {namespace}"]
        assert await texts(client, "needle", owner="bob" if owner == "alice" else "alice") == []
    assert await texts(engine.api, "needle") == ["needle of bob in default", "needle of alice in default"]


async def test_one_owner_does_not_learn_from_cursors_what_others_have_written(engine, somebody, monkeypatch):
    monkeypatch.setattr(log_search, "_SEARCH_SECONDS", 0.0)  # each page ends where it can
    monkeypatch.setattr(log_index, "BLOCK_BYTES", 1)
    alice, bob = await somebody("submitter", owner="alice"), await somebody("submitter", owner="bob")
    for _ in range(30):
        answer = await bob.post("/v1/jobs", json={"name": "x", "scheduleType": "immediate", "task": "t"})
        await write(engine, plain(answer.json()["runId"]), "needle")
    await copied(engine)
    for text in ("needle", "absent"):
        page = (await alice.get("/v1/logs", params={"search": text})).json()
        assert (page["items"], page["nextCursor"]) == ([], None)


async def test_logs_of_runs_that_are_gone_are_for_those_who_see_everything(engine, somebody):
    await write(engine, ago(days=1), "needle of a run that history has dropped")
    await copied(engine)
    assert len(await texts(engine.api, "needle")) == 1
    alice = await somebody("submitter", owner="alice")
    for query in ({}, {"owner": "alice"}, {"owner": "bob"}):
        assert await texts(alice, "needle", **query) == []


async def test_ids_that_others_chose_stay_unknown(engine, somebody):
    await engine.submit(jobId="chosen-by-another")
    alice = await somebody("submitter", owner="alice")
    for job in ("chosen-by-another", "never-chosen"):
        assert await texts(alice, "needle", jobId=job) == []


async def test_blocks_of_one_owner_hold_nothing_of_others(engine, somebody, sql):
    for owner in ("alice", "bob", "carol"):
        client = await somebody("submitter", owner=owner)
        for _ in range(10):
            answer = await client.post("/v1/jobs", json={"name": "x", "scheduleType": "immediate", "task": "t"})
            await write(engine, plain(answer.json()["runId"]), f"word of {owner}")
    await copied(engine)
    rows = await sql.fetch("SELECT owner, blob, first, length FROM rota.log_blocks")
    assert {row["owner"] for row in rows} == {"alice", "bob", "carol"}
    for row in rows:
        body = (await engine.blobs.get_piece(row["blob"], row["first"], row["length"])).decode()
        assert {line.split()[-1] for line in body.splitlines()} == {row["owner"]}


async def test_a_search_that_takes_long_goes_on_with_the_next_page(engine, monkeypatch):
    monkeypatch.setattr(log_search, "_SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(log_index, "BLOCK_BYTES", 1)
    for minutes in range(25):
        await write(engine, ago(minutes=minutes), f"needle {minutes}")
    await copied(engine)
    page = (await engine.api.get("/v1/logs", params={"search": "needle"})).json()
    assert len(page["items"]) < 25
    searched = datetime.fromisoformat(page["searchedTo"])
    assert datetime.now(UTC) - timedelta(minutes=25) < searched < datetime.now(UTC)
    assert await texts(engine.api, "needle") == [f"needle {minutes}" for minutes in range(25)]


async def test_words_shorter_than_what_is_indexed_are_found_too(engine):
    await write(engine, ago(minutes=1), "an ox is here")
    await copied(engine)
    assert await texts(engine.api, "ox") == ["an ox is here"]


async def test_blocks_without_the_text_are_not_read(engine, monkeypatch):
    for minutes in range(25):
        await write(engine, ago(minutes=minutes), f"hay {minutes * 7919}", "needle" if minutes == 12 else "straw")
    await copied(engine)
    reads = []
    get_piece = engine.blobs.get_piece

    async def counted(*piece):
        reads.append(piece)
        return await get_piece(*piece)

    monkeypatch.setattr(engine.blobs, "get_piece", counted)
    assert len(await texts(engine.api, "needle")) == 1
    assert len(reads) == 1


async def test_an_object_that_is_gone_hides_its_own_lines_only(engine, sql):
    for number in range(2):
        await write(engine, ago(minutes=number), f"needle {number}")
    await copied(engine)
    await forget_chunks(sql)
    await engine.blobs.delete(await sql.fetchval("SELECT blob FROM rota.log_blocks ORDER BY last_run LIMIT 1"))
    assert await texts(engine.api, "needle") == ["needle 0"]


async def test_two_uploaders_at_once_show_each_line_once(engine):
    runs = [ago(minutes=number) for number in range(30)]
    for number, run_id in enumerate(runs):
        await write(engine, run_id, f"needle {number}")
    keeper = (await leader_of(engine)).log_keeper
    rows = await keeper._logs.ended(500, 10**6)
    await keeper._keep(rows)
    await keeper._keep(rows)
    assert await texts(engine.api, "needle") == [f"needle {number}" for number in range(30)]


async def _as_an_older_release_would(engine, sql):
    """Copies what has ended, without blocks."""
    await copied(engine)
    await sql.execute("CREATE TABLE before AS SELECT * FROM rota.kept_logs")
    await sql.execute("DELETE FROM rota.kept_logs; DELETE FROM rota.log_blocks")
    await sql.execute(
        "INSERT INTO rota.kept_logs (namespace, run_id, claim, attempt, position, blob, first, length) "
        "SELECT namespace, run_id, claim, attempt, position, blob, first, length FROM before"
    )


async def _before_the_upgrade(sql):
    """What is there was copied before the index came: the migration saw it, and no trigger did."""
    await sql.execute("DELETE FROM rota.unindexed_logs")
    await sql.execute("UPDATE rota.log_walk SET ended = false")


@pytest.mark.parametrize("was_there", [True, False])
async def test_logs_without_blocks_are_indexed_afterwards(engine, sql, was_there):
    """Those from before the upgrade, and those that an older scheduler copies beside newer ones."""
    for number in range(45):
        await write(engine, ago(days=number % 5, minutes=number), f"needle {number}")
    await _as_an_older_release_would(engine, sql)
    await forget_chunks(sql)
    if was_there:
        await _before_the_upgrade(sql)
    page = (await engine.api.get("/v1/logs", params={"search": "needle"})).json()
    assert (page["items"], page["indexing"]) == ([], True)
    await (await leader_of(engine)).log_indexer.catch_up()
    assert sorted(await texts(engine.api, "needle")) == sorted(f"needle {number}" for number in range(45))
    page = (await engine.api.get("/v1/logs", params={"search": "needle"})).json()
    assert not page.get("indexing")


async def test_two_indexers_and_one_that_dies_lose_no_log(engine, sql, monkeypatch):
    for number in range(30):
        await write(engine, ago(minutes=number), f"needle {number}")
    await _as_an_older_release_would(engine, sql)
    await _before_the_upgrade(sql)
    scheduler = await leader_of(engine)
    move = LogBlocks.move_walk

    async def die(*_arguments):
        raise RuntimeError("killed")

    monkeypatch.setattr(LogBlocks, "move_walk", die)
    with pytest.raises(RuntimeError):
        await scheduler.log_indexer.tick()

    async def twice(self, *arguments):
        await move(self, *arguments)
        await move(self, *arguments)  # another had read the same page

    monkeypatch.setattr(LogBlocks, "move_walk", twice)
    await scheduler.log_indexer.catch_up()
    assert await texts(engine.api, "needle") == [f"needle {number}" for number in range(30)]


async def test_the_index_stays_within_its_budget(engine, sql):
    random = Random(2)
    for number in range(40):
        await write(engine, ago(seconds=number), *(f"{random.getrandbits(256):x}" for _ in range(200)))
    await copied(engine)
    row = await sql.fetchrow(
        "SELECT sum(length) AS text, sum(octet_length(filter)) AS filter, sum(octet_length(members)) AS members, "
        "count(*) AS blocks FROM rota.log_blocks"
    )
    assert row["filter"] <= row["text"] / 4 + 64 * row["blocks"]
    assert row["members"] == 40 * 30


async def test_found_lines_can_be_streamed_as_json_lines(engine):
    for number in range(30):
        await write(engine, ago(minutes=number), *(f"needle {number} {at}" for at in range(40)))
    await copied(engine)
    answer = await engine.api.get("/v1/logs", params={"search": "needle", "format": "ndjson"})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["text"] for line in lines] == [f"needle {number} {at}" for number in range(30) for at in range(40)]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"context": "21"}, "context"),
        ({"context": "-1"}, "context"),
        ({"level": "loud"}, "level"),
        ({"stream": "x"}, "stream"),
        ({"format": "xml"}, "format"),
        ({"runId": "x"}, "runId"),
        ({"task": ""}, "task"),
        ({"cursor": "x"}, "cursor"),
        ({"search": "x" * 201}, "search"),
    ],
)
async def test_wrong_searches_are_refused(engine, query, field):
    answer = await engine.api.get("/v1/logs", params={"search": "needle"} | query)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field


async def test_a_job_that_does_not_exist_can_not_be_searched(engine):
    assert (await engine.api.get("/v1/logs", params={"search": "x", "jobId": "chosen"})).status_code == 404


async def test_too_many_searches_are_refused(engine):
    engine.api.services.searches.most = 0
    assert (await engine.api.get("/v1/logs", params={"search": "needle"})).status_code == 503


async def test_a_log_can_be_saved_as_a_file(engine):
    run_id = await engine.submit()
    await write(engine, plain(run_id), "one", "two")
    answer = await engine.api.get(f"/v1/runs/{run_id}/logs", params={"download": "true"})
    assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.log"'
    assert [line.split(" ", 2)[2] for line in answer.text.splitlines()] == ["one", "two"]
