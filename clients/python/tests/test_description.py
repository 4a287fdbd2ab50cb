"""The OpenAPI description in the repository is valid, and has what this package calls."""

from __future__ import annotations

import json
from pathlib import Path

from openapi_spec_validator import validate

FILE = Path(__file__).parents[3] / "server" / "openapi.json"
CALLED = {
    "pushEvents",
    "getEvent",
    "cancelEvent",
    "changeEvent",
    "explainEvent",
    "getQueue",
    "leaseEvents",
    "streamLeases",
    "settleLease",
    "extendLease",
}


def test_the_description_is_valid_and_has_what_is_called() -> None:
    description = json.loads(FILE.read_text())
    validate(description)
    operations = [one for path in description["paths"].values() for one in path.values()]
    assert {one["operationId"] for one in operations} >= CALLED
