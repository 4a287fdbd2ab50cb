"""Pushes in the transactions of Django: a model and its event are stored together, or neither.

`with_connections` is for handlers, in whose threads nothing else ends a connection that is broken.

The database is PostgreSQL, with the tables of `duly outbox schema` by a migration (`RunSQL`); a
relay carries the events to the store. `DULY_NAMESPACE` of the settings is the namespace, unless a
call names one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.conf import settings
from django.db import (
    DEFAULT_DB_ALIAS,
    close_old_connections,
    connections,
    models,
    router,
    transaction,
)

from . import outbox
from .attempt import Handler
from .errors import UsageError
from .spans import Span

_Model = TypeVar("_Model", bound=models.Model)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _namespace(given: str | None) -> str:
    namespace = given or getattr(settings, "DULY_NAMESPACE", None)
    if not namespace:
        raise UsageError("name the namespace, here or as DULY_NAMESPACE of the settings")
    return str(namespace)


def push(
    queue: str,
    payload: object,
    *,
    delay: Span = 0.0,
    namespace: str | None = None,
    using: str = DEFAULT_DB_ALIAS,
    **options: Any,
) -> str | None:
    """Pushes in the transaction that is open, of `transaction.atomic()` or `ATOMIC_REQUESTS`.

    Without one it is an error, as then the event would be stored whatever becomes of the rest. The
    options are those of `duly_push`: `key`, `unique`, `attempts`, `headers` and others. Returns the
    id of the event, if neither a key nor a unique key decides on it.
    """
    connection = connections[using]
    if not connection.in_atomic_block:
        raise UsageError(
            "there is no transaction: push in `with transaction.atomic():`, with what it is about"
        )
    with connection.cursor() as cursor:
        return outbox.push(
            cursor, queue, payload, namespace=_namespace(namespace), delay=delay, **options
        )


def save_and_push(
    instance: _Model,
    queue: str,
    payload: Callable[[_Model], object],
    *,
    delay: Span = 0.0,
    namespace: str | None = None,
    using: str | None = None,
    **options: Any,
) -> str | None:
    """Saves a model and pushes an event about it, in one transaction.

    `payload` makes the payload of the saved model, whose primary key is known then. Returns what
    `push` does.
    """
    database = using or router.db_for_write(type(instance), instance=instance)
    with transaction.atomic(using=database):
        instance.save(using=database)
        return push(
            queue, payload(instance), delay=delay, namespace=namespace, using=database, **options
        )


def with_connections(handler: _Function) -> _Function:
    """Of a `def` handler: ends the connections that are broken or too old, before it and after it.

    Django does so around a request; a thread of a worker would keep a broken one for ever.
    """
    if Handler.of(handler).is_async:
        raise UsageError("connections are of a thread: the handler must be a `def`")

    @functools.wraps(handler)
    def handle(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()
        try:
            return handler(*args, **kwargs)
        finally:
            close_old_connections()

    return cast("_Function", handle)
