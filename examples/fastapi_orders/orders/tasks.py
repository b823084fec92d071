"""What happens in the background: rota worker --app orders.tasks:app."""

from __future__ import annotations

from collections.abc import AsyncIterator

import rota
from orders.database import Order, opened_database

app = rota.App("orders")


@app.lifespan
async def lifespan() -> AsyncIterator[None]:
    """Each worker has its own connections."""
    async with opened_database() as sessions:
        app.state.sessions = sessions
        yield


@app.task(retries=5)
async def confirm(context: rota.Context, order_id: int) -> str:
    """Sends the confirmation. It may be attempted twice, so the mail carries a key by which a second one is known."""
    async with app.state.sessions.begin() as session:
        order = await session.get_one(Order, order_id)
        context.progress(0.5, "writing the letter")
        print(f"to {order.email}, Message-Id {context.idempotency_key}: your {order.item} is on its way")
        order.confirmed = True
    return f"{order.item} for {order.email}"
