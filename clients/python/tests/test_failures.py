"""What fails beside a handler, in its threads and in its stream, and how a worker ends then."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from duly import AsyncClient, Bury, Context, NewEvent, Snooze, Worker

from .conftest import Place, quiet, running, until
from .stand_in import StandIn, lease_text


@pytest.fixture
def quick_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in ends no stream that is drained."""
    monkeypatch.setattr("duly.worker.DRAIN_MAX", 0.01)


async def state_of(client: AsyncClient, event: str) -> str:
    """Returns the state in which an event ends."""
    while (state := (await client.explain("q", event))["state"]) not in ("done", "dead"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return str(state)


def test_a_text_with_all_kinds_of_line_breaks_in_it_is_one_line(place: Place) -> None:
    key = "Main St\u2028Apt\u2029 4\x85\x1e\x0b!"
    seen: list[str | None] = []

    async def handle(payload: object, context: Context) -> None:
        seen.append(context.lease.key)

    async def case() -> None:
        async with AsyncClient(**place) as client:
            pushed = await client.push("q", 1, key=key, attempts=1)
            async with running(Worker(client, "q", handle)):
                assert await state_of(client, pushed.id) == "done"

    asyncio.run(case())
    assert seen == [key]


def test_what_cannot_be_a_reply_is_left_out_and_the_event_is_done(place: Place) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    circular: list[object] = []
    circular.append(circular)
    replies = [Decimal(1), {1}, deep, circular, "\udcff", "x" * (2 << 20), {"order": 7}]
    begun: list[int] = []

    async def handle(payload: int) -> object:
        begun.append(payload)
        return replies[payload]

    async def case() -> None:
        async with AsyncClient(**place) as client:
            events = [NewEvent(number, attempts=1) for number in range(len(replies))]
            pushed = await client.push_many("q", events)
            async with running(Worker(client, "q", handle)):
                for event in pushed:
                    assert await state_of(client, event.id) == "done"

    asyncio.run(case())
    assert sorted(begun) == list(range(len(replies)))


def test_a_reply_that_the_server_refuses_is_followed_by_an_ack_without_it() -> None:
    server = StandIn(lease_text(7))

    async def handle(payload: int) -> int:
        return payload

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle)):
            await until("it is settled", lambda: len(server.settled) >= 2)

    asyncio.run(case())
    assert server.settled == [{"outcome": "ack", "reply": 7}, {"outcome": "ack"}]


@dataclass
class Parcel:
    id: UUID


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Panic(BaseException):
    """As an extension in another language raises it."""


class Panicking:
    @classmethod
    def model_validate(cls, value: object) -> object:
        raise Panic


@pytest.mark.parametrize("timeout", [None, 60])
def test_whatever_a_handler_ends_by_is_a_failed_attempt(
    place: Place, timeout: float | None
) -> None:
    async def cancelled(payload: object) -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    def out_of_items(payload: object) -> None:
        next(iter([]))

    async def wrong(payload: Parcel) -> None: ...

    async def panicking(payload: Panicking) -> None: ...

    def raising(error: BaseException) -> list[Callable[..., Any]]:
        def handle(payload: object) -> None:
            raise error

        async def handle_async(payload: object) -> None:
            raise error

        return [handle, handle_async]

    handlers: list[Callable[..., Any]] = [
        cancelled,
        out_of_items,
        wrong,
        panicking,
        raising(KeyboardInterrupt())[0],
    ]
    for error in (
        SilentError(),
        ValueError("no file \udcff"),
        SystemExit(0),
        Panic(),
        GeneratorExit(),
    ):
        handlers += raising(error)

    async def case() -> None:
        async with AsyncClient(**place) as client:
            for handle in handlers:
                pushed = await client.push("q", {"id": "seven"}, attempts=1)
                async with running(Worker(client, "q", handle, timeout=timeout)):
                    assert await state_of(client, pushed.id) == "dead"

    asyncio.run(case())


def test_a_thread_that_outlasts_its_attempt_costs_no_other_event_an_attempt(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    go = threading.Event()
    begun: list[int] = []

    def handle(payload: int) -> None:
        begun.append(payload)
        if payload == 1:
            go.wait()

    async def case() -> None:
        async with AsyncClient(**place) as client:
            worker = Worker(client, "q", handle, concurrency=1, timeout=1, ttr=1)
            async with running(worker):
                first = await client.push("q", 1, attempts=1)
                assert await state_of(client, first.id) == "dead"
                second = await client.push("q", 2, attempts=1)
                await until("it is handed back", lambda: "no slot for" in caplog.text)
                assert (await client.explain("q", second.id))["state"] != "dead"
                assert begun == [1]
                go.set()
                assert await state_of(client, second.id) == "done"

    asyncio.run(case())
    assert begun == [1, 2]


def test_a_worker_that_is_cancelled_ends_its_handlers_and_leases_no_more(place: Place) -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def handle(payload: int) -> None:
        begun.append(payload)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(payload)

    async def case() -> None:
        async with AsyncClient(**place) as client:
            await client.push_many("q", [NewEvent(number, attempts=9) for number in range(3)])
            working = asyncio.create_task(Worker(client, "q", handle, concurrency=2).run())
            await until("two run", lambda: len(begun) == 2)
            await quiet(working)
            assert sorted(ended) == sorted(begun)
            left = await client.lease("q", limit=9, wait=8)
            assert sorted((lease.payload(), lease.attempt) for lease in left) == [
                (0, 1),
                (1, 1),
                (2, 1),
            ]
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(case())


@pytest.mark.usefixtures("quick_drain")
def test_a_handler_that_ends_as_its_lease_is_extended_is_settled() -> None:
    ended = asyncio.Event()
    extensions: list[None] = []

    async def respond(call: str) -> None:
        if call != "extend":
            return
        extensions.append(None)
        ended.set()
        for _ in range(2):  # until the worker sees the handler's end and the response in one turn
            await asyncio.sleep(0)

    server = StandIn(lease_text(7), respond=respond)

    async def handle(payload: int) -> None:
        await ended.wait()

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle, ttr=1)):
            await until("it is settled", lambda: bool(server.settled))

    asyncio.run(case())
    assert server.settled == [{"outcome": "ack"}]
    assert len(extensions) == 1


@pytest.mark.usefixtures("quick_drain")
@pytest.mark.parametrize(
    ("ended_by", "settlement"),
    [
        (None, {"outcome": "ack"}),
        (Bury("poison"), {"outcome": "bury", "reason": "poison"}),
        (Snooze(3_600), {"outcome": "snooze", "delay_ms": 3_600_000}),
        (ValueError("why"), {"outcome": "retry", "reason": "ValueError: why"}),
    ],
)
def test_a_handler_that_has_ended_is_settled_as_it_did_though_the_worker_is_cancelled(
    ended_by: Exception | None, settlement: dict[str, object]
) -> None:
    server = StandIn(lease_text(7), hangs_in_settle=True)

    async def handle(payload: int) -> None:
        if ended_by:
            raise ended_by

    async def case() -> None:
        async with server.client() as client:
            working = asyncio.create_task(Worker(client, "q", handle).run())
            await until("it is being settled", lambda: bool(server.settled))
            await quiet(working)

    asyncio.run(case())
    assert server.settled == [settlement] * 2


@pytest.mark.usefixtures("quick_drain")
def test_a_handler_that_ends_in_the_turn_in_which_it_is_cancelled_is_settled_as_it_did() -> None:
    server = StandIn(lease_text(7))
    workers: list[Worker] = []

    async def handle(payload: int) -> None:
        for task in workers[0]._running:
            task.cancel()

    async def case() -> None:
        async with server.client() as client:
            workers.append(Worker(client, "q", handle))
            async with running(workers[0]):
                await until("it is settled", lambda: bool(server.settled))

    asyncio.run(case())
    assert server.settled == [{"outcome": "ack"}]


@pytest.mark.usefixtures("quick_drain")
def test_a_handler_that_fails_as_it_is_told_to_end_is_handed_back() -> None:
    server = StandIn(lease_text(7))
    begun: list[int] = []

    async def handle(payload: int) -> None:
        begun.append(payload)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            raise RuntimeError("half of it is done") from error

    async def case() -> None:
        async with server.client() as client:
            working = asyncio.create_task(Worker(client, "q", handle).run())
            await until("it runs", lambda: begun == [7])
            await quiet(working)

    asyncio.run(case())
    assert server.settled == [{"outcome": "release"}]


def test_a_worker_that_fails_closes_its_stream_and_cancels_its_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = StandIn(lease_text(7))
    begun: list[int] = []
    ended: list[int] = []

    async def handle(payload: int) -> None:
        begun.append(payload)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(payload)

    async def case() -> None:
        async with server.client() as client:
            worker = Worker(client, "q", handle)

            async def broken(*_: object) -> None:
                raise RuntimeError("a bug")

            working = asyncio.create_task(worker.run())
            await until("it runs", lambda: begun == [7])
            monkeypatch.setattr(worker, "_end_stream", broken)
            worker.stop()
            with contextlib.suppress(RuntimeError):
                await working
            assert server.closed_streams == 1
            assert not worker._running
            assert ended == [7]

    asyncio.run(case())


@pytest.mark.usefixtures("quick_drain")
def test_a_stop_waits_for_no_drain_that_is_not_answered() -> None:
    server = StandIn(hangs_in_drain=True)

    async def handle(payload: object) -> None: ...

    async def case() -> None:
        async with server.client() as client, running(Worker(client, "q", handle)):
            await until("it streams", lambda: server.streams == 1)

    asyncio.run(case())
    assert server.closed_streams == 1


def test_streams_leave_connections_to_settle_with(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.client.CONNECTIONS_MAX", 1)

    async def handle(payload: object) -> None: ...

    async def case() -> None:
        async with AsyncClient(**place) as client, AsyncClient(**place) as other:
            pushed = await other.push("q", 1, attempts=1)
            async with running(Worker(client, "p", handle)), running(Worker(client, "q", handle)):
                assert await state_of(other, pushed.id) == "done"

    asyncio.run(case())
