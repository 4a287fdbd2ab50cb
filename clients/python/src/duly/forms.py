"""The forms of payloads: a value of JSON becomes one of a type, or an error says why not."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

_NAMES = {
    type(None): "null",
    bool: "a boolean",
    int: "a whole number",
    float: "a number with a fraction",
    str: "a text",
    list: "a list",
    dict: "an object",
}
_LISTS = (list, Sequence)
_OBJECTS = (dict, Mapping)


def value_of(text: str) -> Any:
    """Returns what a text of JSON says."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")


def into(wanted: Any, value: Any) -> Any:
    """Returns a value of JSON as one of a type.

    What neither JSON nor this package has a form for stays as it is, such as a `TypedDict`.
    """
    if wanted is None:
        wanted = type(None)
    validate = getattr(wanted, "model_validate", None)
    if callable(validate):
        return validate(value)
    origin, arguments = typing.get_origin(wanted) or wanted, typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return _any_of(arguments, value)
    if origin is typing.Literal:
        return _literal(arguments, value)
    if origin is typing.Annotated:
        return into(arguments[0], value)
    if isinstance(origin, typing.NewType):
        return into(origin.__supertype__, value)
    if origin in _LISTS:
        (item,) = arguments or (Any,)
        return _each([item] * len(_as(list, value)), value)
    if origin is tuple:
        return _tuple(arguments, value)
    if origin in _OBJECTS:
        key, item = arguments or (Any, Any)
        return _dict(key, item, value)
    if isinstance(origin, type):
        return _instance(origin, value)
    return value


def _instance(wanted: type, value: Any) -> Any:
    """Returns a value as an instance of a class."""
    if dataclasses.is_dataclass(wanted):
        return _dataclass(wanted, value)
    if issubclass(wanted, Enum):
        return _member(wanted, value)
    if wanted in _READERS:
        return _READERS[wanted](value)
    return _as(wanted, value) if wanted in _NAMES else value


def _as(wanted: type, value: Any) -> Any:
    """Returns a value that has a type itself: a boolean is no number."""
    if type(value) is wanted:
        return value
    raise ValueError(f"it is {_NAMES[type(value)]}, not {_NAMES[wanted]}")


def _float(value: Any) -> float:
    number = float(value if type(value) is int else _as(float, value))
    if math.isinf(number):
        raise ValueError("the number is too large")
    return number


def _datetime(value: Any) -> datetime:
    text: str = _as(str, value)
    # Python 3.10 does not read the Z that JavaScript writes.
    zone = "+00:00" if text.endswith("Z") else ""
    return datetime.fromisoformat(text.removesuffix("Z") + zone)


_READERS: dict[type, Callable[[Any], Any]] = {
    float: _float,
    datetime: _datetime,
    UUID: lambda value: UUID(_as(str, value)),
}


def _member(wanted: type[Enum], value: Any) -> Any:
    """Returns the member that an enum has for a value: `True` equals 1, and is another one."""
    member = wanted(value)
    if member.value == value and type(member.value) is not type(value):
        raise ValueError(f"{value!r} is none of {wanted.__name__}")
    return member


def _literal(members: Sequence[Any], value: Any) -> Any:
    for member in members:
        plain = member.value if isinstance(member, Enum) else member
        if plain == value and type(plain) is type(value):
            return member
    raise ValueError(f"{value!r} is none of {', '.join(map(repr, members))}")


def _any_of(wanted: Sequence[Any], value: Any) -> Any:
    """Returns a value as the first type of a union that it fits, if it is of none itself."""
    if type(value) in wanted:
        return value
    errors: list[str] = []
    for one in wanted:
        if one is type(None):
            continue
        try:
            return into(one, value)
        except (TypeError, ValueError, ArithmeticError) as error:
            errors.append(str(error))
    raise ValueError("; ".join(errors))


def _at(place: object, wanted: Any, value: Any, read: Callable[[Any, Any], Any] = into) -> Any:
    """Returns a part of a value; its error says where it is."""
    try:
        return read(wanted, value)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"{place}: {error}") from error


def _each(wanted: Sequence[Any], value: Sequence[Any]) -> list[Any]:
    return [_at(place, *part) for place, part in enumerate(zip(wanted, value, strict=True))]


def _tuple(wanted: Sequence[Any], value: Any) -> tuple[Any, ...]:
    items: list[Any] = _as(list, value)
    if not wanted:
        return tuple(items)
    if len(wanted) == 2 and wanted[1] is Ellipsis:
        wanted = [wanted[0]] * len(items)
    if len(wanted) != len(items):
        raise ValueError(f"it has {len(items)} items, not {len(wanted)}")
    return tuple(_each(wanted, items))


def _key(wanted: Any, text: str) -> Any:
    """Returns a key, which JSON has as a text: itself, or else the value that it spells."""
    try:
        return into(wanted, text)
    except (TypeError, ValueError, ArithmeticError):
        value: Any = text
        with contextlib.suppress(ValueError):  # it may spell none
            value = value_of(text)
        return into(wanted, value)


def _dict(key: Any, item: Any, value: Any) -> dict[Any, Any]:
    items = _as(dict, value).items()
    return {_at(name, key, name, _key): _at(name, item, one) for name, one in items}


def _dataclass(wanted: type, value: Any) -> Any:
    fields: dict[str, Any] = _as(dict, value)
    is_given = {field.name: field.init for field in dataclasses.fields(wanted)}
    # It makes the others itself.
    given = {name: item for name, item in fields.items() if is_given.get(name, True)}
    if hasattr(wanted, "__pydantic_validator__"):
        return wanted(**given)
    hints = typing.get_type_hints(wanted)
    unknown = sorted(given.keys() - is_given.keys())
    if unknown:
        known = ", ".join(sorted(is_given))
        raise ValueError(f"it has `{unknown[0]}`, and a {wanted.__name__} has only {known}")
    return wanted(**{name: _at(name, hints[name], item) for name, item in given.items()})
