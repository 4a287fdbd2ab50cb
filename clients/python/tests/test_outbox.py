"""The helper of the outbox: a push is in the transaction of PostgreSQL, or nowhere."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duly import NewEvent, UsageError, outbox
from duly.testing import TestServer, program

from .postgres import outbox_database


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # Not in a folder of pytest, which another user cannot reach.
    with (
        tempfile.TemporaryDirectory(prefix="duly-pg-", dir="/tmp") as folder,
        outbox_database(Path(folder)) as address,
    ):
        yield address


ROWS = (
    "select queue, payload::text, due > now() + interval '29 minutes', "
    "options ->> 'attempts' from duly_outbox order by n"
)


def test_a_push_is_there_if_the_transaction_commits_and_only_then(address: str) -> None:
    order = {"order": 7}
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("truncate duly_outbox")
        connection.commit()
        outbox.push(cursor, "close", order, namespace="shop")
        connection.rollback()
        pushed = outbox.push(cursor, "close", order, namespace="shop", delay=1_800, attempts=5)
        assert pushed is not None
        assert len(pushed) == 26
        # A key decides on the id, later.
        assert outbox.push(cursor, "close", order, namespace="shop", key="customer:8") is None
        connection.commit()
        cursor.execute(ROWS)
        assert cursor.fetchall() == [
            ("shop.close", '{"order": 7}', True, "5"),
            ("shop.close", '{"order": 7}', None, None),
        ]


@contextmanager
def engine_of(address: str) -> Iterator[sqlalchemy.Engine]:
    """An engine whose connections are closed at the end, not when a later test collects them."""
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(address)
    )
    try:
        yield engine
    finally:
        engine.dispose()


def test_sqlalchemy_does_the_same(address: str) -> None:
    with engine_of(address) as engine:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("truncate duly_outbox"))
            order = {"order": 7}
            pushed = outbox.push_sqlalchemy(
                connection, "close", order, namespace="shop", delay=1_800, attempts=5
            )
            assert pushed is not None
        with engine.begin() as connection:
            rows = connection.execute(sqlalchemy.text(ROWS.replace("::text", ""))).all()
    assert [tuple(row) for row in rows] == [("shop.close", {"order": 7}, True, "5")]


async def push_in_a_session(address: str) -> list[str]:
    async def connected() -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(address)

    engine = create_async_engine("postgresql+psycopg://", async_creator=connected)
    try:
        async with AsyncSession(engine) as session:
            await session.execute(sqlalchemy.text("truncate duly_outbox"))
            for queue in ("first", "second"):
                pushed = await session.run_sync(
                    outbox.push_sqlalchemy, queue, 1, namespace="shop", delay=1_800
                )
                assert pushed is not None
            with pytest.raises(UsageError, match="run_sync"):
                outbox.push_sqlalchemy(session, "never", 2, namespace="shop")
            await session.commit()
            await session.run_sync(outbox.push_sqlalchemy, "undone", 3, namespace="shop")
            await session.rollback()
        async with engine.begin() as connection:
            await connection.run_sync(outbox.push_sqlalchemy, "third", 4, namespace="shop")
        async with engine.connect() as connection:
            found = await connection.execute(
                sqlalchemy.text("select queue from duly_outbox order by n")
            )
            return [queue for (queue,) in found]
    finally:
        await engine.dispose()


@pytest.mark.filterwarnings("error")
def test_a_session_of_asyncio_does_the_same_and_is_told_how(address: str) -> None:
    assert asyncio.run(push_in_a_session(address)) == ["shop.first", "shop.second", "shop.third"]


@pytest.mark.filterwarnings("error")
def test_a_cursor_of_asyncio_is_told_how(address: str) -> None:
    async def pushed() -> list[str]:
        connection = await psycopg.AsyncConnection.connect(address)
        async with connection, connection.cursor() as cursor:
            await cursor.execute("truncate duly_outbox")
            with pytest.raises(UsageError, match="yourself"):
                outbox.push(cursor, "never", 1, namespace="shop")
            await cursor.execute(outbox.SQL, outbox.arguments("shop", "close", 2, 0.0, {}))
            await cursor.execute("select queue from duly_outbox")
            return [queue for (queue,) in await cursor.fetchall()]

    assert asyncio.run(pushed()) == ["shop.close"]


def fail_in_a_savepoint(session: Session) -> None:
    with session.begin_nested():
        outbox.push_sqlalchemy(session, "undone", 2, namespace="shop")
        session.execute(sqlalchemy.text("select 1 from no_such_table"))


def test_a_push_of_a_savepoint_that_is_undone_is_not_there(address: str) -> None:
    with engine_of(address) as engine, Session(engine) as session:
        session.execute(sqlalchemy.text("truncate duly_outbox"))
        outbox.push_sqlalchemy(session, "first", 1, namespace="shop")
        with pytest.raises(sqlalchemy.exc.ProgrammingError):
            fail_in_a_savepoint(session)
        with session.begin_nested() as nested:
            outbox.push_sqlalchemy(session, "undone", 3, namespace="shop", key="customer:8")
            nested.rollback()
        with session.begin_nested():
            outbox.push_sqlalchemy(session, "second", 4, namespace="shop")
        session.commit()
        with pytest.raises(UsageError):
            outbox.push_sqlalchemy(session, "q", float("nan"), namespace="shop")
        outbox.push_sqlalchemy(session, "never", 5, namespace="shop")  # it is not committed
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        with connection.transaction(force_rollback=True):
            outbox.push(cursor, "undone", 6, namespace="shop")
        outbox.push(cursor, "third", 7, namespace="shop")
        cursor.execute("select queue from duly_outbox order by n")
        assert [queue for (queue,) in cursor] == ["shop.first", "shop.second", "shop.third"]


def test_an_option_that_is_none_is_none_at_all(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = address.split()[0].removeprefix("host=").replace("/", "%2F")
    url = f"postgres://postgres@{folder}/postgres"
    script = tmp_path / "duly"
    script.write_text(f'#!/bin/sh\nexec {program()} "$@" --outbox {url}\n')
    script.chmod(0o755)
    monkeypatch.setenv("DULY_PROGRAM", str(script))
    options = [field.name for field in fields(NewEvent) if field.name not in ("payload", "delay")]
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("truncate duly_outbox")
        for number, name in enumerate(options):
            given: dict[str, Any] = {name: None}
            outbox.push(cursor, "close", number, namespace="test", **given)
        every: dict[str, Any] = dict.fromkeys(options)
        outbox.push(cursor, "close", len(options), namespace="test", **every)
    with TestServer(f"sqlite:{tmp_path / 'jobs.db'}") as server, server.client() as client:
        handled: set[object] = set()
        while len(handled) <= len(options) and (leases := client.lease("close", limit=99, wait=8)):
            handled.update(lease.payload() for lease in leases)
    assert handled == set(range(len(options) + 1))


DAY = 86_400
DUE = "select round(extract(epoch from due - at)) from duly_outbox"


def days_until_the_clocks_change() -> int:
    """Returns a number of days in which the zone has one change, as two would cancel out."""
    now = datetime.now(ZoneInfo("Europe/Berlin"))
    offset = now.utcoffset()
    return next(days for days in range(400) if (now + timedelta(days=days)).utcoffset() != offset)


def test_a_delay_of_days_is_exact_over_a_change_of_the_clocks(address: str) -> None:
    delay = timedelta(days=days_until_the_clocks_change() + 7)
    longest = 136 * 365 * DAY
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute("set time zone 'Europe/Berlin'")
        for wanted in (delay, timedelta(seconds=longest)):
            cursor.execute("delete from duly_outbox")
            outbox.push(cursor, "close", 7, namespace="shop", delay=wanted)
            cursor.execute(DUE)
            assert cursor.fetchall() == [(wanted.total_seconds(),)]
    with engine_of(address) as engine, engine.begin() as opened:
        opened.execute(sqlalchemy.text("set time zone 'Europe/Berlin'"))
        opened.execute(sqlalchemy.text("delete from duly_outbox"))
        outbox.push_sqlalchemy(opened, "close", 7, namespace="shop", delay=delay)
        found = opened.execute(sqlalchemy.text(DUE)).scalar_one()
    assert found == delay.total_seconds()


def test_a_wrong_name_is_refused_before_the_transaction_learns_of_it(address: str) -> None:
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        with pytest.raises(UsageError, match="queue"):
            outbox.push(cursor, "a.b", 1, namespace="ns")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
