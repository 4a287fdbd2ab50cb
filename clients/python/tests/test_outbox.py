"""The helper of the outbox: the statement and its arguments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duly import UsageError, outbox


class Recorder:
    def __init__(self, row: tuple[str | None]) -> None:
        self.row = row
        self.executed: list[tuple[str, Any]] = []

    def execute(self, sql: str, params: Any = None, /) -> None:
        self.executed.append((sql, params))

    def fetchone(self) -> Any:
        return self.row


def test_a_push_is_one_statement_of_the_transaction() -> None:
    cursor = Recorder(("01KBKSY8Q3X4H1W9V0T5RZ7M2C",))
    pushed = outbox.push(cursor, "close", {"order": 7}, namespace="shop", delay=1_800, attempts=5)
    assert pushed == "01KBKSY8Q3X4H1W9V0T5RZ7M2C"
    arguments = ("shop.close", '{"order": 7}', timedelta(minutes=30), '{"attempts": 5}')
    assert cursor.executed == [(outbox.SQL, arguments)]


def test_a_key_decides_on_the_id_later() -> None:
    assert outbox.push(Recorder((None,)), "q", 1, namespace="ns", key="customer:8") is None


def test_a_wrong_name_is_refused_before_the_transaction_learns_of_it() -> None:
    cursor = Recorder((None,))
    with pytest.raises(UsageError, match="queue"):
        outbox.push(cursor, "a.b", 1, namespace="ns")
    assert cursor.executed == []
