"""An app: its connections, its options, and where its workers run."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from duly import App, AsyncClient, UsageError

from .conftest import until


def test_pushes_of_a_loop_share_its_connections(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    connect = asyncio.BaseEventLoop.create_connection

    async def count(loop: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(arguments)
        return await connect(loop, *arguments, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", count)
    close = app.task(queue="close")(print)
    clients: list[AsyncClient] = []

    async def push(number: int) -> None:
        for one in range(number):
            await close.apush(one)
        clients.append(await app._shared_client())
        await asyncio.gather(*(close.apush(one) for one in range(5)))

    async def push_around_a_close() -> None:
        await push(2)
        await app.aclose()
        assert clients[-1]._http.is_closed
        await push(2)
        await app.aclose()
        await app.aclose()  # once more, as it may be

    asyncio.run(push(50))
    assert 1 <= len(opened) <= 5
    assert clients[0]._http.is_closed, "with its loop"
    for _ in range(4):
        asyncio.run(push(1))
        assert len(app._shared) == 1, "those of loops that are over are gone"
    asyncio.run(push_around_a_close())
    assert len({id(client) for client in clients}) == 7
    assert all(client._http.is_closed for client in clients)
    assert app.client.stats("close")["ready"] == 50 + 4 + 4 + 7 * 5


def test_a_task_pushes_with_all_that_an_event_has(app: App) -> None:
    close = app.task(queue="close", attempts=5)(print)
    identity = "01KBKSY8Q3X4H1W9V0T5RZ7M2C"
    body = close.event(1, keep_payload=True, id=identity).body()
    assert (body["keep_payload"], body["id"], body["attempts"]) == (True, identity, 5)
    assert close.push(1, keep_payload=True, id=identity).id == identity
    assert "keep_payload" not in close.event(1).body()
    with pytest.raises(UsageError, match="attempts is 0"):
        close.event(1, attempts=0).body()


@pytest.mark.parametrize(("grace", "ends"), [(0.05, False), (30.0, True)])
def test_a_stop_waits_for_as_long_as_the_app_says(app: App, grace: float, ends: bool) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    @app.task(queue="video")
    async def work(payload: int) -> None:
        begun.set()
        try:
            await until("it may end", goes_on.is_set)
            ended.append(True)
        except asyncio.CancelledError:
            ended.append(False)
            raise

    def stop() -> None:
        begun.wait(30)
        os.kill(os.getpid(), signal.SIGTERM)
        if ends:
            goes_on.set()

    app.client.push("video", 1)
    stopping = threading.Thread(target=stop)
    stopping.start()
    app.run(grace=grace)
    stopping.join()
    assert ended == [ends]


def test_workers_run_in_another_thread_than_the_main_one(app: App) -> None:
    done = threading.Event()

    @app.task(queue="close")
    def close(payload: int) -> None:
        done.set()

    close.push(1)
    # It lives as long as this process, as beside a server of pages.
    threading.Thread(target=app.run, kwargs={"signals": False}, daemon=True).start()
    assert done.wait(30)
