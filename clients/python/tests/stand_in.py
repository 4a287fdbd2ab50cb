"""A server of httpx that responds as a test says, for what a real one does only on a bad day."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

from duly import AsyncClient


def lease_text(payload: object, token: str = "lease-1", age: float = 0.0) -> bytes:
    """Returns an event of a stream, which has lain in a socket for `age` seconds."""
    view = {
        "id": "01KBKSY8Q3X4H1W9V0T5RZ7M2C",
        "token": token,
        "deadline_ms": round((time.time() - age) * 1_000),
        "attempt": 1,
        "attempts_left": 0,
        "headers": {},
        "payload_base64": base64.b64encode(json.dumps(payload).encode()).decode(),
    }
    return f"event: lease\ndata: {json.dumps(view)}\n\n".encode()


class StandIn:
    """Sends `streamed` on each stream and keeps it open; refuses replies, and hangs if told to.

    `respond` may respond in its stead to what is no stream.
    """

    def __init__(
        self,
        streamed: bytes = b"",
        *,
        hangs_in_drain: bool = False,
        hangs_in_settle: bool = False,
        respond: Callable[[str], Awaitable[httpx.Response | None]] | None = None,
    ) -> None:
        self.streamed = streamed
        self.hangs_in_drain = hangs_in_drain
        self.hangs_in_settle = hangs_in_settle
        self.respond = respond
        self.streams = 0
        self.closed_streams = 0
        self.settled: list[dict[str, Any]] = []

    def client(self) -> AsyncClient:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._respond))
        return AsyncClient("http://duly", token="x", namespace="ns", http=http)

    async def _respond(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/stream"):
            self.streams += 1
            return httpx.Response(200, content=self._stream())
        if path.endswith("/drain") and self.hangs_in_drain:
            await asyncio.Event().wait()
        if path.endswith("/settle"):
            self.settled.append(json.loads(request.content))
        response = await self.respond(path.split("/")[-1]) if self.respond else None
        if response:
            return response
        if path.endswith("/settle"):
            if self.hangs_in_settle and len(self.settled) == 1:
                await asyncio.Event().wait()
            if "reply" in self.settled[-1]:
                problem = {"status": 400, "title": "", "detail": "too large", "kind": "invalid"}
                return httpx.Response(400, json=problem)
        return httpx.Response(204)

    async def _stream(self) -> AsyncIterator[bytes]:
        try:
            yield self.streamed
            await asyncio.Event().wait()
        finally:
            self.closed_streams += 1
