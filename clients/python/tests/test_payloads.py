"""Payloads as dataclasses, models of pydantic, and plain JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from uuid import UUID

import pytest
from pydantic import BaseModel

from duly import PayloadError
from duly.payloads import decode, encode


@dataclass
class Line:
    article: str
    count: int = 1


@dataclass
class Order:
    id: UUID
    placed: datetime
    lines: list[Line]
    note: str | None = None
    first: Line | None = None


class Customer(BaseModel):
    name: str
    age: int


ORDER = Order(
    UUID("12345678123456781234567812345678"),
    datetime(2026, 11, 26, tzinfo=timezone.utc),
    [Line("tea"), Line("cup", 2)],
    first=Line("tea"),
)


def test_a_dataclass_comes_back_as_it_was() -> None:
    raw = json.dumps(encode(ORDER)).encode()
    assert decode(raw, Order) == ORDER


def test_a_model_comes_back_as_it_was() -> None:
    customer = Customer(name="Ann", age=40)
    assert decode(json.dumps(encode(customer)).encode(), Customer) == customer


def test_a_time_as_javascript_writes_it_is_read() -> None:
    time = datetime(2026, 11, 26, 12, 0, 0, 123_000, tzinfo=timezone.utc)
    assert decode(b'"2026-11-26T12:00:00.123Z"', datetime) == time


def test_plain_values_and_bytes_are_as_they_are() -> None:
    assert decode(b'{"a": [1, null]}', None) == {"a": [1, None]}
    assert decode(b'{"a": 1}', dict[str, int]) == {"a": 1}
    assert decode(b"\x00", bytes) == b"\x00"


@pytest.mark.parametrize(
    ("raw", "wanted", "word"),
    [
        (b"\x00", Line, "no JSON"),
        (b"[]", Line, "no object"),
        (b'{"article": "tea", "size": 1}', Line, "`size`"),
        (b"{}", Line, "article"),
        (b'{"name": "Ann"}', Customer, "no Customer"),
        (b'{"id": "7"}', Order, "no Order: badly formed"),
        (b'{"placed": "tomorrow"}', Order, "no Order: Invalid isoformat"),
        (b'"seven"', UUID, "no UUID"),
        (b"[" * 100_000, Line, "no JSON"),
    ],
)
def test_another_form_is_an_error_that_says_which(raw: bytes, wanted: type, word: str) -> None:
    with pytest.raises(PayloadError, match=word):
        decode(raw, wanted)
