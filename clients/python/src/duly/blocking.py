"""The blocking client."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

import httpx

from . import protocol
from .errors import ConnectionFailed, DulyError, ProblemError
from .messages import Event, Lease, NewEvent, Pushed, note_interrupted
from .protocol import Call, Options
from .settlements import Settlement
from .spans import Span

T = TypeVar("T")


class Client:
    """Pushes, looks up, changes, leases and settles events. Use it as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        namespace: str | None = None,
        timeout: float = 30.0,
        http: httpx.Client | None = None,
    ) -> None:
        self.options = Options.of(url, token, namespace)
        self._timeout = timeout
        self._owns_http = http is None
        self._used_http = http or self._new_http()
        self._process = os.getpid()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _http(self) -> httpx.Client:
        """The connections: after a fork other ones, as two processes cannot share a connection."""
        if self._owns_http and self._process != os.getpid():
            self._used_http = self._new_http()
            self._process = os.getpid()
        return self._used_http

    def _new_http(self) -> httpx.Client:
        return httpx.Client(
            timeout=self._timeout, mounts=self.options.mounts, verify=protocol.tls()
        )

    def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            self._http.close()

    def _send_once(self, call: Call[T]) -> T:
        try:
            response = self._http.request(
                call.method,
                f"{self.options.url}/v1/{self.options.namespace}/{call.path}",
                content=call.content,
                headers=self.options.headers_of(call.content),
                timeout=self._timeout + call.wait,
            )
        except httpx.RequestError as error:
            raise ConnectionFailed(f"{call.method} {call.path}: {error!r}") from error
        return protocol.response_of(call, response)

    def _send(self, call: Call[T]) -> T:
        repeats = protocol.Repeats(call)
        while True:
            try:
                return self._send_once(call)
            except (ConnectionFailed, ProblemError) as error:
                pause = repeats.pause(error)
                if pause is None:
                    raise
                time.sleep(pause)

    def push(self, queue: str, payload: object, **options: Any) -> Pushed:
        """Pushes an event; the options are the fields of `NewEvent`."""
        return self.push_many(queue, [NewEvent(payload, **options)])[0]

    def push_many(self, queue: str, events: Iterable[NewEvent]) -> list[Pushed]:
        """Pushes events, with each request a thousand or 7 MiB.

        An error of a later request has what was stored as `pushed`, and the others as `remaining`.
        """
        events = list(events)
        pushed: list[Pushed] = []
        for call in protocol.pushes(queue, events):
            try:
                results = self._send(call)
            except DulyError as error:
                note_interrupted(error, pushed, events)
                raise
            pushed.extend(results)
        return pushed

    def get(self, queue: str, event: str) -> Event:
        """Returns an event that is not over."""
        return self._send(protocol.get(queue, event))

    def cancel(self, queue: str, event: str) -> None:
        """Cancels an event that waits."""
        self._send(protocol.cancel(queue, event))

    def reschedule(self, queue: str, event: str, delay: Span) -> None:
        """Makes an event that waits due after a delay from now."""
        self._send(protocol.reschedule(queue, event, delay))

    def explain(self, queue: str, event: str) -> dict[str, Any]:
        """Explains where an event is and what it waits for; also one that is over."""
        return self._send(protocol.explain(queue, event))

    def stats(self, queue: str) -> dict[str, Any]:
        """Returns how many events of a queue are scheduled, ready, leased and dead."""
        return self._send(protocol.stats(queue))

    def lease(
        self, queue: str, *, ttr: Span = 30.0, limit: int = 1, wait: Span = 0.0
    ) -> list[Lease]:
        """Leases events for `ttr`; waits up to `wait` for the first, and 8 s at most."""
        return self._send(protocol.lease(queue, ttr, limit, wait))

    def settle(self, lease: Lease, settlement: Settlement) -> None:
        """Ends an attempt."""
        self._send(protocol.settle(lease.token, settlement))

    def extend(self, lease: Lease, ttr: Span) -> None:
        """Makes a lease end `ttr` from now."""
        self._send(protocol.extend(lease.token, ttr))
