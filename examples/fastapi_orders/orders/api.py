"""The HTTP side: uvicorn orders.api:api."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

import rota
from orders.database import Order, Stock, opened_database
from orders.tasks import app, confirm


class NewOrder(BaseModel):
    """What a customer sends."""

    email: str
    item: str


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """Opens what requests share, and closes it."""
    async with opened_database() as sessions, rota.AsyncClient() as client, app:
        api.state.sessions, api.state.client = sessions, client
        yield


api = FastAPI(title="Orders", lifespan=lifespan)


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    """A session of this request's own."""
    async with request.app.state.sessions() as session:
        yield session


async def open_client(request: Request) -> Any:
    """Where runs are looked up; tests put something else here."""
    return request.app.state.client


Session = Annotated[AsyncSession, Depends(open_session)]
Client = Annotated[Any, Depends(open_client)]


@api.post("/orders", status_code=201)
async def place_order(new: NewOrder, session: Session) -> dict[str, int]:
    """Writes the order and submits its confirmation in one transaction: there are both, or neither.

    The transaction ends here, before the customer is answered: FastAPI leaves dependencies only afterwards.
    """
    async with session.begin():
        order = Order(email=new.email, item=new.item)
        session.add(order)
        await session.flush()  # the order has its number now
        run = await confirm.within(session).submit(order.id)
        order.run_id = run.id
        await take_from_stock(session, new.item)
    return {"order": order.id}


async def take_from_stock(session: AsyncSession, item: str) -> None:
    """One less; when there is none, what was written and submitted before is gone with the transaction."""
    wanted = update(Stock).where(Stock.item == item, Stock.left_over > 0).returning(Stock.item)
    if await session.scalar(wanted.values(left_over=Stock.left_over - 1)) is None:
        raise HTTPException(409, f"there is no {item} left")


@api.put("/stock/{item}")
async def fill_stock(item: str, count: int, session: Session) -> dict[str, int]:
    """So many are there now."""
    counted = insert(Stock).values(item=item, left_over=count)
    async with session.begin():
        await session.execute(counted.on_conflict_do_update(index_elements=[Stock.item], set_={"left_over": count}))
    return {item: count}


@api.get("/orders/{number}")
async def show_order(number: int, session: Session, client: Client) -> dict[str, Any]:
    """The order, and how far its confirmation is."""
    order = await session.get(Order, number)
    if order is None:
        raise HTTPException(404, "there is no such order")
    run = await client.run(order.run_id)
    return {"item": order.item, "confirmed": order.confirmed, "status": run.status, "result": run.result}
