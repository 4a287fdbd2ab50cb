"""Streams of something that is no server of duly, or a broken one."""

from __future__ import annotations

import asyncio
import re

import pytest

from duly import Backoff, ConnectionFailed, Worker

from .conftest import running, until
from .stand_in import StandIn, lease_text

QUICK = Backoff(first=0.01, longest=0.01)


def lease_due(deadline: bytes) -> bytes:
    """Returns a lease with a deadline that is none."""
    return re.sub(rb'(?<="deadline_ms": )\d+', deadline, lease_text(7))


@pytest.mark.parametrize(
    "streamed",
    [
        b"event: lease\ndata: {\n\n",
        b"event: lease\ndata: {}\n\n",
        b"event: lease\ndata: \xff\n\n",
        b"event: problem\ndata: []\n\n",
        b'event: problem\ndata: {"status": []}\n\n',
        b"event: lease\ndata: " + b"[" * 100_000 + b"\n\n",
        lease_due(b"1e20"),
        lease_due(b"1e15"),
        lease_due(b"Infinity"),
        b"data: " + b"x" * 2_000,
        b"x" * 2_000,
        b"data: x\n" * 2_000,
        b"data:\n" * 2_000,
    ],
)
def test_a_stream_that_cannot_be_read_is_a_lost_connection(
    streamed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if b"lease" not in streamed:  # it never ends
        monkeypatch.setattr("duly.sse.DATA_LEN_MAX", 1_000)
    server = StandIn(streamed)

    async def handle(payload: object) -> None: ...

    async def case() -> None:
        async with server.client() as client:
            with pytest.raises(ConnectionFailed):
                await anext(client.stream("q"))
            async with running(Worker(client, "q", handle, backoff=QUICK)):
                await until("it connects again", lambda: server.streams >= 3)

    asyncio.run(case())
