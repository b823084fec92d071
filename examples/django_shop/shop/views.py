"""Taking orders, and showing them."""

from __future__ import annotations

import json

from django.db import connection, transaction
from django.db.models import F
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from shop.models import Item, Order
from shop.tasks import confirm


class SoldOutError(Exception):
    """There is none left."""


@csrf_exempt
@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Writes the order and submits its confirmation in one transaction: there are both, or neither."""
    wanted = json.loads(request.body)
    try:
        order = take_order(wanted["email"], wanted["item"])
    except SoldOutError:
        return JsonResponse({"error": f"there is no {wanted['item']} left"}, status=409)
    return JsonResponse({"order": order.pk}, status=201)


@transaction.atomic
def take_order(email: str, item: str) -> Order:
    """No on_commit is needed: the job is part of the transaction, and a worker sees it when it sees the order."""
    order: Order = Order.objects.create(email=email, item_id=item)
    confirm.sync.within(connection).submit(order.pk)
    if not Item.objects.filter(name=item, left_over__gt=0).update(left_over=F("left_over") - 1):
        raise SoldOutError
    return order


@require_GET
def show_order(_request: HttpRequest, number: int) -> JsonResponse:
    """The order, and whether it is confirmed."""
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"item": order.item_id, "confirmed": order.confirmed})
