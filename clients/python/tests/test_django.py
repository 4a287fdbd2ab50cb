"""The helper for Django, on a real PostgreSQL: a model and its event are stored together."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, models, transaction

from duly import UsageError
from duly.attempt import Handler

from .postgres import outbox_database


@pytest.fixture(scope="module")
def order_model() -> Iterator[Any]:
    # Not in a folder of pytest, which another user cannot reach.
    with (
        tempfile.TemporaryDirectory(prefix="duly-dj-", dir="/tmp") as folder,
        outbox_database(Path(folder)),
    ):
        settings.configure(
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "HOST": folder,
                    "USER": "postgres",
                    "NAME": "postgres",
                }
            },
            DULY_NAMESPACE="shop",
            USE_TZ=True,
        )
        django.setup()

        class Order(models.Model):
            number: Any = models.IntegerField(unique=True)

            class Meta:
                app_label = "shop"

        with connection.schema_editor() as editor:
            editor.create_model(Order)
        yield Order
        connection.close()


@pytest.fixture(autouse=True)
def empty(order_model: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("truncate duly_outbox")
    order_model.objects.all().delete()


def events() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            "select queue, payload::text, options ->> 'attempts' from duly_outbox order by n"
        )
        return list(cursor.fetchall())


def test_a_model_and_its_event_are_saved_together(order_model: Any) -> None:
    from duly.django import save_and_push

    order = order_model(number=7)
    pushed = save_and_push(order, "close", lambda it: {"id": it.pk}, delay=1_800, attempts=5)
    assert pushed is not None
    assert len(pushed) == 26
    assert events() == [("shop.close", f'{{"id": {order.pk}}}', "5")]

    # Refused by the database: nothing of it is there.
    with pytest.raises(IntegrityError):
        save_and_push(order_model(number=7), "close", lambda it: {"id": it.pk})
    assert len(events()) == 1

    # The payload fails after the save: the save is undone.
    def broken(_order: Any) -> object:
        raise ValueError("no payload")

    with pytest.raises(ValueError, match="no payload"):
        save_and_push(order_model(number=8), "close", broken)
    assert order_model.objects.count() == 1


def twice(order_model: Any) -> None:
    """Pushes in a savepoint, which another row with the same number undoes."""
    from duly.django import push

    with transaction.atomic():
        push("close", {"id": 3})
        order_model.objects.create(number=2)


def test_a_push_is_part_of_the_transaction_around_it(order_model: Any) -> None:
    from duly.django import push

    def undone() -> None:
        with transaction.atomic():
            order_model.objects.create(number=1)
            push("close", {"id": 1})
            raise RuntimeError("undo")

    with pytest.raises(RuntimeError, match="undo"):
        undone()
    assert (order_model.objects.count(), events()) == (0, [])

    with transaction.atomic():
        order_model.objects.create(number=2)
        with pytest.raises(IntegrityError):
            twice(order_model)
        push("close", {"id": 2}, namespace="other")
    assert events() == [("other.close", '{"id": 2}', None)]


def test_a_push_without_a_transaction_is_refused(order_model: Any) -> None:
    from duly.django import push

    with pytest.raises(UsageError, match=r"transaction\.atomic"):
        push("close", {"id": 1})
    with transaction.atomic(), pytest.raises(UsageError, match="queue"):
        push("a.b", {"id": 1})
    assert events() == []


def test_a_handler_with_connections_works_again_after_a_restart_of_the_database(
    order_model: Any,
) -> None:
    from duly.django import with_connections

    @with_connections
    def handle(payload: int) -> int:
        """Counts."""
        connection.settings_dict["CONN_MAX_AGE"] = None  # of this thread; it is never too old
        with connection.cursor() as cursor:
            cursor.execute("select pg_backend_pid()")
            return int(cursor.fetchone()[0])

    async def handle_async(payload: int) -> None: ...

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(handle, 7).result()
        with connection.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s, 5000)", [first])
        with pytest.raises(OperationalError):
            threads.submit(handle, 7).result()
        second = threads.submit(handle, 7).result()
        assert threads.submit(handle, 7).result() == second != first
        threads.submit(lambda: connection.close()).result()
    assert Handler.of(handle).payload_type is int
    assert handle.__doc__ == "Counts."
    with pytest.raises(UsageError, match="a `def`"):
        with_connections(handle_async)
