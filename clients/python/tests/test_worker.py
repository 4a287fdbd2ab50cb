"""The worker: leases, outcomes, bounds, and its stop."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from duly import App, AsyncClient, Context, DeniedError, Discard, NewEvent, Retry, Snooze, Worker
from duly.testing import TestServer

from .conftest import Place, running, until
from .stand_in import StandIn


@dataclass
class Order:
    id: int


def test_each_outcome_is_what_the_server_records(duly_server: TestServer, place: Place) -> None:
    seen: list[tuple[str, int]] = []

    async def handle(payload: str, context: Context) -> None:
        seen.append((payload, context.attempt))
        if payload == "retry" and context.attempt < 3:
            raise Retry("not yet", delay=60)
        if payload == "snooze" and len([one for one in seen if one[0] == "snooze"]) < 3:
            raise Snooze(60)
        if payload == "discard":
            raise Discard("of no use")
        if payload == "fail":
            raise RuntimeError("the bank is closed")

    async def case() -> None:
        async with AsyncClient(**place) as client:
            worker = Worker(client, "q", handle)
            async with running(worker):
                names = ["ack", "retry", "snooze", "discard", "fail"]
                events = [NewEvent(name, attempts=3) for name in names]
                pushed = await client.push_many("q", events)
                await until("all begin", lambda: len(seen) >= 5)
                await asyncio.to_thread(duly_server.advance, hours=24, settle=60)
                states = [(await client.explain("q", event.id))["state"] for event in pushed]
                assert states == ["done", "done", "done", "discarded", "dead"]
            attempts = {name: [at for one, at in seen if one == name] for name in names}
            assert attempts["retry"] == [1, 2, 3]
            assert attempts["snooze"] == [1, 1, 1]
            assert attempts["fail"] == [1, 2, 3]

    asyncio.run(case())


def test_a_handler_whose_lease_was_lost_is_cancelled(duly_server: TestServer, place: Place) -> None:
    begun: list[int] = []
    cancelled: list[int] = []

    async def handle(payload: int, context: Context) -> None:
        begun.append(context.attempt)
        if context.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(payload)
                raise

    async def case() -> None:
        async with AsyncClient(**place) as client:
            async with running(Worker(client, "q", handle, ttr=1)):
                pushed = await client.push("q", 7, attempts=3)
                await until("it begins", lambda: begun == [1])
                await asyncio.to_thread(duly_server.advance, 1)
                await until("it is cancelled", lambda: cancelled == [7])
                await asyncio.to_thread(duly_server.advance, hours=1, settle=60)
                await until("it runs again", lambda: begun == [1, 2])
            assert (await client.explain("q", pushed.id))["state"] == "done"

    asyncio.run(case())


def test_no_more_run_at_a_time_than_allowed(place: Place) -> None:
    lock, done = threading.Lock(), []
    now = most = 0
    all_in = threading.Barrier(3)

    def handle(payload: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        all_in.wait()
        with lock:
            now -= 1
            done.append(payload)

    async def case() -> None:
        async with AsyncClient(**place) as client:
            await client.push_many("q", [NewEvent(number) for number in range(30)])
            async with running(Worker(client, "q", handle, concurrency=3)):
                await until("all are done", lambda: len(done) == 30)

    asyncio.run(case())
    assert most == 3
    assert sorted(done) == list(range(30))


def test_a_stop_lets_handlers_end_and_costs_others_no_attempt(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()
    begun: list[int] = []

    async def handle(payload: int) -> None:
        begun.append(payload)
        await go.wait()

    async def case() -> None:
        async with AsyncClient(**place) as client:
            await client.push_many("q", [NewEvent(number, attempts=9) for number in range(10)])
            worker = Worker(client, "q", handle, concurrency=4)
            async with running(worker) as task:
                await until("four run", lambda: len(begun) == 4)
                worker.stop()
                await asyncio.sleep(0)
                assert not task.done()
                go.set()
                await task
            left = await client.lease("q", limit=100)
            # What was handed back may come in any order.
            assert sorted((lease.payload(), lease.attempt) for lease in left) == [
                (number, 1) for number in range(10) if number not in begun
            ]

    asyncio.run(case())
    assert len(begun) == 4
    assert caplog.text == "", "a stream that ends as it was told to is nothing to warn of"


def test_a_stop_hands_back_what_takes_longer_than_its_grace(place: Place) -> None:
    begun: list[int] = []

    async def handle(payload: int) -> None:
        begun.append(payload)
        await asyncio.Event().wait()

    async def case() -> None:
        async with AsyncClient(**place) as client:
            await client.push("q", 1, attempts=9)
            async with running(Worker(client, "q", handle, grace=0)):
                await until("it runs", lambda: begun == [1])
            (lease,) = await client.lease("q", wait=8)
            assert lease.attempt == 1

    asyncio.run(case())


def test_a_timeout_and_a_wrong_payload_end_an_attempt(
    duly_server: TestServer, place: Place
) -> None:
    async def handle(payload: Order) -> None:
        await asyncio.Event().wait()

    async def case() -> None:
        client = AsyncClient(**place)
        async with client, running(Worker(client, "q", handle, timeout=0.05)):
            slow = await client.push("q", Order(1), attempts=1)
            wrong = await client.push("q", {"number": 1}, attempts=9)
            for event in (slow, wrong):
                state = None
                while state != "dead":
                    await asyncio.sleep(0.01)
                    state = (await client.explain("q", event.id))["state"]

    asyncio.run(case())


def test_a_worker_without_a_right_ends_with_the_reason(place: Place) -> None:
    async def handle(payload: object) -> None: ...

    async def case() -> None:
        async with AsyncClient(place["url"], token="wrong", namespace="ns") as client:
            worker = Worker(client, "q", handle)
            with pytest.raises(DeniedError, match="401"):
                await worker.run()

    asyncio.run(case())


def test_a_task_is_pushed_here_and_run_there(duly_server: TestServer, app: App) -> None:
    closed: list[Order] = []

    @app.task(queue="close", attempts=5, timeout=30)
    def close(order: Order) -> None:
        closed.append(order)

    async def case() -> None:
        working = asyncio.create_task(app.arun(signals=False))
        await close.apush_many([close.event(Order(2), delay=60), close.event(Order(3))])
        await until("one is closed", lambda: len(closed) == 1)
        await asyncio.to_thread(duly_server.advance, minutes=30, settle=60)
        working.cancel()
        await asyncio.wait({working})

    pushed = close.push(Order(1), delay=1_800)
    assert app.client.get("close", pushed.id).attempts_left == 5
    asyncio.run(case())
    assert closed == [Order(3), Order(2), Order(1)]
    close(Order(4))  # as before
    assert closed[-1] == Order(4)


@pytest.mark.parametrize("has_handlers", [True, False])
def test_two_workers_of_a_loop_are_both_stopped_by_a_signal(
    app: App, place: Place, has_handlers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_handlers:  # as on Windows
        for name in ("add_signal_handler", "remove_signal_handler"):
            lacking = getattr(asyncio.AbstractEventLoop, name)
            monkeypatch.setattr(asyncio.SelectorEventLoop, name, lacking)

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        app.task(queue="tasks")(handle)
        async with AsyncClient(**place) as client:
            workers = [Worker(client, "q", handle) for _ in range(3)]
            runs = [asyncio.create_task(worker.run(signals=True)) for worker in workers]
            runs.append(asyncio.create_task(app.arun()))
            await asyncio.sleep(0)
            # The first and the last that end leave the signals to the others.
            for one in (0, 2):
                workers[one].stop()
                await runs[one]
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.gather(*runs)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    asyncio.run(case())


def test_any_thread_stops_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.worker.DRAIN_MAX", 0.01)
    server = StandIn()

    async def handle(payload: int) -> None: ...

    async def case() -> None:
        async with server.client() as client:
            worker = Worker(client, "q", handle)
            run = asyncio.create_task(worker.run())
            await until("it streams", lambda: server.streams == 1)
            await asyncio.to_thread(worker.stop)
            await run
            await asyncio.to_thread(worker.stop)  # once more, as it may be

    asyncio.run(case(), debug=True)  # which refuses what does not wake the loop


def test_a_client_of_a_task_costs_no_reading_of_certificates(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    load = ssl.SSLContext.load_verify_locations

    def count(context: ssl.SSLContext, *arguments: Any) -> None:
        read.append(arguments)
        load(context, *arguments)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", count)
    close = app.task(queue="close")(lambda payload: None)

    async def case() -> None:
        for number in range(5):
            await close.apush(number)

    asyncio.run(case())
    app.client.push("close", 5)
    assert len(read) <= 1


def test_a_thousand_handlers_run_at_a_time(place: Place) -> None:
    begun: list[int] = []
    done: set[int] = set()

    async def case() -> None:
        all_are_in = asyncio.Event()

        async def handle(payload: int) -> None:
            begun.append(payload)
            if len(begun) == 1_000:
                all_are_in.set()
            await all_are_in.wait()
            done.add(payload)

        async with AsyncClient(**place) as client:
            await client.push_many("q", map(NewEvent, range(1_000)))
            async with running(Worker(client, "q", handle, concurrency=1_000, ttr=600, grace=600)):
                await until("all are done", lambda: len(done) == 1_000)
            assert await client.lease("q") == []

    asyncio.run(case())
    assert len(begun) == 1_000
