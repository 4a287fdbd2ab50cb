"""Handlers that block the loop: no other one begins by a lease that has ended meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from duly import AsyncClient, Context, Worker

from .conftest import running, until
from .stand_in import lease_text

TTR = 1.0


@pytest.fixture(autouse=True)
def _quick_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in ends no stream that is drained."""
    monkeypatch.setattr("duly.worker.DRAIN_MAX", 0.01)


def compute(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_handler_that_computes_costs_no_other_event_its_lease(timeout: float | None) -> None:
    tokens = [f"lease-{number}" for number in range(6)]
    renewed: dict[str, float] = {}
    ages: list[float] = []
    begun: list[str] = []
    settled: list[str] = []

    async def stream() -> AsyncIterator[bytes]:
        renewed.update(dict.fromkeys(tokens, time.monotonic()))
        yield b"".join(lease_text(7, token) for token in tokens)
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            return httpx.Response(200, content=stream())
        if token in renewed and time.monotonic() - renewed[token] >= TTR:
            return httpx.Response(409, json={"kind": "lease_lost"})
        if call == "extend":
            renewed[token] = time.monotonic()
        if call == "settle":
            settled.append(token)
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        token = context.lease.token
        begun.append(token)
        ages.append(time.monotonic() - renewed[token])
        compute(0.4)

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        worker = Worker(client, "q", handle, ttr=TTR, timeout=timeout)
        async with client, running(worker):
            await until("all are over", lambda: bool(begun) and not worker._running)

    asyncio.run(case())
    assert max(ages) < TTR
    assert sorted(begun) == sorted(settled) == tokens


def test_a_lease_that_has_lain_in_the_socket_for_long_begins_only_if_it_goes_on() -> None:
    begun: list[str] = []
    extended: list[str] = []
    first_is_over = asyncio.Event()

    async def stream() -> AsyncIterator[bytes]:
        yield lease_text(7, "first")
        await first_is_over.wait()
        yield lease_text(7, "lost", TTR / 2) + lease_text(7, "held", TTR / 2) + lease_text(7, "new")
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            return httpx.Response(200, content=stream())
        if call == "extend":
            extended.append(token)
            if token == "lost":
                return httpx.Response(409, json={"kind": "lease_lost"})
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.lease.token)
        first_is_over.set()

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        worker = Worker(client, "q", handle, ttr=TTR)
        async with client, running(worker):
            await until("all are over", lambda: len(begun) > 2 and not worker._running)

    asyncio.run(case())
    assert sorted(begun) == ["first", "held", "new"]
    assert sorted(extended) == ["held", "lost"]


def test_a_lease_that_ended_in_the_socket_and_is_not_extended_does_not_begin() -> None:
    begun: list[str] = []
    extended: list[str] = []
    first_is_over = asyncio.Event()

    async def stream() -> AsyncIterator[bytes]:
        yield lease_text(7, "first")
        await first_is_over.wait()
        yield lease_text(7, "over", TTR * 1.4) + lease_text(7, "new")
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            return httpx.Response(200, content=stream())
        if call == "extend":
            extended.append(token)
            raise httpx.ConnectError("refused")
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.lease.token)
        first_is_over.set()

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        worker = Worker(client, "q", handle, ttr=TTR)
        async with client, running(worker):
            await until("all are over", lambda: len(begun) > 1 and not worker._running)

    asyncio.run(case())
    assert begun == ["first", "new"]
    assert "over" in extended


def test_a_clock_that_was_set_back_makes_only_the_next_lease_look_old() -> None:
    tokens = ["first", "second", "third"]
    begun: list[str] = []
    extended: list[str] = []
    settled = asyncio.Semaphore(1)

    async def stream() -> AsyncIterator[bytes]:
        for token in tokens:
            await settled.acquire()
            yield lease_text(7, token, 0 if token == "first" else TTR * 2)
        await asyncio.Event().wait()

    async def respond(request: httpx.Request) -> httpx.Response:
        *_, token, call = request.url.path.split("/")
        if call == "stream":
            return httpx.Response(200, content=stream())
        if call == "extend":
            extended.append(token)
        if call == "settle":
            settled.release()
        return httpx.Response(204)

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.lease.token)

    async def case() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(respond))
        client = AsyncClient("http://duly", token="x", namespace="ns", http=http)
        worker = Worker(client, "q", handle, ttr=TTR)
        async with client, running(worker):
            await until("all are over", lambda: len(begun) > 2 and not worker._running)

    asyncio.run(case())
    assert begun == tokens
    assert extended == ["second"]
