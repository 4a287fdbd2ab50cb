"""Payloads: values as JSON, and back into the type that a handler wants."""

from __future__ import annotations

import dataclasses
import json
import typing
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from .errors import DulyError, UsageError

T = TypeVar("T")


class PayloadError(DulyError):
    """A payload does not have the form that its handler wants."""


def encode(value: object) -> Any:
    """Returns a value as JSON can hold it: dataclasses and models of pydantic are objects."""
    try:
        text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False)
        return json.loads(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the payload cannot be written as JSON: {error}; use dicts, lists, texts, numbers, "
            "dataclasses or models of pydantic"
        ) from error


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, (datetime,)):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


def decode(raw: bytes, wanted: Any) -> Any:
    """Reads a payload into a type: bytes, a dataclass, a model of pydantic, or plain JSON."""
    if wanted is bytes:
        return raw
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise PayloadError(
            f"the payload is no JSON: {error}; a handler of `bytes` takes it"
        ) from error
    try:
        return _into(value, wanted)
    except (TypeError, ValueError, RecursionError) as error:
        name = getattr(wanted, "__name__", wanted)
        raise PayloadError(f"the payload is no {name}: {error}") from error


def _into(value: Any, wanted: Any) -> Any:
    validate = getattr(wanted, "model_validate", None)
    if callable(validate):
        return validate(value)
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return _dataclass(value, wanted)
    if wanted is datetime and isinstance(value, str):
        # Python 3.10 does not read the Z that JavaScript writes.
        zone = "+00:00" if value.endswith("Z") else ""
        return datetime.fromisoformat(value.removesuffix("Z") + zone)
    if wanted is UUID and isinstance(value, str):
        return UUID(value)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is list and isinstance(value, list) and arguments:
        return [_into(item, arguments[0]) for item in value]
    if origin is dict and isinstance(value, dict) and len(arguments) == 2:
        return {name: _into(item, arguments[1]) for name, item in value.items()}
    optional = [argument for argument in arguments if argument is not type(None)]
    if value is not None and len(optional) == 1 and len(arguments) == 2 and origin is not dict:
        return _into(value, optional[0])
    return value


def _dataclass(value: Any, wanted: Any) -> Any:
    if not isinstance(value, dict):
        raise PayloadError(f"the payload is no object; a {wanted.__name__} is one")
    types = typing.get_type_hints(wanted)
    fields = {field.name for field in dataclasses.fields(wanted) if field.init}
    unknown = sorted(value.keys() - fields)
    if unknown:
        known = ", ".join(sorted(fields))
        raise PayloadError(
            f"the payload has `{unknown[0]}`, and a {wanted.__name__} has only {known}"
        )
    return wanted(**{name: _into(item, types[name]) for name, item in value.items()})
