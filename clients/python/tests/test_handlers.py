"""Which functions are handlers, and how they end; options out of bounds are refused."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from duly import App, AsyncClient, Context, UsageError, Worker
from duly.attempt import Handler

from .conftest import running, until
from .stand_in import StandIn, lease_text


def logged(function: Callable[[int], Any]) -> Callable[[int], Any]:
    """Decorates a function as many libraries do; Python does not call it a coroutine function."""

    @functools.wraps(function)
    def wrapper(payload: int) -> Any:
        return function(payload)

    return wrapper


def settlement_of(handler: Callable[..., Any], timeout: float | None = None) -> dict[str, Any]:
    """Returns how an attempt of a handler ends."""
    server = StandIn(lease_text(7))

    async def case() -> None:
        async with server.client() as client:
            worker = Worker(client, "q", handler, timeout=timeout)
            async with running(worker):
                await until("it is settled", lambda: bool(server.settled))

    asyncio.run(case())
    return server.settled[0]


@pytest.fixture
def _quick_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in ends no stream that is drained."""
    monkeypatch.setattr("duly.worker.DRAIN_MAX", 0.01)


@pytest.mark.usefixtures("_quick_drain")
def test_a_handler_whose_result_is_awaitable_has_run_before_it_is_acked() -> None:
    begun: list[int] = []

    async def handle(payload: int) -> None:
        await asyncio.sleep(0)
        begun.append(payload)

    class Service:
        async def __call__(self, payload: int) -> None:
            await handle(payload)

    class Threaded:
        def __call__(self, payload: int) -> Any:
            return handle(payload)

    handlers: list[Callable[..., Any]] = [
        handle,
        logged(handle),
        Service(),
        Threaded(),
        functools.partial(handle),
    ]
    for number, handler in enumerate(handlers, 1):
        assert settlement_of(handler) == {"outcome": "ack"}
        assert begun == [7] * number


@pytest.mark.usefixtures("_quick_drain")
def test_a_handler_that_is_a_generator_has_failed() -> None:
    def handle(payload: int) -> Iterator[int]:
        yield payload

    async def handle_async(payload: int) -> AsyncIterator[int]:
        yield payload

    handlers: list[Callable[..., Any]] = [handle, handle_async, logged(handle)]
    for handler in handlers:
        settlement = settlement_of(handler)
        assert settlement["outcome"] == "retry"
        assert "a generator" in settlement["reason"]


@pytest.mark.usefixtures("_quick_drain")
def test_a_timeout_of_something_that_a_handler_calls_is_its_own() -> None:
    def handle(payload: int) -> None:
        raise TimeoutError("the bank")

    async def handle_async(payload: int) -> None:
        raise asyncio.TimeoutError("the bank")

    async def late(payload: int) -> None:
        await asyncio.Event().wait()

    handlers: list[Callable[..., Any]] = [handle, handle_async]
    for handler in handlers:
        settlement = settlement_of(handler, timeout=30)
        assert settlement["outcome"] == "retry"
        assert settlement["reason"].endswith("TimeoutError: the bank")
    expected = {"outcome": "retry", "reason": "timed out after 0.01 s"}
    assert settlement_of(late, timeout=0.01) == expected


@pytest.mark.usefixtures("_quick_drain")
def test_a_payload_of_another_form_is_a_dead_letter_before_its_handler_begins() -> None:
    begun: list[object] = []

    def of_text(payload: str) -> None:
        begun.append(payload)

    async def of_list(payload: list[int] | None) -> None:
        begun.append(payload)

    def of_bytes(payload: bytes) -> None:
        begun.append(payload)

    handlers: list[Callable[..., Any]] = [of_text, of_list]
    for handler in handlers:
        settlement = settlement_of(handler)
        assert settlement["outcome"] == "bury"
        assert "a whole number, not a" in settlement["reason"]
    assert settlement_of(of_bytes) == {"outcome": "ack"}
    assert begun == [b"7"]


@pytest.mark.usefixtures("_quick_drain")
def test_a_handler_is_called_by_what_it_takes_at_its_places() -> None:
    seen: list[object] = []

    def of_a_name(order: int, *, db: object = None) -> None:
        seen.append(db)

    def of_a_default(order: int, retries: int = 3) -> None:
        seen.append(retries)

    def of_a_place(order: int, /) -> None:
        seen.append(order)

    def unwrapped(*args: Any, **kwargs: Any) -> None:
        seen.extend([args, kwargs])

    def of_three(order: int, context: Context, more: int = 1) -> None:
        seen.append((type(context), more))

    def of_context(order: int, context: Context | None = None) -> None:
        seen.append(type(context))

    def of_any(order: int, anything) -> None:  # type: ignore[no-untyped-def]
        seen.append(type(anything))

    handlers: list[Callable[..., Any]] = [
        of_a_name,
        of_a_default,
        of_a_place,
        unwrapped,
        of_three,
        of_context,
        of_any,
    ]
    for handler in handlers:
        assert settlement_of(handler) == {"outcome": "ack"}
    assert seen == [None, 3, 7, (7,), {}, (Context, 1), Context, Context]


def test_a_signature_that_cannot_be_called_is_refused() -> None:
    class Local: ...

    def of_local(payload: Local) -> None: ...

    def of_three(payload: int, context: object, more: object) -> None: ...

    def of_none() -> None: ...

    def of_none_by_place(*, order: int) -> None: ...

    def of_a_name(order: int, *, db: object) -> None: ...

    def of_names(**kwargs: object) -> None: ...

    refused: list[tuple[Callable[..., Any], str]] = [
        (of_none_by_place, "needs order by name"),
        (of_a_name, "needs db by name"),
        (of_none, "0 arguments"),
        (of_names, "0 arguments"),
    ]
    for wrong, reason in refused:
        with pytest.raises(UsageError, match=reason):
            Handler.of(wrong)
    with pytest.raises(UsageError, match="one of the module"):
        Handler.of(of_local)
    with pytest.raises(UsageError, match="3 arguments"):
        Handler.of(of_three)


def test_options_out_of_bounds_and_a_second_task_of_a_queue_are_refused() -> None:
    def handle(payload: int) -> None: ...

    client = AsyncClient(token="x", namespace="ns")
    with pytest.raises(UsageError, match="1 to 1000"):
        Worker(client, "q", handle, concurrency=0)
    with pytest.raises(UsageError, match="at least 1 s"):
        Worker(client, "q", handle, ttr=0.1)
    app = App()
    app.task(queue="q")(handle)
    with pytest.raises(UsageError, match="a task already, handle"):
        app.task(queue="q")(handle)
    with pytest.raises(UsageError, match="there are: q"):
        app.workers(client, ["other"])


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DULY_TOKEN", raising=False)
    with pytest.raises(UsageError, match="DULY_TOKEN"):
        AsyncClient(namespace="ns")
