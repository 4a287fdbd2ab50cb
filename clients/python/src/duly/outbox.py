"""Pushes in a transaction of PostgreSQL: the event is there if the transaction commits.

The tables and the function `duly_push` are those of `duly outbox schema`; a relay carries the
events to the store.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any, Protocol

from .errors import UsageError
from .payloads import encode
from .protocol import checked_name
from .spans import Span, span_ms

SQL = "select duly_push(%s, %s::json, %s::interval, %s::json)"


class Cursor(Protocol):
    """A cursor of psycopg, of Django, or of another driver with `%s`."""

    def execute(self, sql: str, params: Any = ..., /) -> Any: ...

    def fetchone(self) -> Any: ...


def interval(milliseconds: int) -> str:
    """Returns a span as an interval of hours: a day may have 23, in a session's time zone."""
    seconds, milliseconds = divmod(milliseconds, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}.{milliseconds:03}"


def arguments(
    namespace: str, queue: str, payload: object, delay: Span, options: dict[str, Any]
) -> tuple[str, str, str, str]:
    """Returns the arguments of `duly_push`; an option that is `None` is not there."""
    checked_name("namespace", namespace)
    checked_name("queue", queue)
    return (
        f"{namespace}.{queue}",
        json.dumps(encode(payload)),
        interval(span_ms("delay", delay)),
        json.dumps({name: value for name, value in options.items() if value is not None}),
    )


def push(
    cursor: Cursor,
    queue: str,
    payload: object,
    *,
    namespace: str,
    delay: Span = 0.0,
    **options: Any,
) -> str | None:
    """Pushes in the transaction of a cursor, such as that of `django.db.connection.cursor()`.

    The options are those of `duly_push`: `key`, `unique`, `attempts`, `headers` and others. Returns
    the id of the event, if neither a key nor a unique key decides on it.
    """
    executed = cursor.execute(SQL, arguments(namespace, queue, payload, delay, options))
    _check_done(executed, "await cursor.execute(outbox.SQL, outbox.arguments(...)) yourself")
    row = cursor.fetchone()
    return None if row is None or row[0] is None else str(row[0])


def push_sqlalchemy(
    connection: Any,
    /,
    queue: str,
    payload: object,
    *,
    namespace: str,
    delay: Span = 0.0,
    **options: Any,
) -> str | None:
    """As `push`, in the transaction of a connection or a session of SQLAlchemy.

    With one of asyncio: `await session.run_sync(outbox.push_sqlalchemy, queue, payload, ...)`.
    """
    from sqlalchemy import text  # type: ignore[import-not-found, unused-ignore]

    names = ("queue", "payload", "delay", "options")
    values = arguments(namespace, queue, payload, delay, options)
    sql = text(
        "select duly_push("
        ":queue, cast(:payload as json), cast(:delay as interval), cast(:options as json))"
    )
    executed = connection.execute(sql, dict(zip(names, values, strict=True)))
    _check_done(executed, "await session.run_sync(outbox.push_sqlalchemy, queue, payload, ...)")
    pushed = executed.scalar()
    return None if pushed is None else str(pushed)


def _check_done(executed: object, advice: str) -> None:
    """Refuses a cursor or a session of asyncio, which has executed nothing yet."""
    if isinstance(executed, Coroutine):
        executed.close()  # or it warns that nobody has awaited it
        raise UsageError(f"this is one of asyncio, and nothing was pushed; {advice}")
