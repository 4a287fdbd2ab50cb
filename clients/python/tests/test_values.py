"""Payloads at the edges of JSON, from a client to a worker."""

from __future__ import annotations

import asyncio
import json

import pytest

from duly import AsyncClient, Client, UsageError, Worker

from .conftest import Place, running, until

VALUES: list[object] = [
    1 << 63,
    1 << 64,
    -(1 << 63) - 1,
    10**400,
    1e308,
    5e-324,
    -0.0,
    1.0,
    "\u0000\u2028\U0001f600",
    {"": {"\u00e9": None}},
    json.loads("[" * 500 + "]" * 500),
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_payload_comes_back_as_it_was(value: object, duly_client: Client) -> None:
    duly_client.push("q", value)
    (lease,) = duly_client.lease("q")
    assert json.dumps(lease.payload()) == json.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [float("inf")],
        "half \ud83d",
        10**5_000,
        {(1, 2): 3},
        {1, 2},
        object(),
    ],
    ids=range(7),
)
def test_a_payload_that_is_no_json_is_not_pushed(value: object, duly_client: Client) -> None:
    with pytest.raises(UsageError, match="as JSON"):
        duly_client.push("q", value)
    assert duly_client.stats("q")["ready"] == 0


@pytest.mark.parametrize(
    "raw",
    [
        b'"\xff"',
        b'"\xed\xa0\x80"',
        '"a"'.encode("utf-16"),
        '"a"'.encode("utf-8-sig"),
        b"",
        b"7 8",
        b"[" * 100_000,
    ],
    ids=range(7),
)
def test_bytes_that_are_no_json_become_a_dead_letter(raw: bytes, place: Place) -> None:
    begun: list[object] = []

    async def handle(payload: object) -> None:
        begun.append(payload)

    async def case() -> None:
        async with AsyncClient(**place) as client:
            pushed = await client.push("q", raw, attempts=9)
            with Client(**place) as other:
                async with running(Worker(client, "q", handle)):
                    await until("it is dead", lambda: bool(begun) or other.stats("q")["dead"] == 1)
            assert (await client.explain("q", pushed.id))["state"] == "dead"

    asyncio.run(case())
    assert begun == []
