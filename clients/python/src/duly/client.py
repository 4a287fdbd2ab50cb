"""The asyncio client."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import httpx

from . import protocol, sse
from .errors import ConnectionFailed, DulyError, Problem, ProblemError, error_of
from .messages import Event, Lease, NewEvent, Pushed, note_interrupted
from .protocol import Call, Options
from .settlements import Settlement
from .spans import Span

T = TypeVar("T")

STREAM_SILENCE_MAX = 35.0
"""A stream has a comment every ten seconds; one that is silent for longer is dead."""
CONNECTIONS_MAX = 100
"""How many connections there are beside those of streams, of which each has its own."""


class AsyncClient:
    """Pushes, looks up, changes, leases and settles events. Use it as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.options = Options.of(url, token, namespace)
        self._timeout = timeout
        self._owns_http = http is None
        self._http = http or self._new_http(CONNECTIONS_MAX)
        # For each request a pool looks at every one that waits there; here they wait in a line. A
        # client of the user's has bounds of its own.
        self._turns = asyncio.Semaphore(CONNECTIONS_MAX) if http is None else None
        # Streams are as many as workers; in the same pool they would leave nothing to settle with.
        self._streams = http or self._new_http(None)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()
            await self._streams.aclose()

    def _new_http(self, connections: int | None) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=connections)
        return httpx.AsyncClient(
            limits=limits,
            timeout=self._timeout,
            mounts=self.options.mounts,
            verify=protocol.tls(),
        )

    def _url(self, path: str) -> str:
        return f"{self.options.url}/v1/{self.options.namespace}/{path}"

    @asynccontextmanager
    async def _turn(self, path: str) -> AsyncIterator[None]:
        """Waits in the line, for as long as a request may take."""
        turns = self._turns
        if turns is None:
            yield
            return
        await (self._wait_for(turns, path) if turns.locked() else turns.acquire())
        try:
            yield
        finally:
            turns.release()

    async def _wait_for(self, turns: asyncio.Semaphore, path: str) -> None:
        # Not by `wait_for`, which may swallow a cancellation before Python 3.12.
        waiting = asyncio.ensure_future(turns.acquire())
        try:
            await asyncio.wait({waiting}, timeout=self._timeout)
        except asyncio.CancelledError:
            if not waiting.cancel():
                turns.release()
            raise
        if waiting.cancel():
            text = f"{path}: no connection was free within {self._timeout} s"
            raise ConnectionFailed(text)

    async def _send_once(self, call: Call[T]) -> T:
        try:
            async with self._turn(f"{call.method} {call.path}"):
                response = await self._http.request(
                    call.method,
                    self._url(call.path),
                    content=call.content,
                    headers=self.options.headers_of(call.content),
                    timeout=self._timeout + call.wait,
                )
        except httpx.RequestError as error:
            raise ConnectionFailed(f"{call.method} {call.path}: {error!r}") from error
        return protocol.response_of(call, response)

    async def _send(self, call: Call[T]) -> T:
        repeats = protocol.Repeats(call)
        while True:
            try:
                return await self._send_once(call)
            except (ConnectionFailed, ProblemError) as error:
                pause = repeats.pause(error)
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def push(self, queue: str, payload: object, **options: Any) -> Pushed:
        """Pushes an event; the options are the fields of `NewEvent`."""
        return (await self.push_many(queue, [NewEvent(payload, **options)]))[0]

    async def push_many(self, queue: str, events: Iterable[NewEvent]) -> list[Pushed]:
        """Pushes events, with each request a thousand or 7 MiB.

        An error of a later request has what was stored as `pushed`, and the others as `remaining`.
        """
        events = list(events)
        pushed: list[Pushed] = []
        for call in protocol.pushes(queue, events):
            try:
                results = await self._send(call)
            except DulyError as error:
                note_interrupted(error, pushed, events)
                raise
            pushed.extend(results)
        return pushed

    async def get(self, queue: str, event: str) -> Event:
        """Returns an event that is not over."""
        return await self._send(protocol.get(queue, event))

    async def cancel(self, queue: str, event: str) -> None:
        """Cancels an event that waits."""
        await self._send(protocol.cancel(queue, event))

    async def reschedule(self, queue: str, event: str, delay: Span) -> None:
        """Makes an event that waits due after a delay from now."""
        await self._send(protocol.reschedule(queue, event, delay))

    async def explain(self, queue: str, event: str) -> dict[str, Any]:
        """Explains where an event is and what it waits for; also one that is over."""
        return await self._send(protocol.explain(queue, event))

    async def stats(self, queue: str) -> dict[str, Any]:
        """Returns how many events of a queue are scheduled, ready, leased and dead."""
        return await self._send(protocol.stats(queue))

    async def lease(
        self, queue: str, *, ttr: Span = 30.0, limit: int = 1, wait: Span = 0.0
    ) -> list[Lease]:
        """Leases events for `ttr`; waits up to `wait` for the first, and 8 s at most."""
        return await self._send(protocol.lease(queue, ttr, limit, wait))

    async def settle(self, lease: Lease, settlement: Settlement) -> None:
        """Ends an attempt."""
        await self._settle(lease, settlement, math.inf)

    async def _settle(self, lease: Lease, settlement: Settlement, lasts: float) -> None:
        """Ends an attempt; the lease lasts so many seconds more."""
        await self._send(protocol.settle(lease.token, settlement, lasts))

    async def extend(self, lease: Lease, ttr: Span) -> None:
        """Makes a lease end `ttr` from now."""
        await self._send(protocol.extend(lease.token, ttr))

    async def drain(self, queue: str, name: str) -> None:
        """Lets a stream end when all that it has sent is settled."""
        await self._drain(queue, name, math.inf)

    async def _drain(self, queue: str, name: str, lasts: float) -> None:
        """Drains a stream; who wants that waits so many seconds more."""
        await self._send(protocol.drain(queue, name, lasts))

    async def stream(
        self,
        queue: str,
        *,
        ttr: Span = 30.0,
        max_in_flight: int = 1,
        name: str | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Lease]:
        """Streams leased events, at most `max_in_flight` that are not settled; ends by an error.

        With a name it can be drained. `begun` is called when the server knows it.
        """
        url = self._url(protocol.stream_path(queue, ttr, max_in_flight, name))
        timeout = httpx.Timeout(self._timeout, read=STREAM_SILENCE_MAX)
        try:
            async with self._streams.stream(
                "GET", url, headers=self.options.headers, timeout=timeout
            ) as response:
                if response.status_code >= 300:
                    text = (await response.aread()).decode(errors="replace")
                    raise protocol.problem_error(response.status_code, text, response.headers)
                begun()
                parser = sse.Parser()
                async for line in sse.lines(response.aiter_bytes()):
                    event = parser.line(line)
                    if event is None:
                        continue
                    name, data = event
                    if name == "lease":
                        yield Lease.of(json.loads(data))
                    elif name == "problem":
                        value = json.loads(data)
                        raise error_of(Problem.of(value["status"], value))
        except (httpx.RequestError, *protocol.UNREADABLE) as error:
            raise ConnectionFailed(f"stream of {queue}: {error!r}") from error
        raise ConnectionFailed(f"stream of {queue}: the server closed it")
