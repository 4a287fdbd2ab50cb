"""Spans and times, in the milliseconds that the server takes."""

from __future__ import annotations

from datetime import datetime, timedelta

from .errors import UsageError

Span = float | timedelta
"""A span: seconds, or a `timedelta`."""

SPAN_MS_MAX = 4_294_967_295_000
"""The longest span that the server takes: 136 years."""


def span_ms(name: str, span: Span) -> int:
    """Returns a span in milliseconds, rounded up, so that nothing is early."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if not 0 <= seconds <= SPAN_MS_MAX / 1_000:
        raise UsageError(f"{name} is {span}; it must be 0 to {SPAN_MS_MAX // 1_000} seconds")
    return -int(-seconds * 1_000 // 1)


def time_ms(name: str, time: datetime) -> int:
    """Returns a time in milliseconds since the epoch."""
    if time.tzinfo is None:
        raise UsageError(
            f"{name} is {time.isoformat()}, which has no time zone; use datetime.now(timezone.utc) "
            "or a zone of zoneinfo"
        )
    milliseconds = -int(-time.timestamp() * 1_000 // 1)
    if milliseconds < 0:
        raise UsageError(f"{name} is {time.isoformat()}; it must be 1970 or later")
    return milliseconds
