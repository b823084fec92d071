"""Calls that are wrong: on each line that says so, and on no other, type checkers must find an error."""

from __future__ import annotations

import rota

app = rota.App()


@app.task
async def send(to: str, copies: int = 1) -> bool:
    return bool(to) and copies > 0


@app.task(retries=3)
def resize(path: str, *, width: int) -> int:
    return width


@app.task
async def paint(context: rota.Context, what: str) -> str:
    return what


app.task(retries="three")  # wrong
app.task(colour="red")  # wrong
app.task(isolation="thread")  # wrong
app.task(retry_on="ConnectionError")  # wrong
app.task(final_on=[ValueError])  # wrong
app.task(rate_limit=rota.RateLimit(limit=1, key=7))  # wrong
app.cron("@daily", zone="UTC")  # wrong


async def submit() -> None:
    await send.submit(7)  # wrong
    await send.submit()  # wrong
    await send.submit("ada", copies="two")  # wrong
    await send.submit("ada", colour="red")  # wrong
    await send.after("5m").submit(to=7)  # wrong
    await send.with_options(priority="urgent").submit("ada")  # wrong
    await send.with_options(retrys=3).submit("ada")  # wrong
    await send.at("tomorrow").submit("ada")  # wrong
    await send.cron("@daily", zone="UTC").submit("ada")  # wrong
    await send.cron("@daily").submit(7)  # wrong
    send.call(7)  # wrong
    await resize.submit("a.png")  # wrong
    await paint.submit(7)  # wrong
    run = await send.submit("ada")
    number: int = len(await run.result())  # wrong
    send.sync.submit(7)  # wrong
    await send.sync.submit("ada")  # wrong
    print(number)


def ask(client: rota.Client) -> None:
    client.submit("x", task="send", priority="urgent")  # wrong
    client.submit("x", task="send", colour="red")  # wrong
    client.run(7)  # wrong


@app.task
def count(rows: list[str]) -> int:
    return len(rows)


with app.workflow("nightly") as flow:
    counted = count.node(["a"])
    count.node(counted.result)  # wrong
    count.node(rows=3)  # wrong
    count.node()  # wrong
    counted.after("count")  # wrong
    counted.after(count.node(["b"]), trigger="sometimes")  # wrong
    counted.when(True)  # wrong
    app.workflow("other", cron=5)  # wrong
