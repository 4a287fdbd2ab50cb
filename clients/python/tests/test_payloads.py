"""Payloads as dataclasses, models of pydantic, and plain JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypedDict, TypeVar, Union
from uuid import UUID

import pytest
from pydantic import BaseModel
from pydantic.dataclasses import dataclass as pydantic_dataclass

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


@pydantic_dataclass
class Checked:
    count: int


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Size(IntEnum):
    SMALL = 1


class Note(TypedDict):
    text: str


Item = TypeVar("Item")
Number = NewType("Number", int)


@dataclass
class Page(Generic[Item]):
    items: list[Item]


@dataclass
class Basket:
    colour: Colour
    sizes: list[Size]
    places: dict[int, tuple[float, float]]
    kind: Literal["gift", 3] = "gift"


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


def test_enums_tuples_and_keys_come_back_as_they_were() -> None:
    basket = Basket(Colour.BLUE, [Size.SMALL], {7: (1.5, 2.0)}, 3)
    assert decode(json.dumps(encode(basket)).encode(), Basket) == basket


class Named(str, Enum):
    FIRST = "first"


class Mark(Enum):
    LOW = 1
    HIGH = "high"

    @classmethod
    def _missing_(cls, value: object) -> Mark | None:
        return cls.HIGH if value in ("HIGH", "2") else None


@dataclass
class Sum:
    parts: list[int]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.parts)


@dataclass(frozen=True)
class Stamp:
    at: int
    text: str = field(init=False, default="")


@pydantic_dataclass
class Tally:
    count: int
    twice: int = field(init=False, default=0)


VALUES: list[tuple[Any, Any]] = [
    (True, bool),
    (7, int),
    (1.5, float),
    (2.0, float),
    (-1e300, float),
    ("7", str),
    ("null", str),
    (None, type(None)),
    (Number(7), Number),
    (Size.SMALL, Size),
    (Named.FIRST, Named),
    ("gift", Literal["gift", 3]),
    (3, Literal["gift", 3]),
    (Size.SMALL, Literal[Size.SMALL]),
    (None, Literal["a", None]),
    (7, Annotated[int, "a comment"]),
    (7, int | None),
    (None, int | None),
    (7, Optional[int]),  # noqa: UP045 - it is another object than `int | None`
    (1.5, float | bool),
    ("a", Any),
]
ITEMS: list[tuple[Any, Any]] = [
    (Colour.RED, Colour),
    (Colour.BLUE, Colour),
    (Mark.LOW, Mark),
    (UUID(int=7), UUID),
    (datetime(2026, 11, 26, tzinfo=timezone.utc), datetime),
    ([1, 2], list[int]),
    ((1, "a"), tuple[int, str]),
    (Line("tea"), Line),
    (ORDER, Order),
    (Customer(name="Ann", age=40), Customer),
    (Checked(7), Checked),
    (Sum([1, 2]), Sum),
    (Stamp(7), Stamp),
    (Tally(7), Tally),
    (Page([1]), Page[int]),
]


def again(value: object, wanted: Any) -> Any:
    return decode(json.dumps(encode(value)).encode(), wanted)


@pytest.mark.parametrize(("value", "wanted"), VALUES + ITEMS)
def test_a_value_comes_back_as_it_was(value: Any, wanted: Any) -> None:
    for whole, of in (
        (value, wanted),
        ([value], list[wanted]),
        ((value, 1), tuple[wanted, int]),
        ({"a": [value]}, dict[str, list[wanted]]),
    ):
        found = again(whole, of)
        assert (repr(found), found) == (repr(whole), whole)


@pytest.mark.parametrize(("value", "wanted"), VALUES)
def test_a_key_comes_back_as_it_was(value: Any, wanted: Any) -> None:
    for whole, of in (
        ({value: 1}, dict[wanted, int]),
        ([{value: {value: "a"}}], list[Mapping[wanted, dict[wanted, str]]]),
    ):
        found = again(whole, of)
        assert (repr(found), found) == (repr(whole), whole)


UNION: Any = Union[int, list[str]]  # noqa: UP007 - it is another object than `int | list[str]`
OPTIONAL: Any = Optional[int]  # noqa: UP045


@pytest.mark.parametrize(
    ("raw", "wanted", "expected"),
    [
        ("7", int, 7),
        ("18446744073709551616", int, 1 << 64),
        ("7", float, 7.0),
        ("7", float | int, 7),
        ("true", bool, True),
        ("null", type(None), None),
        ("null", int | None, None),
        ("null", OPTIONAL, None),
        ("7", OPTIONAL, 7),
        ('["a"]', UNION, ["a"]),
        ('[{"article": "tea"}]', list[Line] | None, [Line("tea")]),
        ("[1, null]", list, [1, None]),
        ('{"a": [1]}', dict, {"a": [1]}),
        ("[1]", Sequence[int], [1]),
        ('{"a": 1}', Mapping[str, Any], {"a": 1}),
        ('{"2": "b"}', dict[int, str], {2: "b"}),
        ('{"red": 1}', dict[Colour, int], {Colour.RED: 1}),
        ("[1, 2]", tuple[int, ...], (1, 2)),
        ('[1, "a"]', tuple[int, str], (1, "a")),
        ("[]", tuple, ()),
        ('"red"', Colour, Colour.RED),
        ('"HIGH"', Mark, Mark.HIGH),
        ('"2"', Mark, Mark.HIGH),
        ('{"HIGH": 1}', dict[Mark, int], {Mark.HIGH: 1}),
        ('{"parts": [1]}', Sum, Sum([1])),
        ("1", Literal[Size.SMALL], Size.SMALL),
        ("1", Annotated[int, "a comment"], 1),
        ("1", Number, 1),
        ('{"items": [1]}', Page[int], Page([1])),
        ('{"count": "7"}', Checked, Checked(7)),
        ('{"text": 7}', Note, {"text": 7}),  # not checked, as the README says
        ('"2026-11-26"', object, "2026-11-26"),
        ("[1e400]", None, [float("inf")]),
        ('"\\ud800"', str, "\ud800"),
    ],
)
def test_a_value_fits_its_type(raw: str, wanted: Any, expected: object) -> None:
    found = decode(raw.encode(), wanted)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        *[(raw, int) for raw in ('"7"', "7.0", "true", "null", "[7]", "{}", "1e400")],
        *[(raw, float) for raw in ('"7"', "true", "null", "1e400", "1" * 400)],
        *[(raw, str) for raw in ("7", "null", "[]", "true")],
        *[(raw, bool) for raw in ("1", "0", '"true"', "null")],
        *[(raw, None) for raw in ("NaN", "[Infinity]", '{"a": -Infinity}', "1" * 5_000)],
        *[(raw, datetime) for raw in ("0", "null", '"soon"')],
        *[(raw, UUID) for raw in ("7", "null", '"7"')],
        *[(raw, list[Line]) for raw in ("null", "{}", '["tea"]', '[{"article": 7}]', "[null]")],
        *[(raw, list) for raw in ("null", '"abc"', "{}")],
        *[(raw, dict[str, int]) for raw in ("null", "[]", '{"a": "1"}', '{"a": null}')],
        *[(raw, dict[int, int]) for raw in ('{"a": 1}', '{"1.5": 1}', '{"true": 1}', '{"": 1}')],
        *[(raw, dict[float, int]) for raw in ('{"NaN": 1}', '{"1e400": 1}', '{"[": 1}')],
        *[(raw, dict[Literal[1], int]) for raw in ('{"2": 1}', '{"1.0": 1}', '{"true": 1}')],
        *[(raw, Mark) for raw in ("true", "1.0", '"low"')],
        *[(raw, Sum) for raw in ('{"parts": [1], "sum": 1}', '{"total": 1}')],
        *[(raw, tuple[int, str]) for raw in ("[1]", '[1, "a", 2]', '["a", 1]', "null")],
        *[(raw, OPTIONAL) for raw in ('"7"', "false")],
        *[(raw, int | list[int]) for raw in ("null", "[null]", '"a"')],
        *[(raw, Colour) for raw in ('"green"', "null", "2.0", "[]", '"BLUE"')],
        *[(raw, Size) for raw in ("true", "1.0", '"1"')],
        *[(raw, Literal["a", 1, None]) for raw in ('"b"', "true", "1.0")],
        *[(raw, Number) for raw in ('"1"', "null")],
        *[(raw, Basket) for raw in ('{"colour": "red", "sizes": [2], "places": {}}', "null")],
        *[(raw, Checked) for raw in ('{"count": "x"}', "{}", "[]")],
        ("[" * 500 + "null" + "]" * 500, int),
    ],
)
def test_a_value_of_another_form_fits_no_type(raw: str, wanted: Any) -> None:
    with pytest.raises(PayloadError):
        decode(raw.encode(), wanted)


def test_an_error_says_where_a_payload_has_another_form() -> None:
    raw = b'{"lines": [{"article": "tea"}, {"article": "cup", "count": "2"}]}'
    with pytest.raises(PayloadError, match="no Order: lines: 1: count: it is a text, not a whole"):
        decode(raw, Order)


@pytest.mark.parametrize(
    ("raw", "wanted", "word"),
    [
        (b"\x00", Line, "no JSON"),
        (b"[]", Line, "a list, not an object"),
        (b'{"article": "tea", "size": 1}', Line, "`size`"),
        (b"{}", Line, "article"),
        (b'{"name": "Ann"}', Customer, "no Customer"),
        (b'{"id": "7"}', Order, "no Order: id: badly formed"),
        (b'{"placed": "tomorrow"}', Order, "no Order: placed: Invalid isoformat"),
        (b'"seven"', UUID, "no UUID"),
        (b"[" * 100_000, Line, "no JSON"),
    ],
)
def test_another_form_is_an_error_that_says_which(raw: bytes, wanted: type, word: str) -> None:
    with pytest.raises(PayloadError, match=word):
        decode(raw, wanted)
