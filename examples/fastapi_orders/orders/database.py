"""The shop's tables, in the same database as Rota's."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import CheckConstraint
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Sessions = async_sessionmaker[AsyncSession]


class Base(DeclarativeBase):
    """All tables of the shop."""


class Order(Base):
    """A customer's order, and the run that confirms it."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    item: Mapped[str]
    run_id: Mapped[str | None]
    confirmed: Mapped[bool] = mapped_column(default=False)


class Stock(Base):
    """How many of an item are left."""

    __tablename__ = "stock"
    __table_args__ = (CheckConstraint("left_over >= 0"),)

    item: Mapped[str] = mapped_column(primary_key=True)
    left_over: Mapped[int]


@asynccontextmanager
async def opened_database() -> AsyncIterator[Sessions]:
    """Sessions on the database of DATABASE_URL; makes the tables that are missing."""
    url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://", 1)
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield async_sessionmaker(engine, expire_on_commit=False)
    await engine.dispose()
