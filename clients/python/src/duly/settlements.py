"""How an attempt ends: what a handler returns or raises, and what is sent of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .errors import Pickled
from .payloads import encode
from .spans import Span, span_ms

REASON_LEN_MAX = 4_096
"""The longest reason, in characters; a longer one is cut."""


@dataclass(frozen=True)
class Settlement:
    """What is asked of the server for a leased event."""

    body: dict[str, Any]

    @property
    def outcome(self) -> str:
        return str(self.body["outcome"])


def _of(outcome: str, reason: str | None = None, delay: Span | None = None) -> Settlement:
    body: dict[str, Any] = {"outcome": outcome}
    if reason is not None:
        # A name of a file may have characters that are none in UTF-8.
        body["reason"] = reason[:REASON_LEN_MAX].encode(errors="replace").decode()
    if delay is not None:
        # What is computed from a time may be a moment late.
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        body["delay_ms"] = span_ms("delay", max(seconds, 0.0))
    return Settlement(body)


def ack(reply: object = None) -> Settlement:
    """The event is done; `reply` goes to a caller that waits for one."""
    if reply is None:
        return _of("ack")
    return Settlement({"outcome": "ack", "reply": encode(reply)})


def release() -> Settlement:
    """It is ready again at once, at its place; the attempt does not count."""
    return _of("release")


def snooze(delay: Span) -> Settlement:
    """It is due again after a delay; the attempt does not count."""
    return _of("snooze", delay=delay)


def retry(reason: str | None = None, delay: Span | None = None) -> Settlement:
    """It failed, and is due again after a delay or by the policy of the queue."""
    return _of("retry", reason, delay)


def bury(reason: str | None = None) -> Settlement:
    """It becomes a dead letter."""
    return _of("bury", reason)


def discard(reason: str | None = None) -> Settlement:
    """It is dropped as no longer useful."""
    return _of("discard", reason)


class Outcome(Pickled):
    """Raise it in a handler to end the attempt otherwise than by an ack."""

    def __init__(self, settlement: Settlement) -> None:
        super().__init__(settlement.outcome)
        self.settlement = settlement


class Retry(Outcome):
    """The attempt failed; the event is due again."""

    def __init__(self, reason: str | None = None, *, delay: Span | None = None) -> None:
        super().__init__(retry(reason, delay))


class Snooze(Outcome):
    """The event is due again after a delay, and the attempt does not count."""

    def __init__(self, delay: Span) -> None:
        super().__init__(snooze(delay))


class Bury(Outcome):
    """The event becomes a dead letter: no further attempt would help."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(bury(reason))


class Discard(Outcome):
    """The event is no longer useful."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(discard(reason))
