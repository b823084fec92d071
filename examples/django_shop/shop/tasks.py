"""What happens in the background. Workers find it in shop/worker.py, which sets Django up first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

import rota
from shop.models import Order

P = ParamSpec("P")
R = TypeVar("R")

app = rota.App("shop")


def as_request(function: Callable[P, R]) -> Callable[P, R]:
    """What Django does around a request: connections that are broken or too old are closed. A connection belongs to a
    thread of the worker, so this must happen there, and not in a middleware, which surrounds the thread."""

    @functools.wraps(function)
    def surrounded(*arguments: P.args, **keywords: P.kwargs) -> R:
        close_old_connections()
        try:
            return function(*arguments, **keywords)
        finally:
            close_old_connections()

    return surrounded


@app.task(retries=5)
@as_request
def confirm(context: rota.Context, order_id: int) -> str:
    """Sends the confirmation. It may be attempted twice, so the mail carries a key by which a second one is known."""
    order = Order.objects.get(pk=order_id)
    print(f"to {order.email}, Message-Id {context.idempotency_key}: your {order.item_id} is on its way")
    Order.objects.filter(pk=order_id).update(confirmed=True)
    return f"{order.item_id} for {order.email}"
