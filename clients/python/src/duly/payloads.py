"""Payloads: values as JSON, and back into the type that a handler wants."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from .errors import DulyError, UsageError
from .forms import into, value_of


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
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


def decode(raw: bytes, wanted: Any) -> Any:
    """Reads a payload into a type: bytes, plain JSON, or one that `into` knows."""
    if wanted is bytes:
        return raw
    try:
        value = value_of(raw.decode())
    except (ValueError, RecursionError) as error:
        raise PayloadError(
            f"the payload is no JSON: {error}; a handler of `bytes` takes it"
        ) from error
    try:
        return value if wanted is None else into(wanted, value)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        name = getattr(wanted, "__name__", wanted)
        raise PayloadError(f"the payload is no {name}: {error}") from error
