"""The helper of the outbox: a push is in the transaction of PostgreSQL, or nowhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from duly import UsageError, outbox

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


def test_sqlalchemy_does_the_same(address: str) -> None:
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(address)
    )
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


def test_a_wrong_name_is_refused_before_the_transaction_learns_of_it(address: str) -> None:
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        with pytest.raises(UsageError, match="queue"):
            outbox.push(cursor, "a.b", 1, namespace="ns")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
