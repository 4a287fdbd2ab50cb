"""What is sent and what comes back: events to push, pushed ones, leased ones."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from .errors import DulyError, Problem, ProblemError, UsageError, error_of
from .payloads import decode, encode
from .spans import Span, span_ms, time_ms


@dataclass(frozen=True)
class NewEvent:
    """An event to push: due at once, after `delay`, or at `at`.

    One that is pushed again, as after an error, is stored once while it waits or runs, and for a
    minute after.
    """

    payload: object
    delay: Span | None = None
    at: datetime | None = None
    key: str | None = None
    """By which events are found."""
    unique: str | None = None
    """Of which only one event waits or runs, in a queue of one bucket, the server's default."""
    replace: bool = False
    """Whether an event that waits with the unique key is replaced."""
    attempts: int | None = None
    expires: Span | None = None
    keep_payload: bool | None = None
    """Whether its records keep its payload, so that it can be replayed."""
    version: int = 0
    """Of the form of its payload, for handlers in Rust that upgrade older ones."""
    headers: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    """A ULID, if you choose it."""
    idempotency_key: str | None = None
    """A name that stands for the id. Without it and `id` one is made, so that a repeat is safe."""
    _made_key: str = field(
        default_factory=lambda: uuid.uuid4().hex, init=False, repr=False, compare=False
    )

    def body(self) -> dict[str, Any]:
        """Returns the event as the server takes it."""
        if self.delay is not None and self.at is not None:
            raise UsageError("there are `delay` and `at`; give one of them")
        if self.id is not None and self.idempotency_key is not None:
            raise UsageError("there are `id` and `idempotency_key`; give one of them")
        if self.attempts is not None and not 1 <= self.attempts <= 65_535:
            raise UsageError(f"attempts is {self.attempts}; it must be 1 to 65535")
        if not 0 <= self.version <= 4_294_967_295:
            raise UsageError(f"version is {self.version}; it must be 0 to 4294967295")
        body: dict[str, Any] = {}
        if isinstance(self.payload, bytes):
            body["payload_base64"] = base64.b64encode(self.payload).decode()
        else:
            body["payload"] = encode(self.payload)
        if self.delay is not None:
            body["delay_ms"] = span_ms("delay", self.delay)
        if self.at is not None:
            body["due_ms"] = time_ms("at", self.at)
        if self.expires is not None:
            body["expires_ms"] = span_ms("expires", self.expires)
        if self.id is not None:
            body["id"] = self.id
        else:
            body["idempotency_key"] = self.idempotency_key or self._made_key
        optional = {
            "key": self.key,
            "unique": self.unique,
            "attempts": self.attempts,
            "keep_payload": self.keep_payload,
        }
        body.update({name: value for name, value in optional.items() if value is not None})
        if self.replace:
            body["replace"] = True
        if self.version:
            body["version"] = self.version
        if self.headers:
            body["headers"] = dict(self.headers)
        return body


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, timezone.utc)


@dataclass(frozen=True)
class Pushed:
    """A stored event."""

    id: str
    due: datetime
    duplicate: bool
    """Whether it was there already; nothing was changed then."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Pushed:
        return cls(value["id"], _time(value["due_ms"]), value["duplicate"])


class PushManyError(ProblemError):
    """Not every event was stored.

    `results` has a `Pushed` or a `Problem` for each event, from the first one to the last of the
    request that failed; later ones were not sent.
    """

    def __init__(self, results: list[Pushed | Problem]) -> None:
        problems = [result for result in results if isinstance(result, Problem)]
        super().__init__(problems[0])
        self.results = results

    @property
    def may_pass(self) -> bool:
        """Whether a repeat may store one more."""
        return any(isinstance(it, Problem) and it.may_pass for it in self.results)


def note_interrupted(
    error: DulyError, pushed: Sequence[Pushed], events: Sequence[NewEvent]
) -> None:
    """Adds to an error what earlier requests have stored, and what can be pushed again."""
    error.pushed, error.remaining = pushed, events[len(pushed) :]
    if isinstance(error, PushManyError):
        error.results = [*pushed, *error.results]


def pushed_of(count: int, _status: int, value: list[Mapping[str, Any]]) -> list[Pushed]:
    """Reads the response to a push of so many events."""
    if len(value) != count:
        raise ValueError(f"{len(value)} results for {count} events")
    # Not by the status: a gateway may make a 200 of each success.
    results = [
        Problem.of(item["problem"]["status"], item["problem"])
        if "problem" in item
        else Pushed.of(item)
        for item in value
    ]
    pushed = [result for result in results if isinstance(result, Pushed)]
    if len(pushed) == count:
        return pushed
    if count == 1 and isinstance(results[0], Problem):
        raise error_of(results[0])
    raise PushManyError(results)


@dataclass(frozen=True)
class Event:
    """An event that is not over."""

    id: str
    state: str
    due: datetime
    attempts_left: int
    expires: datetime | None
    key: str | None
    headers: Mapping[str, str]
    raw: bytes

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Event:
        expires = value.get("expires_ms")
        return cls(
            id=value["id"],
            state=value["state"],
            due=_time(value["due_ms"]),
            attempts_left=value["attempts_left"],
            expires=None if expires is None else _time(expires),
            key=value.get("key"),
            headers=value["headers"],
            raw=base64.b64decode(value["payload_base64"]),
        )

    def payload(self, wanted: Any = None) -> Any:
        """Returns the payload, as plain JSON or as a type."""
        return decode(self.raw, wanted)


@dataclass(frozen=True)
class Lease:
    """A leased event: settle it before `deadline`, or extend the lease."""

    id: str
    token: str
    deadline: datetime
    attempt: int
    """From 1."""
    attempts_left: int
    key: str | None
    headers: Mapping[str, str]
    raw: bytes

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Lease:
        return cls(
            id=value["id"],
            token=value["token"],
            deadline=_time(value["deadline_ms"]),
            attempt=value["attempt"],
            attempts_left=value["attempts_left"],
            key=value.get("key"),
            headers=value["headers"],
            raw=base64.b64decode(value["payload_base64"]),
        )

    def payload(self, wanted: Any = None) -> Any:
        """Returns the payload, as plain JSON or as a type."""
        return decode(self.raw, wanted)
