"""An application in a program that has many event loops, one after the other, or forks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

import rota
from listening import TOKEN
from support import in_time

# A program of its own: nobody closes the connections of a loop that is gone, and Python warns of that.
PROGRAM = """
import asyncio, gc, json, sys
import psutil
import rota

app = rota.App("shop", **json.loads(sys.argv[1]))

@app.task(name="work")
async def work(number: int) -> None: ...

def submit(count):
    for number in range(count):
        asyncio.run(work.submit(number))
    gc.collect()
    return psutil.Process().num_fds()

before = submit(3)
print(submit(17) - before)
"""


@pytest.mark.parametrize("where", ["server", "database"])
async def test_event_loops_that_are_over_leave_no_connections(server, database_url, sql, where):
    options = {"server": {"url": server.url, "token": TOKEN}, "database": {"database": database_url}}[where]
    arguments = [sys.executable, "-c", PROGRAM, json.dumps(options)]
    done = await in_time(asyncio.to_thread(subprocess.run, arguments, capture_output=True, text=True, check=False))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 10
    assert await sql.fetchval("SELECT count(*) FROM rota.runs") == 20


def test_a_fork_while_another_thread_opens_the_connection_leaves_the_child_able_to_submit():
    app = rota.App("shop", url="http://127.0.0.1:9", token="x", patience=0)  # noqa: S106 - no server listens there

    @app.task(name="work")
    async def work() -> None: ...

    opening, forked = threading.Event(), threading.Event()

    def open_slowly():
        with app.gateways._opening:
            opening.set()
            forked.wait(60)

    thread = threading.Thread(target=open_slowly)
    thread.start()
    opening.wait(60)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # ends a child that waits for ever
        try:
            work.sync.submit()
        except rota.RotaError:  # no server is there: it got that far
            os._exit(7)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 7
